"""region_loss: the loss of YOLOv2's region layer, per image.

``data`` is (B, A*(5+K), H, W); what its channels mean and the boxes they decode to is on ``region_decode``'s page.
``truth`` is (B, T, 5): centre x, centre y, w, h in fractions of the image, class; rows of zeros fill it up, anywhere.
With activations x, y, o (sigmoids), w, h (raw) and p:

- Every anchor and cell asks for no object, ``noobject_scale * o^2 / 2``, unless its box overlaps a truth by an IoU
  above ``thresh``. While ``seen < warmup_images`` it is drawn to its anchor's box, too:
  ``0.01 * ((x - .5)^2 + (y - .5)^2 + w^2 + h^2) / 2``.
- Every truth chooses the cell of its centre, and there the anchor of the most similar size (``bias_match``; else the
  predicted box of the most similar size; the first of equals). In place of the above it asks there for its box,
  ``coord_scale * (2 - bw*bh) * ((x - tx)^2 + (y - ty)^2 + (w - tw)^2 + (h - th)^2) / 2`` with ``tx = bx*W - column``
  and ``tw = log(bw*W / anchor_w)``; for an object, ``object_scale * (o - 1)^2 / 2``, or with ``rescore`` the IoU of the
  predicted box, a constant, instead of 1; and for its class, ``class_scale`` times the cross-entropy of p. A later
  truth takes an earlier one's place. Without ``softmax`` the classes of both count (unless the error of class 0 was
  exactly 0 in between, which makes Darknet start anew).

The gradient is Darknet's delta, negated, times the sigmoids' slopes; it honours the head gradient. ``parts=True`` also
returns (B, 9): the four terms of the loss (coordinates, objectness at truths, objectness elsewhere, classes), Darknet's
cost (the sum of squared deltas), sums over the truths of IoU, of IoU > 0.5 (recall) and of the right class's
probability, and the number of truths.

A centre at 1.0 is in the last cell (Darknet spills into the next row); a box centred at x = 0 is a box (it ends
Darknet's list). A row that is neither zeros nor a box (NaN, a centre outside 0 to 1, w or h not above 0, ``w * h`` of 2
or more, no whole class from 0 to K-1) makes its image's loss, parts and gradient NaN, or, with
``GLUONOPS_CHECK_LABELS=1``, an OpError that names image and box. float16 is computed in float32, but
in builtin graphs of variables whose types are unknown.

Work: forward reads the map, its classes only where truths are, and writes the gradient of its size; backward reads and
writes that once.

Sources: Redmon and Farhadi, "YOLO9000" (2016); pjreddie/darknet ``src/region_layer.c``, commit f6afaabc, recorded in
``tests/golden/region.npz``. Softmax trees (yolo9000) and boxes of other than 4 coordinates are other operators.
"""
import mxnet as mx

from ...core.backend import emit
from .contract import OP, PARTS

__all__ = ["averages", "region_loss"]


def averages(parts):
    """Of one batch's parts, (B, 9) from each device: a dict by name of NDArrays, (1,); nothing waits.

    Over images, and of iou, recall and probability over truths (0 where there is none); truths is their number.
    """
    sums = sum(part.sum(axis=0).as_in_context(parts[0].context) for part in parts)
    images, truths = sum(part.shape[0] for part in parts), sums[-1:]
    found = {name: sums[i:i + 1] / images for i, name in enumerate(PARTS)}
    for name in ("iou", "recall", "probability"):
        found[name] = found[name] * images / mx.nd.maximum(truths, 1)
    return {**found, "truths": truths}


def region_loss(data, truth, seen=None, *, anchors, classes, object_scale=5.0, noobject_scale=1.0, coord_scale=1.0,
                class_scale=1.0, thresh=0.6, rescore=True, bias_match=True, softmax=True, warmup_images=12800,
                parts=False, name=None):
    """YOLOv2's loss of every image.

    Parameters
    ----------
    data : NDArray or Symbol
        (B, A*(5+K), H, W), the last convolution's output; float16, float32 or float64.
    truth : NDArray or Symbol
        (B, T, 5): centre x, centre y, w, h from 0 to 1, class; padded with rows of zeros. The dtype of ``data``.
    seen : NDArray or Symbol, optional
        (1,), any float or integer dtype: images seen in training, this batch included. None: the warm-up is over.
    anchors : sequence of float
        Sizes of the A anchors in cells, above 0: (w0, h0, w1, h1, ...), or pairs.
    classes : int
        K, at least 1.
    object_scale : float, default 5.0
        Weight of the objectness where there is a truth; like all weights at least 0.
    noobject_scale : float, default 1.0
        Weight of the objectness elsewhere.
    coord_scale : float, default 1.0
        Weight of the boxes.
    class_scale : float, default 1.0
        Weight of the classes.
    thresh : float, default 0.6
        A box that overlaps a truth by an IoU above this may be called an object.
    rescore : bool, default True
        Whether the objectness of a truth is to be the IoU, or 1.
    bias_match : bool, default True
        Whether the anchors' sizes choose a truth's anchor, or the predicted sizes.
    softmax : bool, default True
        Whether a softmax makes class probabilities, or a sigmoid for each.
    warmup_images : int, default 12800
        While fewer images than this are seen, every box is drawn to its anchor.
    parts : bool, default False
        Whether to return the parts as well.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        (B,), the loss of every image, in the dtype of ``data``; with ``parts`` a tuple of it and the parts, (B, 9), in
        float32 (of float64 data float64), without a gradient.

    Raises
    ------
    OpError
        The channels are not A*(5+K), ``truth`` has another shape, an attribute is out of range; with
        ``GLUONOPS_CHECK_LABELS=1`` also a truth that is no box.
    """
    values = {"anchors": anchors, "classes": classes, "object_scale": object_scale, "noobject_scale": noobject_scale,
              "coord_scale": coord_scale, "class_scale": class_scale, "thresh": thresh, "rescore": rescore,
              "bias_match": bias_match, "softmax": softmax, "parts": parts,
              "warmup_images": 0 if seen is None else warmup_images}
    if isinstance(truth, mx.nd.NDArray) and truth.shape[1:] == (0, 5):   # MXNet's own operators fail on such tensors
        truth = mx.nd.zeros((truth.shape[0], 1, 5), truth.context, truth.dtype)
    if seen is None:
        seen = mx.sym.zeros(1) if isinstance(data, mx.sym.Symbol) else mx.nd.zeros(1, getattr(truth, "context", None))
    return emit(OP, {"data": data, "truth": truth, "seen": seen}, values, name)
