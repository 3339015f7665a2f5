"""The contract of ``region_loss``."""
from __future__ import annotations

from ...core.contract import FLOATS, LABELS, Arg, Attr, Bool, Choice, Float, Int, Op, Shapes
from .._region.contract import ANCHORS, CHANNELS, CLASSES, MAP, SOFTMAX
from .._region.loss import CUDA, OUTPUTS, SCRATCH, TRUTH, WITH_PARTS, data_of, shapes_of

OP = Op(
    name="region_loss",
    summary="loss of YOLOv2's region layer, per image",
    family="boxes and detection",
    role="loss",
    inputs=(data_of(MAP),
            TRUTH,
            Arg("seen", "L", "number of images seen in training, including this batch, (1,)", gradient=False)),
    outputs=OUTPUTS,
    attrs=(ANCHORS,
           CLASSES,
           Attr("object_scale", Float(low=0), 5.0, "weight of the objectness loss of matched predictions"),
           Attr("noobject_scale", Float(low=0), 1.0, "weight of the no-object loss"),
           Attr("coord_scale", Float(low=0), 1.0, "weight of the loss of box coordinates"),
           Attr("class_scale", Float(low=0), 1.0, "weight of the class loss"),
           Attr("thresh", Float(low=0), 0.6, "IoU above which an unmatched prediction gets no no-object loss"),
           Attr("rescore", Bool(), True, "objectness target of matched predictions; true: the IoU, false: 1"),
           Attr("bias_match", Bool(), True, "true: match by the anchors' sizes; false: by the predicted sizes"),
           SOFTMAX,
           Attr("warmup_images", Int(0), 12800,
                "number of images seen below which boxes are regressed toward their priors"),
           Attr("box_loss", Choice("mse", "giou"), "mse",
                "loss of matched boxes; mse: squared errors of the coordinates, giou: 1 - GIoU"),
           WITH_PARTS),
    types={"T": FLOATS, "L": LABELS},
    shapes=Shapes(**shapes_of(MAP), seen="1"),
    backward=("output_grad", "gradient"),
    cuda=CUDA,
    accumulate_fp32=True,
    derived={"channels": CHANNELS},
    scratch=SCRATCH,
    returned="2 if parts else 1",
)
