"""abs: moves its data."""
from ..cases import Row, Target

TYPICAL = SMALL = [Row((7, 149))]
LARGE = [*(Row((size, 64, 64, 64)) for size in (64, 256, 1024)), Row((512, 64, 64, 64), dtype="float16")]
EXACT = ("output", "data_grad")
TARGETS = [
    Target("forward", "copy", 0.9),
    Target("backward", "copy", 0.9),
    Target("forward", "torch", 1),
    Target("both", "torch", 1),
]


def independent(attrs, ndim):
    return True


def in_torch(F, attrs, ndim):
    return lambda data, _: data.abs()
