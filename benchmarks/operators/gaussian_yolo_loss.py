"""gaussian_yolo_loss: the loss of Gaussian YOLOv3's heads; NumPy computes it box by box."""
from ..harness.cases import NEARLY_AS_FAST_AS_A_COPY, Row, always

COMMITS = [Row((16, 57, 13, 13), {"classes": 10}, {"truth": (16, 30, 5)})]

TWO_ANCHORS = {"anchors": (1.5, 0.5, 0.75, 2.0), "other_anchors": (3, 3), "classes": 3}
SMOOTH = {**TWO_ANCHORS, "objectness_smooth": True, "truth_thresh": 0.5, "ignore_thresh": 0.2, "point": "left_top"}
TYPICAL = [Row((2, 24, 5, 9), TWO_ANCHORS, {"truth": (2, 7, 5)})]
SMALL = [Row((1, 24, 3, 5), TWO_ANCHORS, {"truth": (1, 4, 5)})]
VARIANTS = [
    Row((1, 24, 3, 5), {**TWO_ANCHORS, "box_loss": "giou", "iou_thresh": 0.213}, {"truth": (1, 9, 5)}),
    Row((1, 24, 3, 5), SMOOTH, {"truth": (1, 9, 5)}),
]
GPU = [Row((256, 57, 19, 19), {"classes": 10, "box_loss": "giou", "iou_thresh": 0.213}, {"truth": (256, 30, 5)})]
GPU_TARGETS = NEARLY_AS_FAST_AS_A_COPY
ALL_OUTPUTS = {"parts": True}
COMPARED = 1 << 17
independent = always
