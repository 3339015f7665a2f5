"""Converters of what detectors do with boxes.

ONNX's NonMaxSuppression returns indices class by class; MXNet's rows are made from them.
"""
import numpy as np

from .arrays import cut
from .registry import converts

LOWEST = float(np.finfo(np.float32).min)   # the score of what does not take part


@converts("_contrib_box_nms", "_contrib_box_non_maximum_suppression")
def box_nms(m, n):
    """Rows by falling score, those suppressed left out, the rest filled with -1.

    Equal to MXNet's where boxes are in order (x0 <= x1) and class ids whole numbers.
    """
    shape = n.shapes[0]
    if len(shape) > 3:
        raise n.refuse("has more than one batch axis")
    if n.text("in_format", "corner") != n.text("out_format", "corner"):
        raise n.refuse("changes the format of the boxes")
    batch, count, columns = (1, *shape) if len(shape) == 2 else shape
    rows = m.reshape(n.inputs[0], (batch, count, columns)) if len(shape) == 2 else n.inputs[0]
    wanted = n.value("topk", -1)
    kept = wanted if 0 < wanted < count else count
    rows, scores = _best(m, n, rows, (batch, count), kept)
    chosen = _chosen(m, n, rows, scores, (batch, kept))
    result = _compacted(m, rows, chosen, (batch, kept, columns), n.dtype)
    if kept < count:
        result = m.add("Pad", result, m.ints(0, 0, 0, 0, count - kept, 0), m.scalar(-1, n.dtype))
    return m.reshape(result, shape) if len(shape) == 2 else result


def _column(m, rows, index, sizes):
    return m.reshape(cut(m, rows, [2], [index], [index + 1]), sizes)


def _best(m, n, rows, sizes, kept):
    """The ``kept`` best rows in falling order, and their scores, LOWEST where a row does not take part."""
    scores = _column(m, rows, n.value("score_index", 1), sizes)
    valid = m.add("Greater", scores, m.scalar(n.value("valid_thresh", 0.0), n.dtype))
    background, ids = n.value("background_id", -1), n.value("id_index", -1)
    if background >= 0 and ids >= 0:
        other = m.add("Equal", _column(m, rows, ids, sizes), m.scalar(background, n.dtype))
        valid = m.add("And", valid, m.add("Not", other))
    scores = m.add("Where", valid, m.cast(scores, np.float32), m.scalar(LOWEST, np.float32))
    scores, order = m.add("TopK", scores, m.ints(kept), outputs=2, axis=1)
    return _gathered(m, rows, order, (sizes[0], kept, n.shapes[0][-1])), scores


def _gathered(m, rows, order, sizes):
    """The rows of each image in another order. GatherND would do with ``batch_dims``, which few programs read."""
    indices = m.add("Expand", m.add("Unsqueeze", order, m.ints(2)), m.shape(sizes))
    return m.add("GatherElements", rows, indices, axis=1)


def _chosen(m, n, rows, scores, sizes):
    """1 for each row that survives, else 0."""
    begin, ids = n.value("coord_start", 2), n.value("id_index", -1)
    boxes = m.cast(cut(m, rows, [2], [begin], [begin + 4]), np.float32)
    by_class = m.add("Unsqueeze", scores, m.ints(1))
    if ids >= 0 and not n.flag("force_suppress"):
        by_class = _by_class(m, by_class, m.cast(_column(m, rows, ids, sizes), np.float32), scores)
    selected = m.add("NonMaxSuppression", boxes, by_class, m.ints(sizes[1]),
                     m.constant(np.array([n.value("overlap_thresh", 0.5)], np.float32)),
                     m.constant(np.array([max(n.value("valid_thresh", 0.0), LOWEST)], np.float32)),
                     center_point_box=int(n.text("in_format", "corner") == "center"))
    places = m.add("Gather", selected, m.ints(0, 2), axis=1)
    how_many = m.add("Slice", m.add("Shape", selected), m.ints(0), m.ints(1))
    ones = m.add("Expand", m.scalar(1, np.int64), how_many)
    zeros = m.add("Expand", m.scalar(0, np.int64), m.shape(sizes))
    return m.add("ScatterND", zeros, places, ones)


