"""The contract of ``softmax_focal_loss``."""
from ...core.contract import Arg, Attr, Cuda, Float, Numbers, Op, Optional, Out, Shapes
from .._labels.contract import IGNORE, LABEL
from .._softmax.contract import AXIS, LOGITS, NEEDS_A_BATCH, ROWS, ROWS_AND_AXIS, gathered, streamed_rows

OP = Op(
    name="softmax_focal_loss",
    summary="focal loss per row, fused with the softmax",
    family="softmax and sigmoid",
    role="loss",
    inputs=(Arg("data", "T"), LABEL),
    outputs=(Out("output", "T", "loss per row"),
             Out("max", "A", "maximum per row"),
             Out("log_sum", "A", "log(sum(exp(row - max))) per row")),
    attrs=(AXIS,
           Attr("gamma", Float(low=0), 2.0),
           Attr("alpha", Optional(Numbers(0)), None),
           IGNORE),
    shapes=(
        # A label with size 1 at the axis, as in softmax_cross_entropy.
        Shapes(when="label.ndim == data.ndim", data=LOGITS, label=ROWS_AND_AXIS, output=ROWS_AND_AXIS,
               max=ROWS_AND_AXIS, log_sum=ROWS_AND_AXIS),
        Shapes(data=LOGITS, label=ROWS, output=ROWS, max=ROWS, log_sum=ROWS),
    ),
    refused=(NEEDS_A_BATCH,),
    backward=("output_grad", "data", "label", "max", "log_sum"),
    cuda=Cuda(forward=streamed_rows, backward=streamed_rows, scratch=gathered("forward", 2),
              forward_bounds="256, sizeof(T) == 4 ? 4 : sizeof(T) == 2 ? 3 : 2",
              backward_bounds="256, sizeof(T) == 8 ? 2 : 3"),
    counts={"alpha": "classes"},
)
