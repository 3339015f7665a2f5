"""abs: moves its data."""
import numpy as np

from ..harness.cases import AS_FAST_AS_A_COPY, Row, Target, always

CPU = [Row((64, 64, 52, 52)), Row((8192, 1000))]
CHAINED = [Row((1, 16, 16, 16))]
COMMITS = [Row((32, 64, 26, 26), dtype="float16"), Row((32, 64, 26, 26), dtype="int8")]
TARGETS = [
    Target("forward", "copy", 1 / 1.3),
    Target("backward", "copy", 1 / 1.3),
    *(Target(part, than, 1) for than in ("torch", "mxnet") for part in ("forward", "backward")),
]

TYPICAL = SMALL = [Row((7, 149))]
GPU = [*(Row((size, 64, 64, 64)) for size in (64, 256, 1024)), Row((512, 64, 64, 64), dtype="float16")]
GPU_TARGETS = AS_FAST_AS_A_COPY
EXACT = ("output", "data_grad")
independent = always


def in_torch(attrs, ndim):
    return lambda torch, data: torch.abs(data)


def in_numpy(attrs):
    return np.abs, lambda head, data: head * np.sign(data)