def _by_class(m, scores, ids, flat_scores):
    """The scores once for every class that occurs, LOWEST in the rows of other classes."""
    takes_part = m.add("Greater", flat_scores, m.scalar(LOWEST, np.float32))
    ids = m.add("Where", takes_part, ids, m.scalar(0, np.float32))
    first, last = (m.reduce(op, ids, keepdims=False) for op in ("ReduceMin", "ReduceMax"))
    one = m.scalar(1, np.float32)
    classes = m.add("Unsqueeze", m.add("Range", first, m.add("Add", last, one), one), m.ints(0, 2))
    member = m.add("Equal", m.add("Unsqueeze", ids, m.ints(1)), classes)
    return m.add("Where", member, scores, m.scalar(LOWEST, np.float32))


def _compacted(m, rows, chosen, sizes, dtype):
    """The chosen rows moved to the front in their order, -1 behind them."""
    kept = sizes[1]
    late = m.add("Mul", m.add("Sub", m.scalar(1, np.int64), chosen), m.scalar(kept, np.int64))
    place = m.add("Add", m.constant(np.arange(kept)), late)
    _, order = m.add("TopK", place, m.ints(kept), outputs=2, axis=1, largest=0)
    moved = m.add("GatherElements", chosen, order, axis=1)
    there = m.cast(m.add("Unsqueeze", moved, m.ints(2)), bool)
    return m.add("Where", there, _gathered(m, rows, order, sizes), m.scalar(-1, dtype))


@converts("_contrib_ROIAlign")
def roi_align(m, n):
    """Regions are rows of (image, left, top, right, bottom)."""
    if n.flag("position_sensitive"):
        raise n.refuse("pools by position (position_sensitive=True)")
    if n.flag("aligned") and m.opset < 16:
        raise n.refuse("has aligned=True, which ONNX has from opset 16 on")
    count, _ = n.shapes[1]
    regions = cut(m, n.inputs[1], [1], [1], [5])
    images = m.reshape(m.cast(cut(m, n.inputs[1], [1], [0], [1]), np.int64), (count,))
    options = {}
    if m.opset >= 16:
        options["coordinate_transformation_mode"] = "half_pixel" if n.flag("aligned") else "output_half_pixel"
    height, width = n.ints("pooled_size", ())
    zero = m.scalar(0, np.int64)
    pooled = m.add("RoiAlign", n.inputs[0], regions, m.add("Max", images, zero), mode="avg", output_height=height,
                   output_width=width, sampling_ratio=max(n.value("sample_ratio", -1), 0),
                   spatial_scale=float(n.value("spatial_scale")), **options)
    padding = m.reshape(m.add("Less", images, zero), (count, 1, 1, 1))   # a negative image: zeros
    return m.add("Where", padding, m.scalar(0, n.dtype), pooled)


@converts("_contrib_box_decode")
def box_decode(m, n):
    """Offsets from anchors to corners."""
    offsets = [m.add("Mul", _columns(m, n.inputs[0], i), m.scalar(n.value(f"std{i}", 1.0), n.dtype)) for i in range(4)]
    x, y, w, h = (_columns(m, n.inputs[1], i) for i in range(4))
    if n.text("format", "center") == "corner":
        w, h = m.add("Sub", w, x), m.add("Sub", h, y)
        x, y = (m.add("Add", start, _half(m, n, size)) for start, size in ((x, w), (y, h)))
    corners = []
    for centre, size, shift, growth in ((x, w, *offsets[::2]), (y, h, *offsets[1::2])):
        middle = m.add("Add", m.add("Mul", shift, size), centre)
        if n.value("clip", -1.0) > 0:
            growth = m.add("Min", growth, m.scalar(n.value("clip"), n.dtype))
        half = _half(m, n, m.add("Mul", m.add("Exp", growth), size))
        corners.append((m.add("Sub", middle, half), m.add("Add", middle, half)))
    (left, right), (top, bottom) = corners
    return m.add("Concat", left, top, right, bottom, axis=2)


def _columns(m, rows, index):
    return cut(m, rows, [2], [index], [index + 1])


def _half(m, n, value):
    return m.add("Mul", value, m.scalar(0.5, n.dtype))
