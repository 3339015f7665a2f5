"""The contract of ``sigmoid_cross_entropy``."""
from ...contract.op import Arg, Attr, Cuda, Numbers, Op, Optional, Out, Shapes, each_element
from .._labels.contract import IGNORE
from .._softmax.contract import AXIS, LOGITS

OP = Op(
    name="sigmoid_cross_entropy",
    summary="binary cross-entropy per element, fused with the sigmoid",
    family="softmax and sigmoid",
    role="loss",
    inputs=(Arg("data", "T", doc="Logits in any shape; float16, float32 or float64."),
            Arg("label", "T", gradient=False, doc="Probabilities from 0 to 1, in the shape and dtype of ``data``.")),
    outputs=(Out("output", "T", "loss per element, shape of data"),),
    attrs=(AXIS,
           Attr("pos_weight", Optional(Numbers(0)), None, "The weight of positives, at least 0: one for each class, or "
                "a single one for all. The default is 1."),
           IGNORE),
    shapes=Shapes(data=LOGITS, label=LOGITS, output=LOGITS),
    derived={"size": "data.size", "one_weight": "pos_weight is None or len(pos_weight) == 1"},
    cuda=Cuda(forward=each_element, backward=each_element),
    counts={"pos_weight": "classes"},
)
