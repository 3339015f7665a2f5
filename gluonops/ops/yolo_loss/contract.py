"""The contract of ``yolo_loss``."""
from ...contract.op import Attr, Bool, Choice, Op, Refused, Shapes
from .._region import yolo
from .._region.contract import CHANNELS, MAP
from .._region.loss import DATA, SHARED, TRUTH, WITH_PARTS, kernels, shapes_of

OF_ALEXEYAB = ("box_loss != 'mse' or iou_normalizer != 1 or obj_normalizer != 1 or iou_thresh < 1 or max_delta > 0"
               " or scale_x_y != 1 or new_coords or label_smooth_eps > 0 or objectness_smooth or focal_loss")

OP = Op(
    name="yolo_loss",
    summary="loss of a head of YOLOv3, YOLOv4 or YOLOv7, per image",
    inputs=(DATA, TRUTH),
    attrs=(*yolo.ANCHORS,
           Attr("dialect", Choice("pjreddie", "alexeyab"), "pjreddie",
                "The program whose deltas are the gradient. 'pjreddie' takes no argument below ``truth_thresh``."),
           *yolo.THRESHOLDS,
           *yolo.box_loss("mse"),
           *yolo.WEIGHTS,
           Attr("new_coords", Bool(), False, "Whether ``data`` is activated already, and w and h are squared."),
           *yolo.TARGETS,
           Attr("focal_loss", Bool(), False, "Whether the errors of classes have the weight of the focal loss."),
           WITH_PARTS),
    shapes=Shapes(**shapes_of(MAP)),
    refused=(Refused(f"dialect == 'pjreddie' and ({OF_ALEXEYAB})",
                     "dialect is 'pjreddie', whose Darknet has only squared errors of boxes, ignore_thresh and "
                     "truth_thresh; expected no other option",
                     "Pass dialect='alexeyab', or leave the other options out"),),
    derived={"channels": CHANNELS},
    kernels=kernels("YoloLoss"),
    **SHARED,
)
