"""Converters of detectors' last layers: SSD's decoding of boxes, and the proposals of R-CNN.

``MultiBoxTarget`` has no converter: it goes with the loss.
"""
from __future__ import annotations

import mxnet as mx
import numpy as np

from ..graph import is_mark
from .arrays import cut
from .boxes import LOWEST, around, chosen_first, decoded, gathered, halves, of_classes, unsuppressed
from .model import Call, Model
from .registry import converts


@converts("_contrib_MultiBoxPrior")
def multi_box_prior(model: Model, call: Call) -> str:
    """Anchors depend on the height and the width of the data alone."""
    data = mx.nd.zeros((1, 1, *call.shapes[0][2:]), dtype=call.dtype)
    options = {name: value for name, value in call.node.attrs.items() if not is_mark(name)}
    return model.constant(mx.nd.contrib.MultiBoxPrior(data, **options).asnumpy())


@converts("_contrib_MultiBoxDetection")
def multi_box_detection(model: Model, call: Call) -> str:
    """Rows of class, score and box, the best first. The class of a suppressed row is -1.

    Rows of a score below the threshold come last and are -1. MXNet does not sort the rows behind the ``nms_topk``
    best ones, whose class is -1, too.
    """
    batch, classes, count = call.shapes[0]
    rows, scores, is_valid = _rows(model, call)
    front = chosen_first(model, model.cast(is_valid, np.int64), count)
    valid_first = model.add("GatherElements", is_valid, front, axis=1)
    unsorted = _where(model, valid_first, gathered(model, rows, front, call.shape), -1)
    overlap = call.value("nms_threshold", 0.5)
    if not 0 < overlap <= 1:
        return unsorted

    topk = call.value("nms_topk", -1)
    kept = topk if 0 < topk < count else count
    scores = model.add("Where", is_valid, scores, model.scalar(LOWEST, np.float32))
    scores, order = model.add("TopK", scores, model.ints(kept), outputs=2, axis=1)
    rows = gathered(model, rows, order, (batch, kept, 6))
    by_class = model.add("Unsqueeze", scores, model.ints(1))
    if not call.flag("force_suppress"):
        ids = model.reshape(cut(model, rows, [2], [0], [1]), (batch, kept))
        by_class = of_classes(model, by_class, ids, model.constant(np.arange(classes - 1, dtype=np.float32)))
    boxes = cut(model, rows, [2], [2], [6])
    below = float(np.nextafter(np.float32(overlap), np.float32(0)))   # MXNet suppresses at the threshold itself
    remains = model.cast(unsuppressed(model, boxes, by_class, (batch, kept), below), bool)
    ids = _where(model, remains, cut(model, rows, [2], [0], [1]), -1)
    result = model.add("Concat", ids, cut(model, rows, [2], [1], [6]), axis=2)
    is_row = model.add("Greater", scores, model.scalar(LOWEST, np.float32))
    result = _where(model, is_row, result, -1)
    if kept == count:
        return result
    behind = cut(model, unsorted, [1, 2], [kept, 1], [count, 6])
    no_class = model.add("Expand", model.scalar(-1, call.dtype), model.shape((batch, count - kept, 1)))
    return model.add("Concat", result, model.add("Concat", no_class, behind, axis=2), axis=1)


def _rows(model: Model, call: Call) -> tuple[str, str, str]:
    """Rows of class, score and box; their scores; and whether the score reaches the threshold."""
    batch, classes, count = call.shapes[0]
    objects = cut(model, call.inputs[0], [1], [1], [classes])   # class 0 is the background
    scores = model.reduce("ReduceMax", objects, [1], keepdims=False)
    ids = model.cast(model.add("ArgMax", objects, axis=1, keepdims=0), call.dtype)
    threshold = model.scalar(call.value("threshold", 0.01), call.dtype)
    boxes = _decoded(model, call)
    columns = [model.reshape(value, (batch, count, 1)) for value in (ids, scores)]
    return (model.add("Concat", *columns, boxes, axis=2), scores,
            model.add("GreaterOrEqual", scores, threshold))


def _decoded(model: Model, call: Call) -> str:
    """The boxes from their offsets from the anchors."""
    batch, _, count = call.shapes[0]
    variances = np.array(call.value("variances", (0.1, 0.1, 0.2, 0.2)), call.dtype)
    first, last = halves(model, model.reshape(call.inputs[2], (1, count, 4)))
    size = model.add("Sub", last, first)
    middle = model.add("Mul", model.add("Add", first, last), model.scalar(0.5, call.dtype))
    boxes = decoded(model, model.reshape(call.inputs[1], (batch, count, 4)), variances, middle, size)
    if not call.flag("clip", True):
        return boxes
    return model.add("Clip", boxes, model.scalar(0, call.dtype), model.scalar(1, call.dtype))


def _where(model: Model, condition: str, rows: str, other: float) -> str:
    """The rows for which the condition, (batch, count), holds; other ones are filled."""
    return model.add("Where", model.add("Unsqueeze", condition, model.ints(2)), rows, model.scalar(other, np.float32))


