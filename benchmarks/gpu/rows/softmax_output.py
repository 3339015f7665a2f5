"""softmax_output: Module's loss head."""
from ..cases import Row, Target
from .softmax import IMAGES, ROWS

TYPICAL = ROWS
SMALL = [Row((9, 33))]
VARIANTS = [
    Row((2, 1031, 5), {"axis": 1}),
    Row((9, 33), {"ignore_label": 2, "normalization": "valid"}),
    Row((9, 33), {"normalization": "batch"}),
    Row((2, 5, 7), {"axis": 1, "ignore_label": 255, "normalization": "valid", "grad_scale": -0.5}),
    Row((2, 33001), {"ignore_label": -1, "normalization": "valid"}),
]
LARGE = [
    Row((65536, 1000)),
    Row((65536, 1000), dtype="float16"),
    Row(IMAGES, {"axis": 1}),
    Row((256, 131072)),
]
TARGETS = [Target("both", "copy", 0.85)]


def independent(attrs: dict, ndim: int) -> bool:
    return attrs["axis"] % ndim != 0 and attrs["normalization"] == "null"
