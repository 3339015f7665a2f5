"""Converters of pooling over regions of interest. A region is a row of image, left, top, right, bottom."""
from __future__ import annotations

import numpy as np

from .arithmetic import rounded
from .arrays import cut
from .model import Call, Model
from .registry import converts


@converts("_contrib_ROIAlign")
def roi_align(model: Model, call: Call) -> str:
    if call.flag("aligned") and model.opset < 16:
        raise call.refuse("has aligned=True, which ONNX has from opset 16 on")
    options = {}
    if model.opset >= 16:
        options["coordinate_transformation_mode"] = "half_pixel" if call.flag("aligned") else "output_half_pixel"
    height, width = call.ints("pooled_size", ())
    images = _images(model, call)
    pooled = model.add("RoiAlign", call.inputs[0], _corners(model, call), _of_the_batch(model, images), mode="avg",
                       output_height=height, output_width=width,
                       sampling_ratio=max(call.value("sample_ratio", -1), 0),
                       spatial_scale=float(call.value("spatial_scale")), **options)
    if call.flag("position_sensitive"):
        pooled = _own_channels(model, call, pooled, height * width)
    return _without_padding(model, call, images, pooled)


@converts("ROIPooling")
def roi_pooling(model: Model, call: Call) -> str:
    images = _images(model, call)
    column = model.reshape(_of_the_batch(model, images), (call.shapes[1][0], 1))
    regions = model.add("Concat", model.cast(column, call.dtype), _corners(model, call), axis=1)
    pooled = model.add("MaxRoiPool", call.inputs[0], regions, pooled_shape=call.ints("pooled_size", ()),
                       spatial_scale=float(call.value("spatial_scale")))
    return _without_padding(model, call, images, pooled)


def _corners(model: Model, call: Call) -> str:
    return cut(model, call.inputs[1], [1], [1], [5])


def _images(model: Model, call: Call) -> str:
    """The number of each region's image."""
    return model.reshape(model.cast(cut(model, call.inputs[1], [1], [0], [1]), np.int64), (call.shapes[1][0],))


def _of_the_batch(model: Model, images: str) -> str:
    """The numbers of images, 0 for the negative ones of padding."""
    return model.add("Max", images, model.scalar(0, np.int64))


def _without_padding(model: Model, call: Call, images: str, pooled: str) -> str:
    """Zeros for regions of no image: the number of theirs is negative."""
    is_padding = model.reshape(model.add("Less", images, model.scalar(0, np.int64)), (call.shapes[1][0], 1, 1, 1))
    return model.add("Where", is_padding, model.scalar(0, call.dtype), pooled)


def _own_channels(model: Model, call: Call, pooled: str, bins: int) -> str:
    """Of each bin the channels that belong to it. ``pooled`` has the channels of all bins in every bin."""
    regions, channels = call.shape[:2]
    diagonal = np.arange(bins) * (bins + 1)
    flat = model.reshape(pooled, (regions, channels, bins * bins))
    return model.reshape(model.add("Gather", flat, model.ints(*diagonal), axis=2), call.shape)


@converts("_contrib_PSROIPooling")
def position_sensitive_pooling(model: Model, call: Call) -> str:
    """The mean over the pixels of each bin, as a product with a tensor of 1 where a pixel belongs to a bin, else 0."""
    batch, _, height, width = call.shapes[0]
    regions, channels, bins, _ = call.shape
    groups = call.value("group_size", 0) or bins
    rows = _members(model, call, (2, 4), bins, height)
    columns = _members(model, call, (1, 3), bins, width)
    images = model.reshape(model.positions(batch, np.int64), (1, batch))
    image = model.add("Equal", model.reshape(_images(model, call), (regions, 1)), images)

    member = model.add("Mul", model.reshape(rows, (regions, bins, 1, 1, height, 1)),
                       model.reshape(columns, (regions, 1, bins, 1, 1, width)))
    pixels = batch * (height * width)
    area = model.add("Max", model.reduce("ReduceSum", member, (3, 4, 5), keepdims=False), model.scalar(1, call.dtype))
    image = model.reshape(model.cast(image, call.dtype), (regions, 1, 1, batch, 1, 1))
    member = model.reshape(model.add("Mul", member, image), (regions, bins, bins, pixels))
    member = model.add("Transpose", member, perm=(1, 2, 3, 0))

    data = model.reshape(call.inputs[0], (batch, channels, groups, groups, height * width))
    own = model.ints(*np.arange(bins) * groups // bins)
    data = model.add("Gather", model.add("Gather", data, own, axis=2), own, axis=3)
    data = model.reshape(model.add("Transpose", data, perm=(2, 3, 1, 0, 4)), (bins, bins, channels, pixels))
    sums = model.add("Transpose", model.add("MatMul", data, member), perm=(3, 2, 0, 1))
    return model.add("Div", sums, model.reshape(area, (regions, 1, bins, bins)))


def _members(model: Model, call: Call, columns: tuple[int, int], bins: int, size: int) -> str:
    """Along one axis: 1 where a pixel belongs to a bin, else 0, (regions, bins, size)."""
    def number(value: float) -> str:
        return model.scalar(value, call.dtype)

    scale = number(call.value("spatial_scale"))
    first, last = (rounded(model, cut(model, call.inputs[1], [1], [i], [i + 1]), call.dtype) for i in columns)
    begin = model.add("Mul", first, scale)
    end = model.add("Mul", model.add("Add", last, number(1)), scale)
    length = model.add("Div", model.add("Max", model.add("Sub", end, begin), number(0.1)), number(bins))
    bin_numbers = np.arange(bins, dtype=call.dtype)[None]
    begins, ends = (model.add("Add", model.add("Mul", model.constant(numbers), length), begin)
                    for numbers in (bin_numbers, bin_numbers + 1))
    pixel = model.constant(np.arange(size, dtype=call.dtype))
    after = model.add("GreaterOrEqual", pixel, model.add("Unsqueeze", model.add("Floor", begins), model.ints(2)))
    before = model.add("Less", pixel, model.add("Unsqueeze", model.add("Ceil", ends), model.ints(2)))
    return model.cast(model.add("And", after, before), call.dtype)
