"""swiglu: element by element of two halves."""
from ..cases import Row, Target

TYPICAL = SMALL = [Row((7, 2 * 149)), Row((3, 64))]
VARIANTS = [Row((2, 6, 5, 3), {"axis": 1}), Row((2, 6, 4, 4), {"axis": 1})]
LARGE = [Row((65536, 2048)), Row((65536, 2048), dtype="float16"), Row((64, 128, 64, 64), {"axis": 1})]
TARGETS = [Target("forward", "torch", 1), Target("both", "torch", 1)]


def independent(attrs: dict, ndim: int) -> bool:
    return attrs["axis"] % ndim != 0
