"""tile: copies its data."""
import numpy as np

from ..harness.cases import AS_FAST_AS_A_COPY, Row, Target

CPU = [Row((64, 32, 52, 52), {"tiles": 2, "axis": 1}), Row((8192, 500), {"tiles": 2})]
COMMITS = [
    Row((32, 64, 26, 26), {"tiles": 2}),
    Row((32, 64, 26, 26), {"tiles": 2, "axis": 2}),
    Row((100000, 4), {"tiles": 3}),
    Row((100000, 2), {"tiles": (3, 2)}),
    Row((50000, 3), {"tiles": (2, 2)}),
    *(Row((32, 64, 26, 26), {"tiles": 2}, dtype=dtype) for dtype in ("float16", "float64", "int8")),
]
TARGETS = [
    Target("forward", "copy", 1 / 1.3),
    Target("backward", "copy", 1 / 1.3),
    *(Target(part, than, 1) for than in ("torch", "mxnet") for part in ("forward", "backward")),
]

TYPICAL = [
    Row((7, 13), {"tiles": 3}),
    Row((5, 3, 7), {"tiles": 2, "axis": 1}),
    Row((1, 48), {"tiles": 300, "axis": 0}),   # threads share the copies
]
SMALL = [Row((7, 13), {"tiles": 3})]
VARIANTS = [
    Row((2, 3, 2, 5), {"tiles": (2, 1, 3, 1)}),
    Row((2, 3, 2, 8), {"tiles": (2, 1, 3, 1)}),
    Row((1, 100), {"tiles": 3000, "axis": 0}),   # several blocks share the copies
]
GPU = [
    *(Row((size, 64, 64, 64), {"tiles": 2, "axis": axis}) for size in (64, 256) for axis in (1, -1)),
    Row((1, 1000), {"tiles": 65536, "axis": 0}),
    Row((1 << 22, 7), {"tiles": 3}),
    *(Row((512, 64, 64, 64), {"tiles": 2, "axis": axis}, dtype="float16") for axis in (1, -1)),
]
GPU_TARGETS = AS_FAST_AS_A_COPY
EXACT = ("output",)


def independent(attrs, ndim):
    return isinstance(attrs["tiles"], int) and attrs["axis"] % ndim != 0


def in_torch(attrs, ndim):
    if not isinstance(attrs["tiles"], int):
        return None
    counts = [1] * ndim
    counts[attrs["axis"]] = attrs["tiles"]
    return lambda torch, data: torch.tile(data, counts)


def in_numpy(attrs):
    """Along one axis."""
    tiles, axis = attrs["tiles"], attrs["axis"]

    def backward(head, data):
        split = axis % data.ndim
        return head.reshape(*data.shape[:split], tiles, *data.shape[split:]).sum(axis=split)

    return lambda data: np.concatenate([data] * tiles, axis), backward
