"""yolo_loss: the loss of YOLOv3's to YOLOv7's heads; NumPy computes it box by box."""
from ..cases import NEARLY_AS_FAST_AS_A_COPY, Row

TWO_ANCHORS = {"anchors": (1.5, 0.5, 0.75, 2.0), "other_anchors": (3, 3), "classes": 3}
V4 = {**TWO_ANCHORS, "dialect": "alexeyab", "box_loss": "ciou", "iou_thresh": 0.213, "scale_x_y": 1.1}
TYPICAL = [Row((2, 16, 5, 9), TWO_ANCHORS, {"truth": (2, 7, 5)})]
SMALL = [Row((1, 16, 3, 5), TWO_ANCHORS, {"truth": (1, 4, 5)})]
VARIANTS = [
    Row((1, 16, 3, 5), V4, {"truth": (1, 9, 5)}),
    Row((1, 16, 3, 5), {**V4, "box_loss": "giou", "focal_loss": True, "truth_thresh": 0.5}, {"truth": (1, 9, 5)}),
    Row((2, 16, 20, 30), TWO_ANCHORS, {"truth": (2, 150, 5)}),   # several blocks per image
]
LARGE = [
    Row((256, 255, 19, 19), {"classes": 80}, {"truth": (256, 30, 5)}),
    Row((256, 255, 19, 19), {"classes": 80, "dialect": "alexeyab", "box_loss": "ciou", "iou_thresh": 0.213},
        {"truth": (256, 30, 5)}),
]
ALL_OUTPUTS = {"parts": True}
TARGETS = NEARLY_AS_FAST_AS_A_COPY
COMPARED = 1 << 17


def independent(attrs: dict, ndim: int) -> bool:
    return True
