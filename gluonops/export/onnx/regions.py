"""Converters of pooling over regions of interest. A region is a row of image, left, top, right, bottom."""
from __future__ import annotations

import numpy as np

from .arithmetic import rounded
from .model import Call, Tensor
from .registry import converts


@converts("_contrib_ROIAlign")
def roi_align(call: Call) -> Tensor:
    has_mode = call.model.opset >= 16
    if call.flag("aligned") and not has_mode:
        raise call.refuse("has aligned=True, which ONNX has from opset 16 on")
    options = {}
    if has_mode:
        options["coordinate_transformation_mode"] = "half_pixel" if call.flag("aligned") else "output_half_pixel"
    height, width = call.ints("pooled_size", ())
    images = _images(call)
    pooled = call.inputs[0].apply("RoiAlign", _corners(call), images.apply("Max", 0), mode="avg",
                                  output_height=height, output_width=width,
                                  sampling_ratio=max(call.value("sample_ratio", -1), 0),
                                  spatial_scale=float(call.value("spatial_scale")), **options)
    if call.flag("position_sensitive"):
        pooled = _own_channels(call, pooled, height * width)
    return _without_padding(call, images, pooled)


@converts("ROIPooling")
def roi_pooling(call: Call) -> Tensor:
    images = _images(call)
    column = images.apply("Max", 0).reshape((call.shapes[1][0], 1)).cast(call.dtype)
    regions = column.apply("Concat", _corners(call), axis=1)
    pooled = call.inputs[0].apply("MaxRoiPool", regions, pooled_shape=call.ints("pooled_size", ()),
                                  spatial_scale=float(call.value("spatial_scale")))
    return _without_padding(call, images, pooled)


def _corners(call: Call) -> Tensor:
    return call.inputs[1].cut([1], [1], [5])


def _images(call: Call) -> Tensor:
    """The number of each region's image. It is negative where a region is padding."""
    return call.inputs[1].cut([1], [0], [1]).cast(np.int64).reshape((call.shapes[1][0],))


def _without_padding(call: Call, images: Tensor, pooled: Tensor) -> Tensor:
    """Zeros for regions of no image."""
    is_padding = (images < 0).reshape((call.shapes[1][0], 1, 1, 1))
    return is_padding.apply("Where", 0, pooled)


def _own_channels(call: Call, pooled: Tensor, bins: int) -> Tensor:
    """Of each bin the channels that belong to it. ``pooled`` has the channels of all bins in every bin."""
    regions, channels = call.shape[:2]
    diagonal = np.arange(bins) * (bins + 1)
    flat = pooled.reshape((regions, channels, bins * bins))
    return flat.apply("Gather", call.model.ints(*diagonal), axis=2).reshape(call.shape)


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