@converts("_contrib_Proposal", "_contrib_MultiProposal")
def proposal(model: Model, call: Call) -> list[str]:
    """The best boxes of each image that do not overlap, over and over until the rows are full."""
    batch = call.shapes[0][0]
    if call.node.op == "_contrib_Proposal" and batch != 1:
        raise call.refuse("takes one image at a time")
    boxes, scores, count = _candidates(model, call)
    best = call.value("rpn_pre_nms_top_n", 6000)
    best = min(best, count) if best > 0 else count
    rows = call.value("rpn_post_nms_top_n", 300)
    scores, order = model.add("TopK", scores, model.ints(best), outputs=2, axis=1)
    boxes = gathered(model, boxes, order, (batch, best, 4))

    # Whole pixels, of which the last one counts. MXNet has sorted the boxes, also those of equal scores.
    ends = model.add("Add", boxes, model.constant(np.array([0, 0, 1, 1], np.float32)))
    falling = model.constant(np.arange(best, 0, -1, dtype=np.float32))
    falling = model.add("Expand", falling, model.shape((batch, 1, best)))
    remains = unsuppressed(model, ends, falling, (batch, best), call.value("threshold", 0.7), most=min(rows, best))
    found = model.reduce("ReduceSum", remains, [1])
    turns = model.add("Mod", model.constant(np.arange(rows)[None]), found)
    chosen = model.add("GatherElements", chosen_first(model, remains, best), turns, axis=1)

    image = model.reshape(model.positions(batch, np.float32), (batch, 1, 1))
    image = model.add("Expand", image, model.shape((batch, rows, 1)))
    regions = model.add("Concat", image, gathered(model, boxes, chosen, (batch, rows, 4)), axis=2)
    scores = model.add("GatherElements", scores, chosen, axis=1)
    return [model.reshape(regions, (batch * rows, 5)), model.reshape(scores, (batch * rows, 1))]


def _candidates(model: Model, call: Call) -> tuple[str, str, int]:
    """Every anchor's box and score, and how many there are in an image.

    The score is -1 beyond the image, and where a box is smaller than ``rpn_min_size``.
    """
    batch, channels, height, width = call.shapes[0]
    each = channels // 2
    count = height * width * each
    scores = cut(model, call.inputs[0], [1], [each], [channels])
    scores = model.reshape(model.add("Transpose", scores, perm=(0, 2, 3, 1)), (batch, count))
    offsets = model.reshape(call.inputs[1], (batch, each, 4, height, width))
    offsets = model.reshape(model.add("Transpose", offsets, perm=(0, 3, 4, 1, 2)), (batch, count, 4))
    stride = call.value("feature_stride", 16)
    image = cut(model, call.inputs[2], [1], [0], [2])   # height and width
    boxes = _clipped(model, image, _moved(model, call, offsets, _anchors(call, height, width)))

    places = np.indices((height, width, each))[:2].reshape(2, count).astype(np.float32)
    inside = model.add("Floor", model.add("Div", image, model.scalar(stride, np.float32)))
    is_outside = [model.add("GreaterOrEqual", model.constant(place[None]), cut(model, inside, [1], [i], [i + 1]))
                  for i, place in enumerate(places)]
    scale = cut(model, call.inputs[2], [1], [2], [3])
    smallest = model.add("Mul", scale, model.scalar(call.value("rpn_min_size", 16), np.float32))
    first, last = halves(model, boxes)
    side = model.add("Add", model.add("Sub", last, first), model.scalar(1, np.float32))
    side = model.reduce("ReduceMin", side, [2], keepdims=False)
    is_small = model.add("Less", side, smallest)
    grown = model.reshape(model.add("Div", smallest, model.scalar(2, np.float32)), (batch, 1, 1))
    boxes = model.add("Where", model.add("Unsqueeze", is_small, model.ints(2)),
                      around(model, first, last, grown), boxes)
    is_out = model.add("Or", model.add("Or", *is_outside), is_small)
    return boxes, model.add("Where", is_out, model.scalar(-1, np.float32), scores), count


def _anchors(call: Call, height: int, width: int) -> np.ndarray:
    """The corners of all anchors in pixels, (height * width * anchors, 4), with MXNet's roundings."""
    stride = call.value("feature_stride", 16)
    middle = np.float32(0.5 * (stride - 1))
    anchors = []
    for ratio in np.float32(call.value("ratios", (0.5, 1, 2))):
        root = np.floor(np.sqrt(np.floor(np.float32(stride * stride) / ratio)) + np.float32(0.5))
        for scale in np.float32(call.value("scales", (4, 8, 16, 32))):
            sides = np.array([root * scale, np.floor(root * scale / scale * ratio + np.float32(0.5)) * scale])
            half = np.float32(0.5) * (sides - 1)
            anchors.append(np.concatenate([middle - half, middle + half]))
    rows, columns = np.indices((height, width)) * stride
    shifts = np.stack([columns, rows, columns, rows], axis=-1)
    return (shifts[:, :, None] + np.array(anchors)).reshape(-1, 4).astype(np.float32)


def _moved(model: Model, call: Call, offsets: str, anchors: np.ndarray) -> str:
    """The corners of boxes from their offsets from the anchors, in whole pixels of which the last one counts."""
    if call.flag("iou_loss"):
        return model.add("Add", model.constant(anchors[None]), offsets)
    size = anchors[:, 2:] - anchors[:, :2] + 1
    middle = anchors[:, :2] + np.float32(0.5) * (size - 1)
    shift, growth = halves(model, offsets)
    centre = model.add("Add", model.add("Mul", shift, model.constant(size[None])), model.constant(middle[None]))
    grown = model.add("Mul", model.add("Exp", growth), model.constant(size[None]))
    half = model.add("Mul", model.add("Sub", grown, model.scalar(1, np.float32)), model.scalar(0.5, np.float32))
    return around(model, centre, centre, half)


def _clipped(model: Model, image: str, boxes: str) -> str:
    """Boxes within the image. ``image``: its height and width."""
    last = model.add("Sub", image, model.scalar(1, np.float32))
    last = model.add("Unsqueeze", model.add("Gather", last, model.ints(1, 0, 1, 0), axis=1), model.ints(1))
    return model.add("Max", model.add("Min", boxes, last), model.scalar(0, np.float32))
