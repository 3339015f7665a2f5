"""Converters of detectors' operators on boxes, and of pooling over regions of interest.

ONNX's NonMaxSuppression returns indices class by class. MXNet's box_nms returns rows, which are made from them. A
region is a row of image, left, top, right, bottom.
"""
from __future__ import annotations

import numpy as np

from ..operators.arithmetic import rounded
from .model import Call, Tensor, converts

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


@converts("_contrib_ROIAlign")
def roi_align(call: Call) -> Tensor:
    mode = "half_pixel" if call.flag("aligned") else "output_half_pixel"
    options = {"coordinate_transformation_mode": mode} if call.model.opset >= 16 else {}
    if call.flag("aligned") and not options:
        raise call.refuse("has aligned=True, which ONNX has from opset 16 on")
    height, width = call.ints("pooled_size", ())
    images = _images(call)
    pooled = call.inputs[0].apply("RoiAlign", call.inputs[1].cut([1], [1], [5]), images.apply("Max", 0), mode="avg",
                                  output_height=height, output_width=width,
                                  sampling_ratio=max(call.value("sample_ratio", -1), 0),
                                  spatial_scale=float(call.value("spatial_scale")), **options)
    if call.flag("position_sensitive"):
        # It has the channels of all bins in every bin. Those that belong to a bin are on the diagonal.
        regions, channels = call.shape[:2]
        bins = height * width
        flat = pooled.reshape((regions, channels, bins * bins))
        diagonal = call.model.ints(*np.arange(bins) * (bins + 1))
        pooled = flat.apply("Gather", diagonal, axis=2).reshape(call.shape)
    return _without_padding(call, images, pooled)


@converts("ROIPooling")
def roi_pooling(call: Call) -> Tensor:
    images = _images(call)
    column = images.apply("Max", 0).reshape((call.shapes[1][0], 1)).cast(call.dtype)
    regions = column.apply("Concat", call.inputs[1].cut([1], [1], [5]), axis=1)
    pooled = call.inputs[0].apply("MaxRoiPool", regions, pooled_shape=call.ints("pooled_size", ()),
                                  spatial_scale=float(call.value("spatial_scale")))
    return _without_padding(call, images, pooled)


def _images(call: Call) -> Tensor:
    """The number of each region's image. It is negative where a region is padding."""
    return call.inputs[1].cut([1], [0], [1]).cast(np.int64).reshape((call.shapes[1][0],))


def _without_padding(call: Call, images: Tensor, pooled: Tensor) -> Tensor:
    """Zeros for regions of no image."""
    is_padding = (images < 0).reshape((call.shapes[1][0], 1, 1, 1))
    return is_padding.apply("Where", 0, pooled)


@converts("_contrib_PSROIPooling")
def position_sensitive_pooling(call: Call) -> Tensor:
    """The mean over the pixels of each bin, as a product with a tensor of 1 where a pixel belongs to a bin, else 0."""
    batch, _, height, width = call.shapes[0]
    regions, channels, bins, _ = call.shape
    groups = call.value("group_size", 0) or bins
    rows = _members(call, (2, 4), bins, height)
    columns = _members(call, (1, 3), bins, width)
    images = call.model.positions(batch, np.int64).reshape((1, batch))
    image = _images(call).reshape((regions, 1)).apply("Equal", images)

    member = rows.reshape((regions, bins, 1, 1, height, 1)) * columns.reshape((regions, 1, bins, 1, 1, width))
    pixels = batch * (height * width)
    area = member.reduce("ReduceSum", (3, 4, 5), keepdims=False).apply("Max", 1)
    image = image.cast(call.dtype).reshape((regions, 1, 1, batch, 1, 1))
    member = (member * image).reshape((regions, bins, bins, pixels)).apply("Transpose", perm=(1, 2, 3, 0))

    data = call.inputs[0].reshape((batch, channels, groups, groups, height * width))
    own = call.model.ints(*np.arange(bins) * groups // bins)
    data = data.apply("Gather", own, axis=2).apply("Gather", own, axis=3)
    data = data.apply("Transpose", perm=(2, 3, 1, 0, 4)).reshape((bins, bins, channels, pixels))
    sums = data.apply("MatMul", member).apply("Transpose", perm=(3, 2, 0, 1))
    return sums / area.reshape((regions, 1, bins, bins))


def _members(call: Call, columns: tuple[int, int], bins: int, size: int) -> Tensor:
    """Along one axis: 1 where a pixel belongs to a bin, else 0, (regions, bins, size)."""
    scale = call.model.scalar(call.value("spatial_scale"), call.dtype)
    first, last = (rounded(call.inputs[1].cut([1], [i], [i + 1])) for i in columns)
    begin = first * scale
    end = (last + 1) * scale
    length = (end - begin).apply("Max", 0.1) / bins
    bin_numbers = np.arange(bins, dtype=call.dtype)[None]
    begins, ends = (call.model.constant(numbers) * length + begin for numbers in (bin_numbers, bin_numbers + 1))
    pixel = call.model.constant(np.arange(size, dtype=call.dtype))
    after = pixel >= begins.apply("Floor").unsqueeze(2)
    before = pixel < ends.apply("Ceil").unsqueeze(2)
    return after.apply("And", before).cast(call.dtype)
