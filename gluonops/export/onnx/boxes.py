"""Converters of detectors' operators on boxes.

ONNX's NonMaxSuppression returns indices class by class. MXNet's box_nms returns rows, which are made from them.
"""
from __future__ import annotations

import numpy as np

from .model import Call, Tensor
from .registry import converts

LOWEST = float(np.finfo(np.float32).min)   # the score of a row that does not take part


@converts("_contrib_box_nms")
def box_nms(call: Call) -> Tensor:
    """Rows in order of falling score without the suppressed ones, and rows of -1 behind them.

    The result equals MXNet's if the corners of boxes are in order (x0 <= x1) and class ids are whole numbers.
    """
    shape = call.shapes[0]
    if len(shape) > 3:
        raise call.refuse("has more than one batch axis")
    if call.text("in_format", "corner") != call.text("out_format", "corner"):
        raise call.refuse("changes the format of the boxes")
    has_batch = len(shape) == 3
    batch, count, columns = shape if has_batch else (1, *shape)
    rows = call.inputs[0] if has_batch else call.inputs[0].reshape((batch, count, columns))

    topk = call.value("topk", -1)
    kept = topk if 0 < topk < count else count
    rows, scores = _best_valid(call, rows, (batch, count), kept)
    chosen = _chosen(call, rows, scores, (batch, kept))
    order = chosen_first(chosen, kept)
    is_chosen = chosen.apply("GatherElements", order, axis=1).unsqueeze(2).cast(bool)
    result = is_chosen.apply("Where", gathered(rows, order, (batch, kept, columns)), -1)
    if kept < count:
        result = result.apply("Pad", call.model.ints(0, 0, 0, 0, count - kept, 0), call.model.scalar(-1, call.dtype))
    return result if has_batch else result.reshape(shape)


def _best_valid(call: Call, rows: Tensor, sizes: tuple, kept: int) -> tuple[Tensor, Tensor]:
    """The ``kept`` best rows in falling order, and their scores, LOWEST where a row does not take part."""
    scores = rows.column(call.value("score_index", 1)).reshape(sizes)
    valid = scores > call.value("valid_thresh", 0.0)
    background = call.value("background_id", -1)
    ids = call.value("id_index", -1)
    if background >= 0 and ids >= 0:
        other = rows.column(ids).reshape(sizes).apply("Equal", background)
        valid = valid.apply("And", other.apply("Not"))
    return best(rows, valid.apply("Where", scores.cast(np.float32), LOWEST), (sizes[0], kept, call.shapes[0][-1]))


def best(rows: Tensor, scores: Tensor, sizes: tuple) -> tuple[Tensor, Tensor]:
    """The rows of the highest scores in falling order, of these sizes, and their scores."""
    scores, order = scores.apply("TopK", rows.model.ints(sizes[1]), outputs=2, axis=1)
    return gathered(rows, order, sizes), scores


def gathered(rows: Tensor, order: Tensor, sizes: tuple) -> Tensor:
    """The rows of each image in another order. GatherND with ``batch_dims`` would do, but few programs have it."""
    return rows.apply("GatherElements", order.unsqueeze(2).expand(sizes), axis=1)


def _chosen(call: Call, rows: Tensor, scores: Tensor, sizes: tuple) -> Tensor:
    """1 for each row that is not suppressed, else 0."""
    begin = call.value("coord_start", 2)
    ids = call.value("id_index", -1)
    boxes = rows.column(begin, begin + 4).cast(np.float32)
    by_class = scores.unsqueeze(1)
    if ids >= 0 and not call.flag("force_suppress"):
        class_ids = rows.column(ids).reshape(sizes).cast(np.float32)
        by_class = _by_class(by_class, class_ids, scores)
    is_center = call.text("in_format", "corner") == "center"
    return unsuppressed(boxes, by_class, sizes, call.value("overlap_thresh", 0.5),
                        max(call.value("valid_thresh", 0.0), LOWEST), center_point_box=int(is_center))


def unsuppressed(boxes: Tensor, scores: Tensor, sizes: tuple, overlap: float, lowest: float = LOWEST,
                 most: int | None = None, **options: int) -> Tensor:
    """1 for each box that non-maximum suppression leaves, else 0.

    - ``boxes``: (batch, count, 4), of these ``sizes``; ``scores``: (batch, classes, count).
    - ``overlap``: of the boxes to suppress it is greater; ``lowest``: of the boxes that take part the score is greater.
    - ``most``: how many boxes it leaves at most.
    """
    model = boxes.model
    thresholds = [model.constant(np.array([value], np.float32)) for value in (overlap, lowest)]
    selected = boxes.apply("NonMaxSuppression", scores, model.ints(most or sizes[1]), *thresholds, **options)
    places = selected.apply("Gather", model.ints(0, 2), axis=1)
    ones = model.scalar(1, np.int64).apply("Expand", model.first_size(selected))
    return model.scalar(0, np.int64).expand(sizes).apply("ScatterND", places, ones)


def _by_class(scores: Tensor, ids: Tensor, flat_scores: Tensor) -> Tensor:
    """A row of scores for each class id from the lowest to the highest, LOWEST for boxes of other classes."""
    ids = (flat_scores > LOWEST).apply("Where", ids, 0)
    first = ids.reduce("ReduceMin", keepdims=False)
    last = ids.reduce("ReduceMax", keepdims=False)
    return of_classes(scores, ids, first.apply("Range", last + 1, 1))


def of_classes(scores: Tensor, ids: Tensor, class_ids: Tensor) -> Tensor:
    """A row of scores, (batch, 1, count), for each class, LOWEST where a box, of class ``ids``, is of another one."""
    classes = class_ids.unsqueeze(0, 2)
    return ids.unsqueeze(1).apply("Equal", classes).apply("Where", scores, LOWEST)


def chosen_first(chosen: Tensor, count: int) -> Tensor:
    """The order, (batch, count), in which the rows that are chosen, 1 and not 0, come before the others."""
    model = chosen.model
    shift = (1 - chosen) * count
    place = model.constant(np.arange(count)) + shift
    return place.apply("TopK", model.ints(count), outputs=2, axis=1, largest=0)[1]


@converts("_contrib_box_decode")
def box_decode(call: Call) -> Tensor:
    """Corners of boxes from their offsets from anchors."""
    offsets = [call.inputs[0].column(i) * call.value(f"std{i}", 1.0) for i in range(4)]
    x, y, width, height = (call.inputs[1].column(i) for i in range(4))
    if call.text("format", "center") == "corner":
        width = width - x
        height = height - y
        x = x + width * 0.5
        y = y + height * 0.5
    left, right = _decoded(call, x, width, offsets[0], offsets[2])
    top, bottom = _decoded(call, y, height, offsets[1], offsets[3])
    return left.apply("Concat", top, right, bottom, axis=2)


def _decoded(call: Call, centre: Tensor, size: Tensor, shift: Tensor, growth: Tensor) -> tuple[Tensor, Tensor]:
    """Both ends of a box along one axis."""
    middle = shift * size + centre
    limit = call.value("clip", -1.0)
    if limit > 0:
        growth = growth.apply("Min", limit)
    half = growth.apply("Exp") * size * 0.5
    return middle - half, middle + half
