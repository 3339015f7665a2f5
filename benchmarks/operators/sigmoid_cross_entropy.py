"""sigmoid_cross_entropy: of rows of classes, each of them positive or not."""
from ..harness.cases import Row, Target

CPU = [Row((8192, 1000))]

TYPICAL = SMALL = [Row((7, 149)), Row((3, 64))]
VARIANTS = [Row((9, 5), {"pos_weight": (0.5, 2.0, 0.0, 1.0, 7.0), "ignore_label": 1}),
            Row((2, 5, 7), {"pos_weight": (0.5, 2.0, 0.0, 1.0, 7.0), "axis": 1})]
GPU = [Row((65536, 1024)), Row((65536, 1024), dtype="float16")]
GPU_TARGETS = [Target("both", "copy", 0.85)]


def in_torch(attrs, ndim):
    def cross_entropy(torch, data, label):
        return torch.nn.functional.binary_cross_entropy_with_logits(data, label, reduction="none")

    return cross_entropy if attrs["pos_weight"] is attrs["ignore_label"] is None else None
