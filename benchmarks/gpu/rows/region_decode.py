"""region_decode: YOLOv2's boxes."""
from ..cases import Row

TWO_ANCHORS = {"anchors": (1.5, 0.5, 0.75, 2.0), "classes": 3}
TYPICAL = [Row((2, 16, 5, 9), TWO_ANCHORS)]
SMALL = [Row((1, 16, 3, 5), TWO_ANCHORS)]
VARIANTS = [
    Row((1, 16, 3, 5), {**TWO_ANCHORS, "layout": "map"}),
    Row((1, 16, 3, 5), {**TWO_ANCHORS, "softmax": False}),
]
LARGE = [Row((512, 125, 19, 19))]


def independent(attrs: dict, ndim: int) -> bool:
    return True
