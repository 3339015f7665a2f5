"""Operators on boxes. Pooling over regions of interest is in :mod:`.regions`, what anchors need in :mod:`.detection`.

ONNX's NonMaxSuppression returns indices class by class. MXNet's box_nms returns rows, which are made from them.
"""
from __future__ import annotations

import numpy as np

from .forms import Single
from .rule_registry import OnnxCall, Tensor, TorchCall, onnx, shape, torch, traits
from .shape_rules import Call, Shape

LOWEST = float(np.finfo(np.float32).min)   # the score of a row that does not take part

traits("_contrib_box_nms", ranks_rows=True, makes_indices=True, jumps=True, shown=("overlap_thresh", "topk"))
traits("_contrib_box_encode", target_labels=(0, 1, 3))


@shape("_contrib_box_nms")
def _(call: Call, data: Shape) -> Shape:
    return data


@onnx("_contrib_box_nms")
def _(call: OnnxCall, data: Tensor, *, topk, in_format, out_format) -> Tensor:
    """Rows in order of falling score without the suppressed ones, and rows of -1 behind them.

    The result equals MXNet's if the corners of boxes are in order (x0 <= x1) and class ids are whole numbers.
    """
    sizes = call.shapes[0]
    if len(sizes) > 3:
        raise call.refuse("has several batch axes; expected one")
    if in_format != out_format:
        raise call.refuse(f"has in_format {in_format} and out_format {out_format}; expected the same for both")
    has_batch = len(sizes) == 3
    batch, count, columns = sizes if has_batch else (1, *sizes)
    rows = data if has_batch else data.reshape((batch, count, columns))

    kept = topk if 0 < topk < count else count
    rows, scores = _best_valid(call, rows, (batch, count), kept)
    chosen = _chosen(call, rows, scores, (batch, kept))
    order = chosen_first(chosen, kept)
    is_chosen = chosen.apply("GatherElements", order, axis=1).unsqueeze(2).cast(bool)
    result = is_chosen.apply("Where", gathered(rows, order, (batch, kept, columns)), -1)
    if kept < count:
        result = result.apply("Pad", call.model.ints(0, 0, 0, 0, count - kept, 0), call.model.scalar(-1, call.dtype))
    return result if has_batch else result.reshape(sizes)


@torch("_contrib_box_nms")
def _(call: TorchCall, *, overlap_thresh, valid_thresh, topk, coord_start, score_index, id_index, background_id,
      force_suppress, in_format, out_format) -> str:
    call.refuse_if(call.ndim != 3 or (in_format, out_format) != ("corner", "corner"),
                   "has other boxes than the corners of boxes in rows, (batch, boxes, columns)")
    return call.snippet("box_nms", overlap=Single(overlap_thresh), valid=Single(valid_thresh), topk=topk,
                        box=coord_start, score=score_index, class_id=id_index, background=background_id,
                        force=force_suppress)


def _best_valid(call: OnnxCall, rows: Tensor, sizes: tuple, kept: int) -> tuple[Tensor, Tensor]:
    """The ``kept`` best rows in falling order, and their scores, LOWEST where a row does not take part."""
    attributes = call.attributes
    scores = rows.column(attributes["score_index"]).reshape(sizes)
    valid = scores > attributes["valid_thresh"]
    background, ids = attributes["background_id"], attributes["id_index"]
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


def _chosen(call: OnnxCall, rows: Tensor, scores: Tensor, sizes: tuple) -> Tensor:
    """1 for each row that is not suppressed, else 0."""
    attributes = call.attributes
    begin, ids = attributes["coord_start"], attributes["id_index"]
    boxes = rows.column(begin, begin + 4).cast(np.float32)
    by_class = scores.unsqueeze(1)
    if ids >= 0 and not attributes["force_suppress"]:
        class_ids = rows.column(ids).reshape(sizes).cast(np.float32)
        by_class = _by_class(by_class, class_ids, scores)
    return unsuppressed(boxes, by_class, sizes, attributes["overlap_thresh"], max(attributes["valid_thresh"], LOWEST),
                        center_point_box=int(attributes["in_format"] == "center"))


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
    indices = selected.apply("Gather", model.ints(0, 2), axis=1)
    ones = model.scalar(1, np.int64).apply("Expand", model.first_size(selected))
    return model.scalar(0, np.int64).expand(sizes).apply("ScatterND", indices, ones)


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
    order = model.constant(np.arange(count)) + shift
    return order.apply("TopK", model.ints(count), outputs=2, axis=1, largest=0)[1]


@shape("_contrib_box_decode")
def _(call: Call, data: Shape, anchors: Shape) -> Shape:
    call.check(len(data) == 3 and data[2] == 4, 0, "(batch, boxes, 4)")
    call.check(anchors[1:] == data[1:], 1, f"(1, {data[1]}, 4)")
    return data


@onnx("_contrib_box_decode")
def _(call: OnnxCall, data: Tensor, anchors: Tensor, *, std0, std1, std2, std3, clip, format) -> Tensor:
    """Corners of boxes from their offsets from anchors."""
    offsets = [data.column(i) * deviation for i, deviation in enumerate((std0, std1, std2, std3))]
    x, y, width, height = (anchors.column(i) for i in range(4))
    if format == "corner":
        width = width - x
        height = height - y
        x = x + width * 0.5
        y = y + height * 0.5
    left, right = _ends(x, width, offsets[0], offsets[2], clip)
    top, bottom = _ends(y, height, offsets[1], offsets[3], clip)
    return left.apply("Concat", top, right, bottom, axis=2)


def _ends(centre: Tensor, size: Tensor, shift: Tensor, growth: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    """Both ends of a box along one axis."""
    middle = shift * size + centre
    if limit > 0:
        growth = growth.apply("Min", limit)
    half = growth.apply("Exp") * size * 0.5
    return middle - half, middle + half


@torch("_contrib_box_decode")
def _(call: TorchCall, *, std0, std1, std2, std3, clip, format) -> str:
    deviations = list(map(Single, (std0, std1, std2, std3)))
    return call.snippet("box_decode", deviations, is_corner=format == "corner", limit=Single(clip))
