"""margin_softmax_cross_entropy: over rows of classes, up to those of face recognition."""
from ..cases import Row, Target

TYPICAL = [Row((37, 7)), Row((5, 1031)), Row((2, 40011))]   # a few threads per row, a block, several blocks
SMALL = [Row((9, 33))]
VARIANTS = [
    Row((9, 33), {"m1": 4.0, "m2": 0.0, "scale": 8.0}),
    Row((9, 33), {"m1": 0.9, "m2": 0.4, "m3": 0.15, "easy_margin": True}),
    Row((9, 33), {"m2": 0.0, "m3": 0.35, "ignore_label": 3}),
    Row((3, 5, 100), {"ignore_label": -1}),
    Row((9, 5), {"class_weight": (0.5, 2.0, 0.0, 1.0, 0.25)}),
    Row((2, 33001), {"m1": 1.35, "m2": 0.0, "scale": 16.0}),
]
LARGE = [
    Row((8192, 1000)),
    Row((512, 100000)),
    Row((512, 100000), dtype="float16"),
    Row((128, 1048576), dtype="float16"),
]
TARGETS = [Target("both", "copy", 0.85)]


def independent(attrs: dict, ndim: int) -> bool:
    return True
