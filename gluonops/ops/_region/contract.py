"""Attributes and shapes of the operators on YOLOv2's map."""
from ...contract.op import Attr, Bool, Int, Pairs

# Source: pjreddie/darknet, cfg/yolov2-voc.cfg.
VOC_ANCHORS = (1.3221, 1.73145, 3.19275, 4.00944, 5.05587, 8.09892, 9.47112, 4.84053, 11.2364, 10.0071)
ANCHORS = Attr("anchors", Pairs(), VOC_ANCHORS,
               "Sizes of the A anchors in cells, above 0: (w0, h0, w1, h1, ...), or pairs.")
CLASSES = Attr("classes", Int(1), 20, "K, at least 1.")
SOFTMAX = Attr("softmax", Bool(), True, "True: a softmax over the classes. False: one sigmoid per class.")

CHANNELS = "5 + classes"   # the channels of an anchor
MAP = f"batch, anchors * ({CHANNELS}), height, width"
ANCHOR_COUNT = {"anchor_count": "len(anchors) // 2"}   # CUDA's kernels need it


def count(attrs) -> int:
    """Return the number of anchors."""
    return len(attrs.anchors) // 2
