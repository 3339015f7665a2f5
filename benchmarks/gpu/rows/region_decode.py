"""region_decode: YOLOv2's boxes."""
from ..cases import NEARLY_AS_FAST_AS_A_COPY, Row

TWO_ANCHORS = {"anchors": (1.5, 0.5, 0.75, 2.0), "classes": 3}
TYPICAL = [Row((2, 16, 5, 9), TWO_ANCHORS)]
SMALL = [Row((1, 16, 3, 5), TWO_ANCHORS)]
VARIANTS = [
    Row((1, 16, 3, 5), {**TWO_ANCHORS, "layout": "map"}),
    Row((1, 16, 3, 5), {**TWO_ANCHORS, "softmax": False}),
    Row((1, 2010, 2, 3), {**TWO_ANCHORS, "classes": 1000}),   # too many for shared memory
    Row((3, 170, 5, 7), {**TWO_ANCHORS, "classes": 80}),
]
LARGE = [
    Row((512, 125, 19, 19)),
    Row((256, 425, 19, 19), {"classes": 80}),
]
TARGETS = NEARLY_AS_FAST_AS_A_COPY


def independent(attrs: dict, ndim: int) -> bool:
    return True
