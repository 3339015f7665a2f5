"""Converters of detectors' operators on boxes.

ONNX's NonMaxSuppression returns indices class by class. MXNet's box_nms returns rows, which are made from them.
"""
from __future__ import annotations

import numpy as np

from .arrays import cut
from .model import Call, Model
from .registry import converts

LOWEST = float(np.finfo(np.float32).min)   # the score of a row that does not take part


@converts("_contrib_box_nms")
def box_nms(model: Model, call: Call) -> str:
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
    rows = call.inputs[0]
    if not has_batch:
        rows = model.reshape(rows, (batch, count, columns))

    topk = call.value("topk", -1)
    kept = topk if 0 < topk < count else count
    rows, scores = _best(model, call, rows, (batch, count), kept)
    chosen = _chosen(model, call, rows, scores, (batch, kept))
    result = _compacted(model, rows, chosen, (batch, kept, columns), call.dtype)
    if kept < count:
        result = model.add("Pad", result, model.ints(0, 0, 0, 0, count - kept, 0), model.scalar(-1, call.dtype))
    return result if has_batch else model.reshape(result, shape)


def _column(model: Model, rows: str, index: int, sizes: tuple) -> str:
    return model.reshape(cut(model, rows, [2], [index], [index + 1]), sizes)


def _best(model: Model, call: Call, rows: str, sizes: tuple, kept: int) -> tuple[str, str]:
    """The ``kept`` best rows in falling order, and their scores, LOWEST where a row does not take part."""
    scores = _column(model, rows, call.value("score_index", 1), sizes)
    valid = model.add("Greater", scores, model.scalar(call.value("valid_thresh", 0.0), call.dtype))
    background = call.value("background_id", -1)
    ids = call.value("id_index", -1)
    if background >= 0 and ids >= 0:
        other = model.add("Equal", _column(model, rows, ids, sizes), model.scalar(background, call.dtype))
        valid = model.add("And", valid, model.add("Not", other))
    scores = model.add("Where", valid, model.cast(scores, np.float32), model.scalar(LOWEST, np.float32))
    scores, order = model.add("TopK", scores, model.ints(kept), outputs=2, axis=1)
    return gathered(model, rows, order, (sizes[0], kept, call.shapes[0][-1])), scores


def gathered(model: Model, rows: str, order: str, sizes: tuple) -> str:
    """The rows of each image in another order. GatherND with ``batch_dims`` would do, but few programs have it."""
    indices = model.add("Expand", model.add("Unsqueeze", order, model.ints(2)), model.shape(sizes))
    return model.add("GatherElements", rows, indices, axis=1)


def _chosen(model: Model, call: Call, rows: str, scores: str, sizes: tuple) -> str:
    """1 for each row that is not suppressed, else 0."""
    begin = call.value("coord_start", 2)
    ids = call.value("id_index", -1)
    boxes = model.cast(cut(model, rows, [2], [begin], [begin + 4]), np.float32)
    by_class = model.add("Unsqueeze", scores, model.ints(1))
    if ids >= 0 and not call.flag("force_suppress"):
        class_ids = model.cast(_column(model, rows, ids, sizes), np.float32)
        by_class = _by_class(model, by_class, class_ids, scores)
    is_center = call.text("in_format", "corner") == "center"
    return unsuppressed(model, boxes, by_class, sizes, call.value("overlap_thresh", 0.5),
                        max(call.value("valid_thresh", 0.0), LOWEST), center_point_box=int(is_center))


def unsuppressed(model: Model, boxes: str, scores: str, sizes: tuple, overlap: float, lowest: float = LOWEST,
                 most: int | None = None, **options: int) -> str:
    """1 for each box that non-maximum suppression leaves, else 0.

    - ``boxes``: (batch, count, 4), of these ``sizes``; ``scores``: (batch, classes, count).
    - ``overlap``: of the boxes to suppress it is greater; ``lowest``: of the boxes that take part the score is greater.
    - ``most``: how many boxes it leaves at most.
    """
    thresholds = [model.constant(np.array([value], np.float32)) for value in (overlap, lowest)]
    selected = model.add("NonMaxSuppression", boxes, scores, model.ints(most or sizes[1]), *thresholds, **options)
    places = model.add("Gather", selected, model.ints(0, 2), axis=1)
    count = model.add("Slice", model.add("Shape", selected), model.ints(0), model.ints(1))
    ones = model.add("Expand", model.scalar(1, np.int64), count)
    zeros = model.add("Expand", model.scalar(0, np.int64), model.shape(sizes))
    return model.add("ScatterND", zeros, places, ones)


