"""tile: copies its data."""
from ..cases import AS_FAST_AS_A_COPY, Row

TYPICAL = [
    Row((7, 13), {"tiles": 3}),
    Row((5, 3, 7), {"tiles": 2, "axis": 1}),
    Row((1, 48), {"tiles": 300, "axis": 0}),   # whose copies are shared
]
SMALL = [Row((7, 13), {"tiles": 3})]
VARIANTS = [
    Row((2, 3, 2, 5), {"tiles": (2, 1, 3, 1)}),
    Row((2, 3, 2, 8), {"tiles": (2, 1, 3, 1)}),
    Row((1, 100), {"tiles": 3000, "axis": 0}),   # whose copies are shared by several blocks
]
LARGE = [
    *(Row((size, 64, 64, 64), {"tiles": 2, "axis": axis}) for size in (64, 256) for axis in (1, -1)),
    Row((1, 1000), {"tiles": 65536, "axis": 0}),
    Row((1 << 22, 7), {"tiles": 3}),
    *(Row((512, 64, 64, 64), {"tiles": 2, "axis": axis}, dtype="float16") for axis in (1, -1)),
]
EXACT = ("output",)
TARGETS = AS_FAST_AS_A_COPY


def independent(attrs: dict, ndim: int) -> bool:
    return isinstance(attrs["tiles"], int) and attrs["axis"] % ndim != 0
