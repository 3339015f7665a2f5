"""l2_normalize: over the channels of feature maps, with a scale."""
from ..harness.cases import Row, Target

CPU = [Row((16, 64, 76, 76))]

TYPICAL = [Row((2, 5, 3, 7)), Row((9, 64, 6, 6))]
SMALL = [Row((3, 33, 5, 1))]
VARIANTS = [Row((37, 8), {"axis": -1})]
GPU = [Row((64, 512, 38, 38)), Row((64, 512, 38, 38), dtype="float16")]
GPU_TARGETS = [Target("both", "copy", 0.85)]


def in_torch(attrs, ndim):
    axis = attrs["axis"] % ndim
    shape = [-1] + [1] * (ndim - 1 - axis)   # broadcasts against the data
    return lambda torch, data, scale: torch.nn.functional.normalize(data, dim=axis) * scale.reshape(shape)
