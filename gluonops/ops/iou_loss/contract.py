"""The contract of ``iou_loss``."""
from ...contract.op import Arg, Attr, Choice, Cuda, Op, Out, Shapes, elements
from .._boxes.contract import FORMAT, KINDS

OP = Op(
    name="iou_loss",
    summary="1 - IoU, GIoU, DIoU or CIoU of boxes and their ground truth",
    family="boxes and detection",
    role="loss",
    inputs=(Arg("data", "T", doc="Boxes, (batch, ..., 4); float16, float32 or float64; in any unit."),
            Arg("truth", "T", gradient=False,
                doc="The ground truth of every box, in the shape, dtype and unit of ``data``.")),
    outputs=(Out("output", "T", "loss per box, (batch, ...)"),),
    attrs=(Attr("kind", Choice(*KINDS), "giou", "The measure of the overlap."),
           FORMAT),
    shapes=Shapes(data="batch, ..., 4", truth="batch, ..., 4", output="batch, ..."),
    derived={"count": "data.size // 4"},
    cuda=Cuda(forward=elements("count"), backward=elements("count"), backward_bounds="THREADS, sizeof(T) == 8 ? 1 : 5"),
)
