"""softmax_focal_loss: of rows of classes."""
from ..cases import Row, Target
from .softmax import ROWS, SIZES

TYPICAL = ROWS
SMALL = [Row((9, 33))]
VARIANTS = [
    Row((2, 1031, 5), {"axis": 1}),
    Row((2, 21, 6), {"axis": 1}),   # columns
    Row((9, 5), {"alpha": (0.5, 2.0, 0.0, 1.0, 0.25), "ignore_label": 3, "gamma": 0.5}),
    Row((2, 33001), {"gamma": 0.0}),
]
LARGE = SIZES
TARGETS = [Target("both", "copy", 0.85)]


def independent(attrs: dict, ndim: int) -> bool:
    return attrs["axis"] % ndim != 0
