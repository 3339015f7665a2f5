"""What the contracts of the operators on YOLOv2's map share."""
from ...core.contract import Attr, Bool, Int, Pairs

# Those of pjreddie/darknet's cfg/yolov2-voc.cfg.
VOC_ANCHORS = (1.3221, 1.73145, 3.19275, 4.00944, 5.05587, 8.09892, 9.47112, 4.84053, 11.2364, 10.0071)
ANCHORS = Attr("anchors", Pairs(), VOC_ANCHORS, "sizes of the anchors in cells, (w0, h0, w1, h1, ...)")
CLASSES = Attr("classes", Int(1), 20, "how many")
SOFTMAX = Attr("softmax", Bool(), True, "whether a softmax makes class probabilities, or a sigmoid for each")

MAP = "batch, anchors * (5 + classes), height, width"


def count(attrs):
    """How many anchors there are."""
    return len(attrs.anchors) // 2


def map_sizes(attrs, known):
    """The sizes that every kernel starts with."""
    batch, _, height, width = known["data"]
    return {"batch": batch, "anchors": count(attrs), "classes": attrs.classes, "height": height, "width": width}
