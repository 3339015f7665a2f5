"""The contract of ``distillation_loss``."""
from __future__ import annotations

from ...core.contract import FLOATS, Arg, Attr, Cuda, Float, Op, Out, Shapes
from .._softmax.contract import AXIS, LOGITS, NEEDS_A_BATCH, ROWS, row_sizes, streamed_work


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    return {**row_sizes(attrs, known), "temperature": attrs.temperature}


OP = Op(
    name="distillation_loss",
    summary="Kullback-Leibler divergence of a student's softmax from a teacher's, at a temperature",
    family="softmax and sigmoid",
    role="loss",
    inputs=(Arg("data", "T", "the student's logits, any shape of at least two dimensions"),
            Arg("teacher", "T", "the teacher's logits, in the shape of data", gradient=False)),
    outputs=(Out("output", "T", "loss per row"),
             Out("max", "A", "maximum of the student's row"),
             Out("log_sum", "A", "log(sum(exp((row - max) / temperature))) of the student's row"),
             Out("teacher_max", "A", "the same of the teacher's row"),
             Out("teacher_log_sum", "A", "the same of the teacher's row")),
    attrs=(AXIS,
           Attr("temperature", Float(low=0.01, below=256), 4.0, "divisor of both logits")),
    types={"T": FLOATS},
    shapes=Shapes(data=LOGITS, teacher=LOGITS, output=ROWS, max=ROWS, log_sum=ROWS, teacher_max=ROWS,
                  teacher_log_sum=ROWS),
    refused=(NEEDS_A_BATCH,),
    backward=("output_grad", "data", "teacher", "max", "log_sum", "teacher_max", "teacher_log_sum"),
    cuda=Cuda(scalars=scalars, forward=streamed_work, backward=streamed_work),
    accumulate_fp32=True,
    derived={"scale": "1 / temperature"},
)
