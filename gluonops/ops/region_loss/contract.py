"""The contract of ``region_loss``."""
from ...core.contract import Arg, Attr, Bool, Choice, Float, Int, Op, Shapes
from .._region.contract import ANCHORS, CHANNELS, CLASSES, MAP, SOFTMAX
from .._region.loss import DATA, SHARED, TRUTH, WITH_PARTS, shapes_of

OP = Op(
    name="region_loss",
    summary="loss of YOLOv2's region layer, per image",
    inputs=(DATA,
            TRUTH,
            Arg("seen", "L", gradient=False)),
    attrs=(ANCHORS,
           CLASSES,
           Attr("object_scale", Float(low=0), 5.0),
           Attr("noobject_scale", Float(low=0), 1.0),
           Attr("coord_scale", Float(low=0), 1.0),
           Attr("class_scale", Float(low=0), 1.0),
           Attr("thresh", Float(low=0), 0.6),
           Attr("rescore", Bool(), True),
           Attr("bias_match", Bool(), True),
           SOFTMAX,
           Attr("warmup_images", Int(0), 12800),
           Attr("box_loss", Choice("mse", "giou"), "mse"),
           WITH_PARTS),
    shapes=Shapes(**shapes_of(MAP), seen="1"),
    derived={"channels": CHANNELS},
    avx512=("float32", "float64"),
    **SHARED,
)
