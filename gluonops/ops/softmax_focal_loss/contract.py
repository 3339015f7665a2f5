"""The contract of ``softmax_focal_loss``."""
from ...contract.op import Arg, Attr, Cuda, Float, Indices, Numbers, Op, Optional
from .._labels.contract import IGNORE
from .._softmax import contract as family

OP = Op(
    name="softmax_focal_loss",
    summary="focal loss per row, fused with the softmax",
    family="softmax and sigmoid",
    role="loss",
    inputs=(family.DATA,
            Arg("label", "L", gradient=False, values=Indices("classes", ignore="ignore_label"),
                doc=family.CLASS_INDICES)),
    outputs=family.ROW_LOSS,
    attrs=(family.AXIS,
           Attr("gamma", Float(low=0), 2.0, "Exponent of 1 - p, at least 0."),
           Attr("alpha", Optional(Numbers(0)), None,
                "A weight for each class, at least 0, or a single one for all. The default is 1."),
           IGNORE),
    shapes=family.with_class_indices(),
    refused=(family.NEEDS_A_BATCH,),
    cuda=Cuda(forward=family.summed_rows, backward=family.streamed_rows, scratch=family.gathered("forward"),
              forward_bounds="THREADS, sizeof(T) == 8 ? 2 : 4",
              backward_bounds="THREADS, sizeof(T) == 8 ? 2 : 4"),
    counts={"alpha": "classes"},
)
