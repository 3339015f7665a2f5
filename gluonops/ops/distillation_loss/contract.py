"""The contract of ``distillation_loss``."""
from ...contract.op import Arg, Attr, Cuda, Float, Op, Out, Shapes
from .._softmax.contract import AXIS, LOGITS, NEEDS_A_BATCH, ROWS, gathered, streamed_rows, summed_rows

BOUNDS = "THREADS, sizeof(T) == 8 ? 2 : 4"


OP = Op(
    name="distillation_loss",
    summary="Kullback-Leibler divergence of a student's softmax from a teacher's, at a temperature",
    family="softmax and sigmoid",
    role="loss",
    inputs=(Arg("data", "T", doc="The student's logits, at least two dimensions; float16, float32 or float64."),
            Arg("teacher", "T", gradient=False, doc="The teacher's logits, in the shape and dtype of ``data``.")),
    outputs=(Out("output", "T", "loss per row"),
             Out("max", "A", "maximum of the student's row"),
             Out("log_sum", "A", "log(sum(exp((row - max) / temperature))) of the student's row"),
             Out("teacher_max", "A", "the same of the teacher's row"),
             Out("teacher_log_sum", "A", "the same of the teacher's row")),
    attrs=(AXIS,
           Attr("temperature", Float(low=0.01, below=256), 4.0, "Divides both logits; from 0.01 to below 256.")),
    shapes=Shapes(data=LOGITS, teacher=LOGITS, output=ROWS, max=ROWS, log_sum=ROWS, teacher_max=ROWS,
                  teacher_log_sum=ROWS),
    refused=(NEEDS_A_BATCH,),
    cuda=Cuda(forward=summed_rows, backward=streamed_rows, scratch=gathered("forward", "PAIR_NUMBERS"),
              forward_bounds=BOUNDS, backward_bounds=BOUNDS),
    constants={"PAIR_NUMBERS": 5},   # the numbers of a PairSums
    derived={"scale": "1 / temperature"},
)
