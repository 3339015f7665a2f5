"""Layers with weights: convolutions, the correlation of two maps, dense layers, embeddings."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from .forms import Form, default_of, one
from .rule_registry import OnnxCall, Tensor, TorchCall, indices, onnx, shape, torch, traits, types
from .shape_rules import Call, Shape
from .windows import check_onnx_layout, check_torch_layout, map_shape, pixels_of, state_of, torch_window

OPTIONS = ("stride", "padding", "output_padding", "dilation", "groups")   # The functions that convolve take these.

# -- convolutions -----------------------------------------------------------------------------------------------------
traits("Convolution", "Convolution_v1", "Deconvolution", has_weights=True, has_parameters=True)
traits("_contrib_DeformableConvolution", "_contrib_ModulatedDeformableConvolution", has_weights=True)
traits("Convolution", "Convolution_v1", "Deconvolution", is_linear=True)
traits("Convolution", "Convolution_v1", acts_as="convolution", keeps_batch=True, weight_rows="num_filter")
traits("Convolution", "Deconvolution", stays_float=True)


def _spans(call: Call) -> list[int]:
    """How many pixels a kernel covers along each axis, less those of the padding."""
    kernel, _, pads, dilations = call.window()
    return [dilation * (length - 1) + 1 - 2 * pad for length, pad, dilation in zip(kernel, pads, dilations)]


def _convolved(call: Call, groups: int) -> list[int]:
    """The sizes of the map that a convolution makes."""
    kernel, strides, _, _ = call.window()
    sizes = [(size - span) // stride + 1 for size, stride, span in zip(pixels_of(call, kernel), strides, _spans(call))]
    call.check(call.data[1] % groups == 0, 0, f"a number of channels that is divisible by {groups}")
    return sizes


@shape("Convolution", "Convolution_v1")
def _(call: Call, *, kernel, num_filter, num_group) -> Shape:
    sizes = _convolved(call, num_group)
    call.expect(1, (num_filter, call.data[1] // num_group, *kernel))
    call.expect(2, (num_filter,))
    return map_shape(call, num_filter, sizes)


@onnx("Convolution", "Convolution_v1")
def _(call: OnnxCall, *inputs: Tensor) -> Tensor:
    check_onnx_layout(call)
    return call.model.add("Conv", *inputs, **_window_options(call))


def _window_options(call: OnnxCall) -> dict[str, Any]:
    """The attributes of ONNX's convolutions."""
    kernel, strides, pads, dilations = call.window()
    return {"kernel_shape": kernel, "strides": strides, "pads": pads * 2, "dilations": dilations,
            "group": call.attributes["num_group"]}


@torch("Convolution", "Convolution_v1")
def _(call: TorchCall) -> Form:
    return _convolution_form(call, "Conv", "conv")


def _convolution_form(call: TorchCall, kind: str, function: str) -> Form:
    check_torch_layout(call)
    args = _of_convolution(call, 1)
    options = "".join(f", {name}={args[name]!r}" for name in OPTIONS if args[name] != default_of("nn.Conv", name))
    spatial = call.ndim - 2
    return Form(f"F.{function}{spatial}d(*{{inputs}}{options})", f"nn.{kind}{spatial}d", args,
                state_of(call, "weight", "bias"))


def _of_convolution(call: TorchCall, first: int) -> dict[str, object]:
    """The arguments of a convolution. ``first``: the position of its weight."""
    *_, dilations = call.window()
    return {"in_channels": call.shapes[0][1], "out_channels": call.shape[1], **torch_window(call),
            "output_padding": one(call.attributes.get("adj") or (0,)),   # Only a deconvolution has some.
            "dilation": one(dilations), "groups": call.attributes["num_group"],
            "bias": len(call.node.inputs) > first + 1}


