"""yolo_loss: the loss of YOLOv3's to YOLOv7's heads; NumPy computes it box by box."""
from ..harness.cases import NEARLY_AS_FAST_AS_A_COPY, Row, always

ALEXEYAB = {"dialect": "alexeyab", "box_loss": "ciou", "iou_thresh": 0.213}
COMMITS = [Row((16, 255, 13, 13), attrs, {"truth": (16, 30, 5)}) for attrs in ({}, ALEXEYAB)]

TWO_ANCHORS = {"anchors": (1.5, 0.5, 0.75, 2.0), "other_anchors": (3, 3), "classes": 3}
V4 = {**TWO_ANCHORS, **ALEXEYAB, "scale_x_y": 1.1}
TYPICAL = [Row((2, 16, 5, 9), TWO_ANCHORS, {"truth": (2, 7, 5)})]
SMALL = [Row((1, 16, 3, 5), TWO_ANCHORS, {"truth": (1, 4, 5)})]
VARIANTS = [
    Row((1, 16, 3, 5), V4, {"truth": (1, 9, 5)}),
    Row((1, 16, 3, 5), {**V4, "box_loss": "giou", "focal_loss": True, "truth_thresh": 0.5}, {"truth": (1, 9, 5)}),
    Row((2, 16, 20, 30), TWO_ANCHORS, {"truth": (2, 150, 5)}),   # several blocks per image
]
GPU = [
    Row((256, 255, 19, 19), {"classes": 80}, {"truth": (256, 30, 5)}),
    Row((256, 255, 19, 19), {"classes": 80, **ALEXEYAB}, {"truth": (256, 30, 5)}),
]
GPU_TARGETS = NEARLY_AS_FAST_AS_A_COPY
ALL_OUTPUTS = {"parts": True}
COMPARED = 1 << 17
independent = always
