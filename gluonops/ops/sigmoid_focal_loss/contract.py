"""The contract of ``sigmoid_focal_loss``."""
from ...contract.op import Arg, Attr, Cuda, Float, Op, Out, Refused, Shapes, each_element
from .._labels.contract import IGNORE

OP = Op(
    name="sigmoid_focal_loss",
    summary="focal loss per element, fused with the sigmoid",
    family="softmax and sigmoid",
    role="loss",
    inputs=(Arg("data", "T", doc="Logits in any shape; float16, float32 or float64."),
            Arg("label", "T", gradient=False,
                doc="1 for positives and 0 for negatives, in the shape and dtype of ``data``.")),
    outputs=(Out("output", "T", "loss per element, shape of data"),),
    attrs=(Attr("alpha", Float(low=-1), 0.25,
                "The weight of positives, at most 1. Negatives have the weight 1 - alpha. -1: no weights."),
           Attr("gamma", Float(low=0), 2.0, "Exponent of the error, at least 0."),
           IGNORE),
    shapes=Shapes(data="...", label="...", output="..."),
    refused=(Refused("alpha > 1", "alpha is above 1; expected at most 1, because negatives have the weight 1 - alpha",
                     "Pass another alpha, or -1 for no weights"),),
    derived={"size": "data.size"},
    cuda=Cuda(forward=each_element, backward=each_element),
)
