"""group_norm: of feature maps."""
from ..harness.cases import Row, Target

CPU = [Row((16, 64, 76, 76))]

# A warp for a group; a block; groups of rows; a group of two blocks, in packs.
TYPICAL = [Row((2, 6, 3, 7), {"num_groups": 3}), Row((1, 4, 1031), {"num_groups": 2}), Row((9, 64), {"num_groups": 4}),
           Row((2, 4, 2112), {"num_groups": 2})]
SMALL = [Row((3, 6, 5), {"num_groups": 2}), Row((2, 20, 30), {"num_groups": 1}), Row((5, 33), {"num_groups": 1})]
# Groups of one and of two elements: what is left of the head gradient is small.
VARIANTS = [
    Row((2, 3, 37), {"num_groups": 3, "eps": 0.1}),
    Row((70, 2), {"num_groups": 2}),
    Row((70, 2), {"num_groups": 1}),
]
GPU = [Row((32, 256, 56, 56)), Row((32, 2048, 7, 7)), Row((32, 256, 56, 56), dtype="float16")]
GPU_TARGETS = [Target("both", "copy", 0.85)]


def in_torch(attrs, ndim):
    def group_norm(torch, data, gamma, beta):
        return torch.nn.functional.group_norm(data, attrs["num_groups"], gamma, beta, attrs["eps"])

    return group_norm
