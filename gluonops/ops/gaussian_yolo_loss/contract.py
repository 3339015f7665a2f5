"""The contract of ``gaussian_yolo_loss``."""
from ...contract.op import Attr, Choice, Float, Op, Shapes
from .._region import yolo
from .._region.loss import DATA, SHARED, TRUTH, WITH_PARTS, kernels, shapes_of

CHANNELS = "9 + classes"   # the channels of an anchor
MAP = f"batch, anchors * ({CHANNELS}), height, width"
SHIFTS = {"center": 0.0, "left_top": 0.5, "right_bottom": -0.5}   # the way to the centre, in sizes of the box
SHIFT = "".join(f"{shift} if point == '{point}' else " for point, shift in SHIFTS.items()) + "0.0"

OP = Op(
    name="gaussian_yolo_loss",
    summary="loss of a head of Gaussian YOLOv3, per image",
    inputs=(DATA, TRUTH),
    attrs=(*yolo.ANCHORS,
           *yolo.THRESHOLDS,
           *yolo.box_loss("nll"),
           Attr("uc_normalizer", Float(low=0), 1.0, "Weight of the loss of the deviations, at least 0."),
           *yolo.WEIGHTS,
           Attr("point", Choice(*SHIFTS), "center",
                "The point of a box that x and y say; Darknet's ``yolo_point``."),
           *yolo.TARGETS,
           WITH_PARTS),
    shapes=Shapes(**shapes_of(MAP)),
    derived={"channels": CHANNELS, "shift": SHIFT},
    kernels=kernels("GaussianLoss", "_region/gaussian.inl"),
    **SHARED,
)
