"""softmax_focal_loss: of rows of classes, with class indices."""
from ..harness.cases import Row, Target, unless_along_first
from .softmax import ROWS, SIZES

CPU = [Row((8192, 1000)), Row((256, 32000))]

TYPICAL = ROWS
SMALL = [Row((9, 33))]
VARIANTS = [
    Row((2, 1031, 5), {"axis": 1}),
    Row((2, 21, 6), {"axis": 1}),   # columns
    Row((9, 5), {"alpha": (0.5, 2.0, 0.0, 1.0, 0.25), "ignore_label": 3, "gamma": 0.5}),
    Row((2, 33001), {"gamma": 0.0}),
]
GPU = SIZES
GPU_TARGETS = [Target("both", "copy", 0.85)]
independent = unless_along_first


def in_torch(attrs, ndim):
    """The usual composition: (1 - p)^gamma times the cross-entropy."""
    if attrs["alpha"] or attrs["ignore_label"] is not None or attrs["axis"] % ndim != 1:
        return None

    def focal_loss(torch, data, label):
        nll = torch.nn.functional.cross_entropy(data, label, reduction="none")
        return (1 - torch.exp(-nll)) ** attrs["gamma"] * nll

    return focal_loss
