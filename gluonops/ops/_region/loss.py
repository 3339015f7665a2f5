"""What the contracts of the losses of YOLO's maps share: the ground truth, the outputs and the launches."""
from __future__ import annotations

import math

from ...contract.op import THREADS, Arg, Array, Attr, Bool, Cuda, Kernels, Launch, Out, ValidRows, each_element
from .contract import ANCHOR_COUNT

PARTS = ("coordinates", "objectness", "no_objectness", "classes", "cost", "iou", "recall", "probability", "truths")
MANY_BLOCKS = 256   # blocks that are enough for a GPU, so that more images have one each

BOXES = ValidRows(
    columns=("x", "y", "w", "h", "class_id"),
    axes=("image", "box"),
    valid="0 <= x <= 1 and 0 <= y <= 1 and w > 0 and h > 0 and w * h < 2"
          " and 0 <= class_id < classes and class_id == floor(class_id)",
    expected="a centre from 0 to 1, w and h above 0 with w * h below 2, and a whole class from 0 to {classes - 1}",
    remedy="Correct the box, or make it a row of zeros to leave it out",
)
DATA = Arg("data", "T")
TRUTH = Arg("truth", "T", gradient=False, values=BOXES, doc="Ground truth, (B, T, 5): centre x, centre y, w, h from 0 "
            "to 1, class index. Rows of zeros are padding, at any position. The dtype of ``data``.")
OUTPUTS = (Out("output", "T", "loss per image, (batch,)"),
           Out("parts", "A", f"terms of the loss and statistics of the boxes per image, (batch, {len(PARTS)})"),
           Out("gradient", "A", "gradient of each image's loss with respect to data, the shape of data"))
SCRATCH = (Array("count", "int64", "batch", "forward"),   # the boxes of each image, or INVALID_IMAGE
           Array("partial", "float64", "batch * (len(anchors) // 2) * PARTS", "forward"),
           Array("matched", "MatchedBox", "batch * truths", "forward"))
WITH_PARTS = Attr("parts", Bool(), False, "Whether to return the parts of the loss as well.")


def shapes_of(shape: str) -> dict:
    """Return the shapes of all tensors. ``shape`` is the shape of the map."""
    return {
        "data": shape,
        "truth": f"batch, truths, {len(BOXES.columns)}",
        "output": "batch",
        "parts": f"batch, {len(PARTS)}",
        "gradient": shape,
    }


def kernels(loss: str, shared: str | None = None) -> Kernels:
    """Return the kernels of a loss of :mod:`.yolo`'s attributes: the name of its struct, and the file that has it."""
    return Kernels("_region/yolo", forward=f"head_loss_forward(args, loss_of<{loss}>(args))",
                   backward="head_loss_backward(args)", shared=shared)


def images(args) -> Launch:
    """Return the launch with one block for each image, or with several."""
    predictions = args.anchor_count * args.height * args.width
    splits = max(1, min(math.ceil(predictions / THREADS), MANY_BLOCKS // max(1, args.batch)))
    return Launch(args.batch, splits=splits)


CUDA = Cuda(
    forward=images,
    backward=each_element,
    derived={**ANCHOR_COUNT, "size": "data.size"},
    scratch=(Array("targets", "Target<A>", "batch * splits * truths", "forward", numbers=12),
             Array("counts", "uint32", "batch", "forward", kept=True),
             Array("sums", "A", "batch * splits * PARTS", "forward")),
    forward_bounds="THREADS, sizeof(T) == 4 ? 2 : 1",
)
SHARED = {   # All contracts have it.
    "family": "boxes and detection",
    "role": "loss",
    "outputs": OUTPUTS,
    "backward": ("output_grad", "gradient"),
    "cuda": CUDA,
    "constants": {"PARTS": len(PARTS), **{part.upper(): number for number, part in enumerate(PARTS)}},
    "scratch": SCRATCH,
    "returned": "2 if parts else 1",
}