def _by_class(model: Model, scores: str, ids: str, flat_scores: str) -> str:
    """A row of scores for each class id from the lowest to the highest, LOWEST for boxes of other classes."""
    takes_part = model.add("Greater", flat_scores, model.scalar(LOWEST, np.float32))
    ids = model.add("Where", takes_part, ids, model.scalar(0, np.float32))
    first = model.reduce("ReduceMin", ids, keepdims=False)
    last = model.reduce("ReduceMax", ids, keepdims=False)
    one = model.scalar(1, np.float32)
    class_ids = model.add("Range", first, model.add("Add", last, one), one)
    return of_classes(model, scores, ids, class_ids)


def of_classes(model: Model, scores: str, ids: str, class_ids: str) -> str:
    """A row of scores, (batch, 1, count), for each class, LOWEST where a box, of class ``ids``, is of another one."""
    classes = model.add("Unsqueeze", class_ids, model.ints(0, 2))
    member = model.add("Equal", model.add("Unsqueeze", ids, model.ints(1)), classes)
    return model.add("Where", member, scores, model.scalar(LOWEST, np.float32))


def _compacted(model: Model, rows: str, chosen: str, sizes: tuple, dtype: np.dtype) -> str:
    """The chosen rows in front, in their order, and rows of -1 behind them."""
    order = chosen_first(model, chosen, sizes[1])
    moved = model.add("GatherElements", chosen, order, axis=1)
    is_chosen = model.cast(model.add("Unsqueeze", moved, model.ints(2)), bool)
    return model.add("Where", is_chosen, gathered(model, rows, order, sizes), model.scalar(-1, dtype))


def chosen_first(model: Model, chosen: str, count: int) -> str:
    """The order, (batch, count), in which the rows that are chosen, 1 and not 0, come before the others."""
    suppressed = model.add("Sub", model.scalar(1, np.int64), chosen)
    shift = model.add("Mul", suppressed, model.scalar(count, np.int64))
    place = model.add("Add", model.constant(np.arange(count)), shift)
    return model.add("TopK", place, model.ints(count), outputs=2, axis=1, largest=0)[1]


@converts("_contrib_box_decode")
def box_decode(model: Model, call: Call) -> str:
    centre, size = halves(model, call.inputs[1])
    if call.text("format", "center") == "corner":
        size = model.add("Sub", size, centre)
        centre = model.add("Add", centre, model.add("Mul", size, model.scalar(0.5, call.dtype)))
    deviations = [call.value(f"std{i}", 1.0) for i in range(4)]
    return decoded(model, call.inputs[0], np.array(deviations, call.dtype), centre, size, call.value("clip", -1.0))


def decoded(model: Model, offsets: str, deviations: np.ndarray, centre: str, size: str, limit: float = -1.0) -> str:
    """The corners of boxes from their offsets from anchors, whose logarithms of sizes may have a limit."""
    shift, growth = halves(model, model.add("Mul", offsets, model.constant(deviations)))
    middle = model.add("Add", model.add("Mul", shift, size), centre)
    if limit > 0:
        growth = model.add("Min", growth, model.scalar(limit, deviations.dtype))
    half = model.add("Mul", model.add("Mul", model.add("Exp", growth), size), model.scalar(0.5, deviations.dtype))
    return around(model, middle, middle, half)


def halves(model: Model, rows: str) -> tuple[str, str]:
    """The first two columns and the last two of boxes."""
    return cut(model, rows, [2], [0], [2]), cut(model, rows, [2], [2], [4])


def around(model: Model, first: str, last: str, margin: str) -> str:
    """Boxes from corners, or twice their centre, and a margin on every side."""
    return model.add("Concat", model.add("Sub", first, margin), model.add("Add", last, margin), axis=2)