@shape("Deconvolution")
def _(call: Call, *, kernel, num_filter, num_group, adj, target_shape) -> Shape:
    _, strides, _, _ = call.window()
    nothing = (0,) * len(kernel)
    sizes = [stride * (size - 1) + span + more for size, stride, span, more
             in zip(pixels_of(call, kernel), strides, _spans(call), adj or nothing)]
    sizes = target_shape if target_shape and all(target_shape) else sizes
    call.expect(1, (call.data[1], num_filter // num_group, *kernel))
    call.expect(2, (num_filter,))
    return map_shape(call, num_filter, sizes)


@onnx("Deconvolution")
def _(call: OnnxCall, *inputs: Tensor, adj, target_shape) -> Tensor:
    check_onnx_layout(call)
    if any(target_shape):
        raise call.refuse("has a target_shape, with which MXNet 1.9.1 itself fails")
    options = _window_options(call)
    padding = adj or (0,) * len(options["kernel_shape"])
    return call.model.add("ConvTranspose", *inputs, output_padding=padding, **options)


@torch("Deconvolution")
def _(call: TorchCall, *, target_shape) -> Form:
    check_torch_layout(call)
    call.refuse_if(any(target_shape), "has a target_shape, with which MXNet 1.9.1 itself fails")
    call.refuse_if(call.ndim > 4,
                   "has a kernel of three dimensions, which MXNet cannot compute in float64 to compare with")
    _, strides, _, dilations = call.window()
    call.refuse_if(max(strides) > 1 and max(dilations) > 1,
                   "has both strides and dilations, with which MXNet computes wrong numbers in float64")
    return _convolution_form(call, "ConvTranspose", "conv_transpose")


@onnx("_contrib_DeformableConvolution", opset=19)
def _(call: OnnxCall, data: Tensor, offset: Tensor, weight: Tensor, *bias: Tensor, kernel,
      num_deformable_group) -> Tensor:
    """MXNet's first version reads nothing at negative positions, and clamps those beyond the last pixel to it.

    ONNX weighs both with the zeros around the data. So the positions are clamped, and a mask leaves out the others.
    """
    constant = call.model.constant
    batch, _, height, width = call.shapes[0]
    points = math.prod(kernel)
    rows, columns = call.shape[2:]
    split = (batch, num_deformable_group * points, 2, rows, columns)
    grid = constant(np.tile(_grid(call), (num_deformable_group, 1, 1, 1))[None].astype(call.dtype))
    position = offset.reshape(split) + grid
    sizes = np.array([height, width], call.dtype).reshape(1, 1, 2, 1, 1)
    is_inside = (position >= 0).apply("And", position < constant(sizes))
    mask = is_inside.cast(call.dtype).reduce("ReduceMin", [2], keepdims=False)
    position = position.apply("Min", constant(sizes - 1)).apply("Max", 0)
    offset = (position - grid).reshape(call.shapes[1])
    return _deformed(call, data, weight, offset, *(bias or [None]), mask)


@shape("_contrib_DeformableConvolution", has_mask=False)
@shape("_contrib_ModulatedDeformableConvolution", has_mask=True)
def _(call: Call, *, kernel, num_filter, num_group, num_deformable_group, has_mask) -> Shape:
    """It has offsets, and perhaps weights of the points."""
    sizes = _convolved(call, num_group)
    points = num_deformable_group * math.prod(kernel)
    call.expect(1, (call.data[0], 2 * points, *sizes))
    if has_mask:
        call.expect(2, (call.data[0], points, *sizes))
    call.expect(2 + has_mask, (num_filter, call.data[1] // num_group, *kernel))
    call.expect(3 + has_mask, (num_filter,))
    return map_shape(call, num_filter, sizes)


@onnx("_contrib_ModulatedDeformableConvolution", opset=19)
def _(call: OnnxCall, data: Tensor, offset: Tensor, mask: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
    return _deformed(call, data, weight, offset, *(bias or [None]), mask)


@torch("_contrib_ModulatedDeformableConvolution")
def _(call: TorchCall) -> Form:   # offsets and a mask come before the weight
    return Form(module="DeformableConv2d", args=_of_convolution(call, 3),
                state=state_of(call, "weight", "bias", first=3))


def _deformed(call: OnnxCall, *inputs: Tensor | None) -> Tensor:
    groups = call.attributes["num_deformable_group"]
    return call.model.add("DeformConv", *inputs, offset_group=groups, **_window_options(call))


def _grid(call: OnnxCall) -> np.ndarray:
    """Where each point of the kernel is without offsets, (points, 2, rows, columns)."""
    kernel, *window = call.window()
    grids = []
    for axis, (stride, pad, dilation) in enumerate(zip(*window)):
        steps = np.indices(call.shape[2:])[axis] * stride - pad
        point = np.indices(kernel)[axis].reshape(-1, 1, 1) * dilation
        grids.append(point + steps)
    return np.stack(grids, axis=1)


@shape("Correlation")
def _(call: Call, first: Shape, second: Shape, *, kernel_size, max_displacement, stride1, stride2, pad_size) -> Shape:
    call.expect(1, first)
    border = max_displacement + (kernel_size - 1) // 2
    rows, columns = (-(-(size + 2 * pad_size - 2 * border) // stride1) for size in first[2:])
    call.check(rows > 0 and columns > 0, 0, "at least as many pixels as the window has")
    return first[0], (2 * (max_displacement // stride2) + 1) ** 2, rows, columns


@onnx("Correlation")
def _(call: OnnxCall, *inputs: Tensor, kernel_size, max_displacement, stride1, stride2, pad_size,
      is_multiply) -> Tensor:
    """A channel for each shift of the second map: the mean of the products, or distances, of both maps."""
    borders = call.model.ints(0, 0, pad_size, pad_size, 0, 0, pad_size, pad_size)
    first, second = (value.apply("Pad", borders, call.model.scalar(0, call.dtype)) for value in inputs)
    sizes = [(count - 1) * stride1 + kernel_size for count in call.shape[2:]]   # The windows cover so many.

    def window(value: Tensor, row: int, column: int) -> Tensor:
        begins = [max_displacement + row, max_displacement + column]
        return value.cut([2, 3], begins, [begin + size for begin, size in zip(begins, sizes)])

    reach = max_displacement // stride2
    shifts = [step * stride2 for step in range(-reach, reach + 1)]
    centre = window(first, 0, 0)
    channels = []
    for row in shifts:
        for column in shifts:
            moved = window(second, row, column)
            score = centre * moved if is_multiply else (centre - moved).apply("Abs")
            channels.append(score.reduce("ReduceMean", [1]))
    maps = call.model.add("Concat", *channels, axis=1)
    return maps.apply("AveragePool", kernel_shape=[kernel_size] * 2, strides=[stride1] * 2)


@torch("Correlation")
def _(call: TorchCall, *, kernel_size, max_displacement, stride1, stride2, pad_size, is_multiply) -> str:
    return call.snippet("correlation", max_displacement, kernel=kernel_size, stride=stride1, step=stride2,
                        padding=pad_size, multiply=is_multiply)


# -- dense layers and embeddings --------------------------------------------------------------------------------------
traits("FullyConnected", has_weights=True, has_parameters=True, is_linear=True, weight_rows="num_hidden",
       keeps_batch=True, hides_layout=True, stays_float=True, shown=("num_hidden",))
traits("Embedding", has_weights=True, has_parameters=True, weight_rows="input_dim", stays_float=True)


@shape("FullyConnected")
def _(call: Call, *, num_hidden, flatten) -> Shape:
    rows = call.data[:1] if flatten else call.data[:-1]
    call.expect(1, (num_hidden, math.prod(call.data[1:]) if flatten else call.data[-1]))
    call.expect(2, (num_hidden,))
    return (*rows, num_hidden)


@onnx("FullyConnected")
def _(call: OnnxCall, data: Tensor, weight: Tensor, *bias: Tensor, flatten) -> Tensor:
    if flatten:
        flat = call.shapes[0][:1] + (call.shapes[1][1],)
        if call.shapes[0] != flat:
            data = data.reshape(flat)
        return data.apply("Gemm", weight, *bias, transB=1)
    product = data.apply("MatMul", weight.apply("Transpose", perm=(1, 0)))
    return product + bias[0] if bias else product


@torch("FullyConnected")
def _(call: TorchCall) -> Form:   # a node of its own flattens the data; see :func:`.prepare.prepared`
    return Form("F.linear(*{inputs})", "nn.Linear", state=state_of(call, "weight", "bias"),
                args={"in_features": call.shapes[1][1], "out_features": call.shapes[1][0],
                      "bias": len(call.node.inputs) > 2})


@shape("Embedding")
def _(call: Call, *, input_dim, output_dim) -> Shape:
    call.expect(1, (input_dim, output_dim))
    return (*call.data, output_dim)


@types("Embedding")
def _(call: Call, data: np.dtype, weight: np.dtype) -> np.dtype:
    return weight


@indices("Embedding", position=0)
def _(call: Call, *, input_dim) -> int:
    return input_dim


@onnx("Embedding")
def _(call: OnnxCall, data: Tensor, weight: Tensor, *, input_dim) -> Tensor:
    return weight.apply("Gather", data.as_indices(input_dim), axis=0)


@torch("Embedding")
def _(call: TorchCall) -> Form:
    return Form("F.embedding({0}.long(), {1})", "nn.Embedding",
                dict(zip(("num_embeddings", "embedding_dim"), call.shapes[1])), {"weight": 1}, "{self}({0}.long())")
