"""The contract of ``region_loss``."""
from ...contract.op import Arg, Attr, Bool, Choice, Float, Int, Op, Shapes
from .._region.contract import ANCHORS, CHANNELS, CLASSES, MAP, SOFTMAX
from .._region.loss import DATA, SHARED, TRUTH, WITH_PARTS, shapes_of

OP = Op(
    name="region_loss",
    summary="loss of YOLOv2's region layer, per image",
    inputs=(DATA,
            TRUTH,
            Arg("seen", "L", gradient=False, doc="(1,), any float or integer dtype: number of images seen in training, "
                "including this batch. None: the warmup is over.")),
    attrs=(ANCHORS,
           CLASSES,
           Attr("object_scale", Float(low=0), 5.0,
                "Weight of the objectness of matched predictions. All weights are at least 0."),
           Attr("noobject_scale", Float(low=0), 1.0, "Weight of the objectness of unmatched predictions."),
           Attr("coord_scale", Float(low=0), 1.0, "Weight of the box coordinates."),
           Attr("class_scale", Float(low=0), 1.0, "Weight of the classes."),
           Attr("thresh", Float(low=0), 0.6, "IoU above which an unmatched prediction gets no no-object loss."),
           Attr("rescore", Bool(), True, "Objectness target of a matched prediction. True: the IoU. False: 1."),
           Attr("bias_match", Bool(), True,
                "True: match ground truths to anchors by the anchor sizes. False: by the predicted sizes."),
           SOFTMAX,
           Attr("warmup_images", Int(0), 12800,
                "While fewer images than this are seen, boxes are regressed toward their priors."),
           Attr("box_loss", Choice("mse", "giou"), "mse", "Loss of the boxes of matched predictions. 'mse': Darknet's "
                "squared errors of the coordinates. 'giou': 1 minus the generalized IoU with the ground truth."),
           WITH_PARTS),
    shapes=Shapes(**shapes_of(MAP), seen="1"),
    derived={"channels": CHANNELS},
    avx512=("float32", "float64"),
    **SHARED,
)
