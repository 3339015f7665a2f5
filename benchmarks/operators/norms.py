"""Normalizations: of feature maps and of rows, with a scale."""
from ..harness.declaration import BOTH_NEARLY_AS_FAST, Declaration, Row


class group_norm(Declaration):
    CPU = [Row((16, 64, 76, 76))]
    # A warp for a group; a block; groups of rows; a group of two blocks, in packs.
    TYPICAL = [Row((2, 6, 3, 7), {"num_groups": 3}), Row((1, 4, 1031), {"num_groups": 2}),
               Row((9, 64), {"num_groups": 4}), Row((2, 4, 2112), {"num_groups": 2})]
    SMALL = [Row((3, 6, 5), {"num_groups": 2}), Row((2, 20, 30), {"num_groups": 1}), Row((5, 33), {"num_groups": 1})]
    # Groups of one and of two elements: what is left of the head gradient is small.
    VARIANTS = [
        Row((2, 3, 37), {"num_groups": 3, "eps": 0.1}),
        Row((70, 2), {"num_groups": 2}),
        Row((70, 2), {"num_groups": 1}),
    ]
    GPU = [Row((32, 256, 56, 56)), Row((32, 2048, 7, 7)), Row((32, 256, 56, 56), dtype="float16")]
    GPU_TARGETS = BOTH_NEARLY_AS_FAST

    def in_torch(self, attrs, ndim):
        return lambda torch, data, gamma, beta: torch.nn.functional.group_norm(
            data, attrs["num_groups"], gamma, beta, attrs["eps"])


class l2_normalize(Declaration):
    CPU = [Row((16, 64, 76, 76))]
    TYPICAL = [Row((2, 5, 3, 7)), Row((9, 64, 6, 6))]
    SMALL = [Row((3, 33, 5, 1))]
    VARIANTS = [Row((37, 8), {"axis": -1})]
    GPU = [Row((64, 512, 38, 38)), Row((64, 512, 38, 38), dtype="float16")]
    GPU_TARGETS = BOTH_NEARLY_AS_FAST

    def in_torch(self, attrs, ndim):
        axis = attrs["axis"] % ndim
        shape = [-1] + [1] * (ndim - 1 - axis)   # broadcasts against the data
        return lambda torch, data, scale: torch.nn.functional.normalize(data, dim=axis) * scale.reshape(shape)


class rms_norm(Declaration):
    CPU = [Row((8192, 1000))]
    # A thread or a few for a row, a block, and slices of the samples.
    TYPICAL = [Row((37, 8)), Row((5, 1031)), Row((300, 64))]
    SMALL = [Row((9, 33)), Row((130, 24))]
    VARIANTS = [Row((3, 5, 2, 7), {"axis": 1}), Row((300, 5), {"axis": 0})]
    GPU = [Row((8192, 1024)), Row((8192, 8192)), Row((65536, 1024), dtype="float16")]
    GPU_TARGETS = BOTH_NEARLY_AS_FAST

    def in_torch(self, attrs, ndim):
        """torch normalizes over the last axes."""
        if attrs["axis"] % ndim != ndim - 1:
            return None
        return lambda torch, data, scale: torch.nn.functional.rms_norm(data, data.shape[-1:], scale, attrs["eps"])
