"""swish: element by element."""
from ..cases import AS_FAST_AS_A_COPY, Row

TYPICAL = SMALL = [Row((7, 149))]
VARIANTS = [Row((3, 5), {"beta": 2.5})]
LARGE = [Row((256, 64, 64, 64)), Row((512, 64, 64, 64), dtype="float16")]
TARGETS = AS_FAST_AS_A_COPY


def independent(attrs: dict, ndim: int) -> bool:
    return True
