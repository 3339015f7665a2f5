"""softmax_output: Module's loss head."""
from ..harness.cases import Row, Target
from .softmax import AXIS_1, IMAGES, ROWS, minus_one_hot, probabilities

CPU = [Row((8192, 1000))]
COMMITS = [*AXIS_1, Row((1024, 1000), dtype="float16")]
TARGETS = ()

TYPICAL = ROWS
SMALL = [Row((9, 33))]
VARIANTS = [
    Row((2, 1031, 5), {"axis": 1}),
    Row((9, 33), {"ignore_label": 2, "normalization": "valid"}),
    Row((9, 33), {"normalization": "batch"}),
    Row((2, 5, 7), {"axis": 1, "ignore_label": 255, "normalization": "valid", "grad_scale": -0.5}),
    Row((2, 33001), {"ignore_label": -1, "normalization": "valid"}),
]
GPU = [
    Row((65536, 1000)),
    Row((65536, 1000), dtype="float16"),
    Row(IMAGES, {"axis": 1}),
    Row((256, 131072)),
]
GPU_TARGETS = [Target("both", "copy", 0.85)]


def independent(attrs, ndim):
    return attrs["axis"] % ndim != 0 and attrs["normalization"] == "null"


def in_numpy(attrs):
    return lambda data, label: probabilities(data), lambda head, data, label: minus_one_hot(data, label)
