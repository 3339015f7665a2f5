"""region_loss: YOLOv2's loss; NumPy computes it box by box."""
from ..cases import NEARLY_AS_FAST_AS_A_COPY, Row
from .region_decode import TWO_ANCHORS

TYPICAL = [Row((2, 16, 5, 9), TWO_ANCHORS, {"truth": (2, 7, 5)})]
SMALL = [Row((1, 16, 3, 5), TWO_ANCHORS, {"truth": (1, 4, 5)})]
VARIANTS = [
    Row((1, 16, 3, 5), {**TWO_ANCHORS, "softmax": False, "rescore": False, "bias_match": False}, {"truth": (1, 9, 5)}),
    Row((1, 16, 3, 5), {**TWO_ANCHORS, "box_loss": "giou"}, {"truth": (1, 4, 5)}),
    Row((1, 125, 6, 7), {"warmup_images": 0}, {"truth": (1, 30, 5)}),
    Row((2, 16, 20, 30), TWO_ANCHORS, {"truth": (2, 150, 5)}),   # several blocks per image
]
LARGE = [Row((512, 125, 19, 19), more={"truth": (512, 30, 5)})]
ALL_OUTPUTS = {"parts": True}
TARGETS = NEARLY_AS_FAST_AS_A_COPY
COMPARED = 1 << 17


def independent(attrs: dict, ndim: int) -> bool:
    return True
