"""region_decode: YOLOv2's boxes."""
from ..harness.cases import NEARLY_AS_FAST_AS_A_COPY, Row, always

MAP = {"layout": "map"}
VOC = {"anchors": (1.3221, 1.73145, 3.19275, 4.00944, 5.05587, 8.09892, 9.47112, 4.84053, 11.2364, 10.0071),
       "classes": 20}
COMMITS = [Row((16, 125, 13, 13), VOC), Row((16, 125, 13, 13), {**VOC, **MAP})]

TWO_ANCHORS = {"anchors": (1.5, 0.5, 0.75, 2.0), "classes": 3}
TYPICAL = [Row((2, 16, 5, 9), TWO_ANCHORS)]
SMALL = [Row((1, 16, 3, 5), TWO_ANCHORS)]
VARIANTS = [
    Row((1, 16, 3, 5), {**TWO_ANCHORS, **MAP}),
    Row((1, 16, 3, 5), {**TWO_ANCHORS, "softmax": False}),
    Row((1, 2010, 2, 3), {**TWO_ANCHORS, "classes": 1000}),   # too many for shared memory
    Row((3, 170, 5, 7), {**TWO_ANCHORS, "classes": 80}),
]
GPU = [
    Row((512, 125, 19, 19)),
    Row((256, 425, 19, 19), {"classes": 80}),
]
GPU_TARGETS = NEARLY_AS_FAST_AS_A_COPY
independent = always
