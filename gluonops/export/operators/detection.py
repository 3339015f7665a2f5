"""What detectors compute of anchors: SSD's decoding of boxes and its targets, and the proposals of R-CNN.

``_contrib_MultiBoxTarget`` has no converter: it goes with the loss.
"""
from __future__ import annotations

import numpy as np

from .boxes import LOWEST, best, chosen_first, gathered, of_classes, unsuppressed
from .forms import Single
from .rule_registry import OnnxCall, Tensor, TorchCall, indices, onnx, shape, torch, traits
from .shape_rules import Call, Shape

traits("_contrib_MultiBoxDetection", "_contrib_MultiProposal", "_contrib_Proposal", ranks_rows=True, makes_indices=True)
traits("_contrib_MultiBoxPrior", makes_indices=True, shape_inputs=(0,))
traits("_contrib_MultiBoxTarget", target_labels=(1,), example_label=(8, 5))
traits("_contrib_mrcnn_mask_target", target_labels=(1, 2, 3))


@indices("_contrib_MultiProposal", "_contrib_Proposal", position=2, kind="size")
def _(call: Call, *, feature_stride) -> int:
    return 1 + feature_stride * max(call.shapes[0][2:])


# -- SSD --------------------------------------------------------------------------------------------------------------
@shape("_contrib_MultiBoxPrior")
def _(call: Call, data: Shape, *, sizes, ratios) -> Shape:
    call.check(len(data) == 4, 0, "4 dimensions")
    return 1, data[2] * data[3] * (len(sizes) + len(ratios) - 1), 4


@onnx("_contrib_MultiBoxPrior")
def _(call: OnnxCall, data: Tensor | None) -> Tensor:
    """Anchors depend on the height and the width of the data alone."""
    return call.of_zeros((1, 1, *call.shapes[0][2:]))


@torch("_contrib_MultiBoxPrior")
def _(call: TorchCall, *, sizes, ratios, clip, steps, offsets) -> str:
    sizes, ratios, steps, offsets = (list(map(Single, numbers)) for numbers in (sizes, ratios, steps, offsets))
    return call.snippet("multi_box_prior", sizes, ratios, steps=steps if min(steps) > 0 else None,
                        offsets=tuple(offsets), clip=clip)


@shape("_contrib_MultiBoxTarget")
def _(call: Call, anchors: Shape, labels: Shape, predictions: Shape) -> list[Shape]:
    count, batch = anchors[1], labels[0]
    call.expect(0, (1, count, 4))
    call.expect(2, (batch, predictions[1], count))
    return [(batch, 4 * count), (batch, 4 * count), (batch, count)]


@shape("_contrib_MultiBoxDetection")
def _(call: Call, scores: Shape, *others: Shape) -> Shape:
    batch, _, count = scores
    call.expect(1, (batch, 4 * count))
    call.expect(2, (1, count, 4))
    return batch, count, 6


@torch("_contrib_MultiBoxDetection")
def _(call: TorchCall, *, clip, threshold, background_id, nms_threshold, force_suppress, variances, nms_topk) -> str:
    call.refuse_if(background_id != 0, f"has background_id {background_id}; expected 0")
    return call.snippet("multi_box_detection", threshold=Single(threshold), variances=list(map(Single, variances)),
                        overlap=Single(nms_threshold), topk=nms_topk, force=force_suppress, clip=clip)


@onnx("_contrib_MultiBoxDetection")
def _(call: OnnxCall, *inputs: Tensor, nms_threshold, force_suppress, nms_topk) -> Tensor:
    """Rows of class, score and box, the best first. The class of a suppressed row is -1.

    Rows of a score below the threshold come last and are -1. MXNet does not sort the rows behind the ``nms_topk``
    best ones, whose class is -1, too.
    """
    model = call.model
    batch, classes, count = call.shapes[0]
    rows, scores, is_valid = _rows(call)
    front = chosen_first(is_valid.cast(np.int64), count)
    valid_first = is_valid.apply("GatherElements", front, axis=1)
    unsorted = _where(valid_first, gathered(rows, front, call.shape))
    if not 0 < nms_threshold <= 1:
        return unsorted

    kept = nms_topk if 0 < nms_topk < count else count
    rows, scores = best(rows, is_valid.apply("Where", scores, LOWEST), (batch, kept, 6))
    by_class = scores.unsqueeze(1)
    if not force_suppress:
        ids = rows.column(0).reshape((batch, kept))
        by_class = of_classes(by_class, ids, model.constant(np.arange(classes - 1, dtype=np.float32)))
    boxes = rows.column(2, 6)
    below = float(np.nextafter(np.float32(nms_threshold), np.float32(0)))   # MXNet suppresses at the threshold itself
    remains = unsuppressed(boxes, by_class, (batch, kept), below).cast(bool)
    ids = _where(remains, rows.column(0))
    result = ids.apply("Concat", rows.column(1, 6), axis=2)
    result = _where(scores > LOWEST, result)
    if kept == count:
        return result
    behind = unsorted.cut([1, 2], [kept, 1], [count, 6])
    no_class = model.scalar(-1, call.dtype).expand((batch, count - kept, 1))
    return result.apply("Concat", no_class.apply("Concat", behind, axis=2), axis=1)


