"""abs: moves its data."""
from ..cases import AS_FAST_AS_A_COPY, Row

TYPICAL = SMALL = [Row((7, 149))]
LARGE = [*(Row((size, 64, 64, 64)) for size in (64, 256, 1024)), Row((512, 64, 64, 64), dtype="float16")]
EXACT = ("output", "data_grad")
TARGETS = AS_FAST_AS_A_COPY


def independent(attrs: dict, ndim: int) -> bool:
    return True
