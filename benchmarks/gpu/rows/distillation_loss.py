"""distillation_loss: of rows of classes, which are those of softmax."""
from ..cases import Row, Target

# A few threads for a row, a block.
TYPICAL = [Row((37, 7)), Row((5, 1031))]
SMALL = [Row((9, 33))]
VARIANTS = [Row((3, 5, 7), {"axis": 1, "temperature": 1.0}), Row((2, 5, 8200), {"axis": 1})]
LARGE = [Row((8192, 1000)), Row((65536, 1000), dtype="float16"), Row((8192, 32000))]
TARGETS = [Target("both", "copy", 0.85)]


def independent(attrs: dict, ndim: int) -> bool:
    return attrs["axis"] % ndim != 0
