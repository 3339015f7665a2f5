"""region_loss: YOLOv2's loss; NumPy computes it box by box."""
from ..harness.cases import NEARLY_AS_FAST_AS_A_COPY, Row, always
from .region_decode import TWO_ANCHORS, VOC

TRUTH = {"truth": (16, 30, 5)}
COMMITS = [
    Row((16, 125, 13, 13), VOC, TRUTH),
    Row((16, 125, 13, 13), {**VOC, "warmup_images": 0}, TRUTH),
    Row((16, 125, 13, 13), VOC, TRUTH, dtype="float64"),
]

TYPICAL = [Row((2, 16, 5, 9), TWO_ANCHORS, {"truth": (2, 7, 5)})]
SMALL = [Row((1, 16, 3, 5), TWO_ANCHORS, {"truth": (1, 4, 5)})]
VARIANTS = [
    Row((1, 16, 3, 5), {**TWO_ANCHORS, "softmax": False, "rescore": False, "bias_match": False}, {"truth": (1, 9, 5)}),
    Row((1, 16, 3, 5), {**TWO_ANCHORS, "box_loss": "giou"}, {"truth": (1, 4, 5)}),
    Row((1, 125, 6, 7), {"warmup_images": 0}, {"truth": (1, 30, 5)}),
    Row((2, 16, 20, 30), TWO_ANCHORS, {"truth": (2, 150, 5)}),   # several blocks per image
]
GPU = [Row((512, 125, 19, 19), more={"truth": (512, 30, 5)})]
GPU_TARGETS = NEARLY_AS_FAST_AS_A_COPY
ALL_OUTPUTS = {"parts": True}
COMPARED = 1 << 17
independent = always
