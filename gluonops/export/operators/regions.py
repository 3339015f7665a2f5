"""Pooling over regions of interest, each a row of image, left, top, right, bottom; the loss of unaligned sequences."""
from __future__ import annotations

import math

import numpy as np

from .arithmetic import rounded
from .forms import Single
from .rule_registry import OnnxCall, Tensor, TorchCall, indices, onnx, shape, torch
from .shape_rules import Call, Shape


@indices("ROIPooling", "_contrib_DeformablePSROIPooling", "_contrib_PSROIPooling", "_contrib_RROIAlign",
         "_contrib_ROIAlign", position=1, kind="box")
def _(call: Call) -> int:
    return call.shapes[0][0]


@shape("_contrib_ROIAlign")
def _(call: Call, data: Shape, regions: Shape, *, pooled_size, position_sensitive) -> Shape:
    sizes = (pooled_size * 2)[:2]
    call.check(len(regions) == 2 and regions[1] == 5, 1,
               "(regions, 5), with the number of an image and a box in each row")
    maps = math.prod(sizes) if position_sensitive else 1
    return (regions[0], data[1] // maps, *sizes)


@onnx("_contrib_ROIAlign")
def _(call: OnnxCall, data: Tensor, regions: Tensor, *, pooled_size, spatial_scale, sample_ratio, position_sensitive,
      aligned) -> Tensor:
    mode = "half_pixel" if aligned else "output_half_pixel"
    options = {"coordinate_transformation_mode": mode} if call.model.opset >= 16 else {}
    if aligned and not options:
        raise call.refuse("has aligned=True, which ONNX has from opset 16 on; expected opset=16 or more")
    height, width = (pooled_size * 2)[:2]
    images = _images(call)
    pooled = data.apply("RoiAlign", regions.cut([1], [1], [5]), images.apply("Max", 0), mode="avg",
                        output_height=height, output_width=width, sampling_ratio=max(sample_ratio, 0),
                        spatial_scale=spatial_scale, **options)
    if position_sensitive:
        # It has the channels of all bins in every bin. Those that belong to a bin are on the diagonal.
        count, channels = call.shape[:2]
        bins = height * width
        flat = pooled.reshape((count, channels, bins * bins))
        diagonal = call.model.ints(*np.arange(bins) * (bins + 1))
        pooled = flat.apply("Gather", diagonal, axis=2).reshape(call.shape)
    return _without_padding(call, images, pooled)


@torch("_contrib_ROIAlign")
def _(call: TorchCall, *, pooled_size, spatial_scale, sample_ratio, position_sensitive, aligned) -> str:
    call.refuse_if(position_sensitive, "has position_sensitive=True; expected False")
    return call.snippet("roi_align", pooled_size, Single(spatial_scale), samples=sample_ratio, aligned=aligned)


@shape("ROIPooling")
def _(call: Call, data: Shape, rois: Shape, *, pooled_size) -> Shape:
    call.check(len(data) == 4, 0, "4 dimensions")
    call.check(len(rois) == 2 and rois[1] == 5, 1, "(regions, 5)")
    return rois[0], data[1], *pooled_size


@torch("ROIPooling")
def _(call: TorchCall, *, pooled_size, spatial_scale) -> str:
    return call.snippet("roi_pooling", pooled_size, spatial_scale)


@onnx("ROIPooling")
def _(call: OnnxCall, data: Tensor, regions: Tensor, *, pooled_size, spatial_scale) -> Tensor:
    images = _images(call)
    column = images.apply("Max", 0).reshape((call.shapes[1][0], 1)).cast(call.dtype)
    regions = column.apply("Concat", regions.cut([1], [1], [5]), axis=1)
    pooled = data.apply("MaxRoiPool", regions, pooled_shape=pooled_size, spatial_scale=spatial_scale)
    return _without_padding(call, images, pooled)


def _images(call: OnnxCall) -> Tensor:
    """The number of each region's image. It is negative where a region is padding."""
    return call.inputs[1].cut([1], [0], [1]).cast(np.int64).reshape((call.shapes[1][0],))


def _without_padding(call: OnnxCall, images: Tensor, pooled: Tensor) -> Tensor:
    """Zeros for regions of no image."""
    is_padding = (images < 0).reshape((call.shapes[1][0], 1, 1, 1))
    return is_padding.apply("Where", 0, pooled)


@shape("_contrib_PSROIPooling")
def _(call: Call, data: Shape, rois: Shape, *, output_dim, pooled_size) -> Shape:
    call.check(len(data) == 4, 0, "4 dimensions")
    call.check(len(rois) == 2 and rois[1] == 5, 1, "(regions, 5)")
    return rois[0], output_dim, pooled_size, pooled_size


@onnx("_contrib_PSROIPooling")
def _(call: OnnxCall, data: Tensor, _: Tensor, *, spatial_scale, group_size) -> Tensor:
    """The mean over the pixels of each bin, as a product with a tensor of 1 where a pixel belongs to a bin, else 0."""
    batch, _, height, width = call.shapes[0]
    regions, channels, bins, _ = call.shape
    groups = group_size or bins
    scale = call.model.scalar(spatial_scale, call.dtype)
    rows = _members(call, (2, 4), scale, bins, height)
    columns = _members(call, (1, 3), scale, bins, width)
    images = call.model.positions(batch, np.int64).reshape((1, batch))
    image = _images(call).reshape((regions, 1)).apply("Equal", images)

    member = rows.reshape((regions, bins, 1, 1, height, 1)) * columns.reshape((regions, 1, bins, 1, 1, width))
    pixels = batch * (height * width)
    area = member.reduce("ReduceSum", (3, 4, 5), keepdims=False).apply("Max", 1)
    image = image.cast(call.dtype).reshape((regions, 1, 1, batch, 1, 1))
    member = (member * image).reshape((regions, bins, bins, pixels)).apply("Transpose", perm=(1, 2, 3, 0))

    data = data.reshape((batch, channels, groups, groups, height * width))
    own = call.model.ints(*np.arange(bins) * groups // bins)
    data = data.apply("Gather", own, axis=2).apply("Gather", own, axis=3)
    data = data.apply("Transpose", perm=(2, 3, 1, 0, 4)).reshape((bins, bins, channels, pixels))
    sums = data.apply("MatMul", member).apply("Transpose", perm=(3, 2, 0, 1))
    return sums / area.reshape((regions, 1, bins, bins))


def _members(call: OnnxCall, columns: tuple[int, int], scale: Tensor, bins: int, size: int) -> Tensor:
    """Along one axis: 1 where a pixel belongs to a bin, else 0, (regions, bins, size)."""
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


@shape("CTCLoss")
def _(call: Call, data: Shape, label: Shape, *lengths: Shape) -> Shape:
    call.check(len(data) == 3, 0, "(steps, batch, classes)")
    call.check(len(label) == 2 and label[0] == data[1], 1, f"({data[1]}, labels)")
    for position in range(len(lengths)):
        call.expect(2 + position, (data[1],))
    return (data[1],)


@torch("CTCLoss")
def _(call: TorchCall, *, use_data_lengths, use_label_lengths, blank_label) -> str:
    """The lengths are inputs behind the label, each if it is used."""
    names = ["data_lengths"] * use_data_lengths + ["label_lengths"] * use_label_lengths
    inputs = ["{0}", "{1}", *(f"{name}={{{position}}}" for position, name in enumerate(names, 2))]
    return f"ctc_loss({', '.join(inputs)}{', blank=-1' if blank_label == 'last' else ''})"