def _rows(call: OnnxCall) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of class, score and box; their scores; and whether the score reaches the threshold."""
    batch, classes, count = call.shapes[0]
    objects = call.inputs[0].cut([1], [1], [classes])   # class 0 is the background
    scores = objects.reduce("ReduceMax", [1], keepdims=False)
    ids = objects.apply("ArgMax", axis=1, keepdims=0).cast(call.dtype)
    threshold = call.model.scalar(call.attributes["threshold"], call.dtype)
    boxes = _decoded(call)
    id_column, score_column = (value.reshape((batch, count, 1)) for value in (ids, scores))
    return id_column.apply("Concat", score_column, boxes, axis=2), scores, scores >= threshold


def _decoded(call: OnnxCall) -> Tensor:
    batch, _, count = call.shapes[0]
    variances = np.array(call.attributes["variances"], call.dtype)
    offsets = call.inputs[1].reshape((batch, count, 4))
    offsets = offsets * call.model.constant(variances)
    anchors = call.inputs[2].reshape((1, count, 4))
    first, last = anchors.column(0, 2), anchors.column(2, 4)
    half = call.model.scalar(0.5, call.dtype)
    size = last - first
    middle = (first + last) * half
    middle = offsets.column(0, 2) * size + middle
    size = offsets.column(2, 4).apply("Exp") * size
    boxes = _around(middle, middle, size * half)
    return boxes.apply("Clip", 0, 1) if call.attributes["clip"] else boxes


def _around(first: Tensor, last: Tensor, margin: Tensor) -> Tensor:
    """Boxes from corners, or twice their centre, and a margin on every side."""
    return (first - margin).apply("Concat", last + margin, axis=2)


def _where(condition: Tensor, rows: Tensor) -> Tensor:
    """The rows for which the condition, (batch, count), holds; other ones are -1."""
    return condition.unsqueeze(2).apply("Where", rows, -1)


# -- the proposals of R-CNN -------------------------------------------------------------------------------------------
@shape("_contrib_MultiProposal", "_contrib_Proposal")
def _(call: Call, scores: Shape, offsets: Shape, sizes: Shape, *, rpn_post_nms_top_n) -> list[Shape]:
    batch, channels, height, width = scores
    call.expect(1, (batch, 2 * channels, height, width))
    call.expect(2, (batch, 3))
    return [(batch * rpn_post_nms_top_n, 5), (batch * rpn_post_nms_top_n, 1)]


@onnx("_contrib_MultiProposal", most=None)
@onnx("_contrib_Proposal", most=1)
def _(call: OnnxCall, *inputs: Tensor, rpn_pre_nms_top_n, rpn_post_nms_top_n, threshold, most) -> list[Tensor]:
    """The best boxes of each image that do not overlap, over and over until the rows are full."""
    model, batch = call.model, call.shapes[0][0]
    if most == 1 != batch:
        raise call.refuse("takes one image at a time; expected a batch of 1")
    boxes, scores, count = _candidates(call)
    tried = min(rpn_pre_nms_top_n, count) if rpn_pre_nms_top_n > 0 else count
    rows = rpn_post_nms_top_n
    boxes, scores = best(boxes, scores, (batch, tried, 4))

    # Whole pixels, of which the last one counts. MXNet has sorted the boxes, also those of equal scores.
    ends = boxes + model.constant(np.array([0, 0, 1, 1], np.float32))
    falling = model.constant(np.arange(tried, 0, -1, dtype=np.float32)).expand((batch, 1, tried))
    remains = unsuppressed(ends, falling, (batch, tried), threshold, most=min(rows, tried))
    count_left = remains.reduce("ReduceSum", [1])
    turns = model.constant(np.arange(rows)[None]).apply("Mod", count_left)
    chosen = chosen_first(remains, tried).apply("GatherElements", turns, axis=1)

    image = model.positions(batch, np.float32).reshape((batch, 1, 1)).expand((batch, rows, 1))
    regions = image.apply("Concat", gathered(boxes, chosen, (batch, rows, 4)), axis=2)
    scores = scores.apply("GatherElements", chosen, axis=1)
    return [regions.reshape((batch * rows, 5)), scores.reshape((batch * rows, 1))]


def _candidates(call: OnnxCall) -> tuple[Tensor, Tensor, int]:
    """Every anchor's box and score, and how many there are in an image.

    The score is -1 beyond the image, and where a box is smaller than ``rpn_min_size``.
    """
    scores, offsets, sizes = call.inputs
    batch, channels, height, width = call.shapes[0]
    each = channels // 2
    count = height * width * each
    scores = scores.cut([1], [each], [channels]).apply("Transpose", perm=(0, 2, 3, 1)).reshape((batch, count))
    offsets = offsets.reshape((batch, each, 4, height, width))
    offsets = offsets.apply("Transpose", perm=(0, 3, 4, 1, 2)).reshape((batch, count, 4))
    image = sizes.cut([1], [0], [2])   # height and width
    boxes = _moved(call, offsets, _anchors(call, height, width))
    last = (image - 1).apply("Gather", call.model.ints(1, 0, 1, 0), axis=1).unsqueeze(1)
    boxes = boxes.apply("Min", last).apply("Max", 0)   # they stay within the image

    positions = np.indices((height, width, each))[:2].reshape(2, count).astype(np.float32)
    inside = (image / call.attributes["feature_stride"]).apply("Floor")
    is_outside = [call.model.constant(positions[i:i + 1]) >= inside.cut([1], [i], [i + 1]) for i in range(2)]
    smallest = sizes.cut([1], [2], [3]) * call.attributes["rpn_min_size"]
    first, last = boxes.column(0, 2), boxes.column(2, 4)
    side = (last - first + 1).reduce("ReduceMin", [2], keepdims=False)
    is_small = side < smallest
    grown = (smallest / 2).reshape((batch, 1, 1))
    boxes = is_small.unsqueeze(2).apply("Where", _around(first, last, grown), boxes)
    is_out = call.model.add("Or", *is_outside).apply("Or", is_small)
    return boxes, is_out.apply("Where", -1, scores), count


def _anchors(call: OnnxCall, height: int, width: int) -> np.ndarray:
    """The corners of all anchors in pixels, (height * width * anchors, 4), with MXNet's roundings."""
    stride = call.attributes["feature_stride"]
    middle = np.float32(0.5 * (stride - 1))
    anchors = []
    for ratio in np.float32(call.attributes["ratios"]):
        root = np.floor(np.sqrt(np.floor(np.float32(stride * stride) / ratio)) + np.float32(0.5))
        for scale in np.float32(call.attributes["scales"]):
            sides = np.array([root * scale, np.floor(root * scale / scale * ratio + np.float32(0.5)) * scale])
            half = np.float32(0.5) * (sides - 1)
            anchors.append(np.concatenate([middle - half, middle + half]))
    rows, columns = np.indices((height, width)) * stride
    shifts = np.stack([columns, rows, columns, rows], axis=-1)
    return (shifts[:, :, None] + np.array(anchors)).reshape(-1, 4).astype(np.float32)


def _moved(call: OnnxCall, offsets: Tensor, anchors: np.ndarray) -> Tensor:
    """The corners of boxes from their offsets from the anchors, in whole pixels of which the last one counts."""
    constant = call.model.constant
    if call.attributes["iou_loss"]:
        return constant(anchors[None]) + offsets
    size = anchors[:, 2:] - anchors[:, :2] + 1
    middle = anchors[:, :2] + np.float32(0.5) * (size - 1)
    shift, growth = offsets.column(0, 2), offsets.column(2, 4)
    centre = shift * constant(size[None]) + constant(middle[None])
    grown = growth.apply("Exp") * constant(size[None])
    return _around(centre, centre, (grown - 1) * 0.5)
