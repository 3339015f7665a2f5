"""What ``region_decode`` declares, and what it shares with ``region_loss``."""
import math

from ...core.contract import FLOATS, Arg, Attr, Bool, Choice, Cuda, Fixed, Int, Op, Out, Pairs, names

# Those of pjreddie/darknet's cfg/yolov2-voc.cfg.
VOC_ANCHORS = (1.3221, 1.73145, 3.19275, 4.00944, 5.05587, 8.09892, 9.47112, 4.84053, 11.2364, 10.0071)
ANCHORS = Attr("anchors", Pairs(), VOC_ANCHORS, "sizes of the anchors in cells, (w0, h0, w1, h1, ...)")
CLASSES = Attr("classes", Int(1), 20, "how many")
SOFTMAX = Attr("softmax", Bool(), True, "whether a softmax makes class probabilities, or a sigmoid for each")
LAYOUTS = ("boxes", "map")


def count(attrs):
    """How many anchors there are."""
    return len(attrs.anchors) // 2


def map_dims(attrs):
    """The dimensions of a region layer's input."""
    batch, height, width = names("batch height width")
    return batch, Fixed("anchors * (5 + classes)", count(attrs) * (5 + attrs.classes)), height, width


def map_sizes(attrs, known):
    """The sizes that every kernel starts with."""
    batch, _, height, width = known["data"]
    return {"batch": batch, "anchors": count(attrs), "classes": attrs.classes, "height": height, "width": width}


def shapes(attrs, ndims):
    batch, channels, height, width = data = map_dims(attrs)
    boxes = batch, count(attrs), height, width, Fixed("5 + classes", 5 + attrs.classes)
    return {"data": data, "output": data if attrs.layout == "map" else boxes}, ()


def scalars(attrs, known):
    return {**map_sizes(attrs, known), "softmax": int(attrs.softmax), "layout": LAYOUTS.index(attrs.layout),
            "anchor_sizes": attrs.anchors}


def cells(attrs, known):
    """One thread per anchor and cell."""
    batch, _, height, width = known["data"]
    return math.prod((batch, count(attrs), height, width)), 1


OP = Op(
    name="region_decode",
    summary="YOLOv2's map to boxes, objectness and class probabilities",
    inputs=(Arg("data", "T", "(batch, anchors * (5 + classes), height, width)"),),
    outputs=(Out("output", "T", "(batch, anchors, height, width, 5 + classes), or the shape of data"),),
    attrs=(ANCHORS, CLASSES, SOFTMAX, Attr("layout", Choice(*LAYOUTS), "boxes", "a row per box, or Darknet's map")),
    types={"T": FLOATS},
    shapes=shapes,
    backward=("output_grad", "data"),
    cuda=Cuda(scalars=scalars, forward=cells, backward=cells),
    wide=True,
)
