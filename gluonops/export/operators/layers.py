"""Layers: convolutions, dense layers, embeddings, normalization, pooling, activations, dropout, softmax, resizing."""
from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .forms import Form, Single, default_of, one
from .registry import in_torch, onnx, shape, torch, traits
from .shapes import Misfit, Shape

if TYPE_CHECKING:
    from ..onnx.model import Call as OnnxCall
    from ..onnx.model import Tensor
    from ..torch.registry import Call as TorchCall
    from .shapes import Call

DARKNET = "darknet_batch_norm"   # a node of these stands for a batch norm that divides as Darknet does
COUNTER = "counter"              # and a node of these for what counts images in training
OPTIONS = ("stride", "padding", "output_padding", "dilation", "groups")   # The functions that convolve take these.


# -- what several layers share --------------------------------------------------------------------------------------
def _pixels(call: Call, kernel: Shape = ()) -> Shape:
    """The sizes of the data along the axes of the pixels."""
    if call.has_channels_last:
        raise Misfit(f"{call.node.name!r} has the channels last, where only MXNet knows the shapes")
    call.check(len(call.data) == len(kernel or call.data[2:]) + 2, 0, f"{len(kernel) + 2} dimensions")
    return call.data[2:]


def _map(call: Call, channels: int, sizes: list[int]) -> Shape:
    """The shape of a map."""
    call.check(all(size > 0 for size in sizes), 0, "more pixels")
    return (call.data[0], channels, *sizes)


def _check_onnx_layout(call: OnnxCall) -> None:
    if call.has_channels_last:
        raise call.refuse(f"has layout {call.text('layout')}; ONNX puts channels first")


def _check_torch_layout(call: TorchCall) -> None:
    call.refuse_if(call.has_channels_last, f"has layout {call.text('layout')}; expected channels first")


def _torch_window(call: TorchCall) -> dict[str, object]:
    """The arguments that convolutions and poolings share."""
    return dict(zip(("kernel_size", "stride", "padding"), map(one, call.window())))


def _state(call: TorchCall, *names: str, first: int = 1) -> dict[str, int]:
    """The parameters of a layer by the position of their variables, which follow the data."""
    return dict(zip(names, range(first, len(call.node.inputs))))


def _across(size: int, ndim: int, axis: int) -> tuple[int, ...]:
    """The shape in which a vector of this size broadcasts along ``axis``."""
    return tuple(size if i == axis else 1 for i in range(ndim))


# -- convolutions ---------------------------------------------------------------------------------------------------
traits("Convolution", "Convolution_v1", "Deconvolution", has_weights=True, has_parameters=True)
traits("_contrib_DeformableConvolution", "_contrib_ModulatedDeformableConvolution", has_weights=True)
traits("Convolution", "Deconvolution", is_linear=True)


def _spans(call: Call) -> list[int]:
    """How many pixels a kernel covers along each axis, less those of the padding."""
    kernel, _, pads, dilations = call.window()
    return [dilation * (length - 1) + 1 - 2 * pad for length, pad, dilation in zip(kernel, pads, dilations)]


def _convolved(call: Call, groups: int) -> list[int]:
    """The sizes of the map that a convolution makes."""
    kernel, strides, _, _ = call.window()
    sizes = [(size - span) // stride + 1 for size, stride, span in zip(_pixels(call, kernel), strides, _spans(call))]
    call.check(call.data[1] % groups == 0, 0, f"channels in {groups} groups")
    return sizes


@shape("Convolution", "Convolution_v1")
def _(call: Call, *, kernel, num_filter, num_group) -> Shape:
    sizes = _convolved(call, num_group)
    call.expect(1, (num_filter, call.data[1] // num_group, *kernel))
    call.expect(2, (num_filter,))
    return _map(call, num_filter, sizes)


@onnx("Convolution", "Convolution_v1")
def _(call: OnnxCall, *inputs: Tensor) -> Tensor:
    _check_onnx_layout(call)
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
    _check_torch_layout(call)
    args = _of_convolution(call, 1)
    options = "".join(f", {name}={args[name]!r}" for name in OPTIONS if args[name] != default_of("nn.Conv", name))
    spatial = call.ndim - 2
    return Form(f"F.{function}{spatial}d({{*}}{options})", f"nn.{kind}{spatial}d", args, _state(call, "weight", "bias"))


def _of_convolution(call: TorchCall, first: int) -> dict[str, object]:
    """The arguments of a convolution. ``first``: the position of its weight."""
    *_, dilations = call.window()
    return {"in_channels": call.shapes[0][1], "out_channels": call.shape[1], **_torch_window(call),
            "output_padding": one(call.attributes.get("adj") or (0,)),   # Only a deconvolution has some.
            "dilation": one(dilations), "groups": call.attributes["num_group"],
            "bias": len(call.node.inputs) > first + 1}


@shape("Deconvolution")
def _(call: Call, *, kernel, num_filter, num_group, adj, target_shape) -> Shape:
    _, strides, _, _ = call.window()
    nothing = (0,) * len(kernel)
    sizes = [stride * (size - 1) + span + more for size, stride, span, more
             in zip(_pixels(call, kernel), strides, _spans(call), adj or nothing)]
    sizes = target_shape if target_shape and all(target_shape) else sizes
    call.expect(1, (call.data[1], num_filter // num_group, *kernel))
    call.expect(2, (num_filter,))
    return _map(call, num_filter, sizes)


@onnx("Deconvolution")
def _(call: OnnxCall, *inputs: Tensor, adj, target_shape) -> Tensor:
    _check_onnx_layout(call)
    if any(target_shape):
        raise call.refuse("has a target_shape, which MXNet 1.9.1 itself fails on")
    options = _window_options(call)
    padding = adj or (0,) * len(options["kernel_shape"])
    return call.model.add("ConvTranspose", *inputs, output_padding=padding, **options)


@torch("Deconvolution")
def _(call: TorchCall, *, target_shape) -> Form:
    _check_torch_layout(call)
    call.refuse_if(any(target_shape), "has a target_shape, which MXNet 1.9.1 itself fails on")
    call.refuse_if(call.ndim > 4, "has three dimensions, for which MXNet has no float64 to compare with")
    _, strides, _, dilations = call.window()
    call.refuse_if(max(strides) > 1 and max(dilations) > 1,
                   "has strides and dilations, for which MXNet's float64 is wrong")
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


@shape("_contrib_ModulatedDeformableConvolution")
def _(call: Call, *, kernel, num_filter, num_group, num_deformable_group) -> Shape:
    """It has offsets, and weights of the points."""
    sizes = _convolved(call, num_group)
    points = num_deformable_group * math.prod(kernel)
    call.expect(1, (call.data[0], 2 * points, *sizes))
    call.expect(2, (call.data[0], points, *sizes))
    call.expect(3, (num_filter, call.data[1] // num_group, *kernel))
    call.expect(4, (num_filter,))
    return _map(call, num_filter, sizes)


@onnx("_contrib_ModulatedDeformableConvolution", opset=19)
def _(call: OnnxCall, data: Tensor, offset: Tensor, mask: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
    return _deformed(call, data, weight, offset, *(bias or [None]), mask)


@torch("_contrib_ModulatedDeformableConvolution")
def _(call: TorchCall) -> Form:   # offsets and a mask come before the weight
    return Form(module="DeformableConv2d", args=_of_convolution(call, 3),
                state=_state(call, "weight", "bias", first=3))


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


# -- dense layers and embeddings ------------------------------------------------------------------------------------
traits("FullyConnected", has_weights=True, has_parameters=True, is_linear=True)
traits("Embedding", has_weights=True, has_parameters=True)


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
    return Form("F.linear({*})", "nn.Linear", state=_state(call, "weight", "bias"),
                args={"in_features": call.shapes[1][1], "out_features": call.shapes[1][0],
                      "bias": len(call.node.inputs) > 2})


@shape("Embedding")
def _(call: Call, *, input_dim, output_dim) -> Shape:
    call.expect(1, (input_dim, output_dim))
    return (*call.data, output_dim)


@torch("Embedding")
def _(call: TorchCall) -> Form:
    return Form("F.embedding({0}.long(), {1})", "nn.Embedding",
                dict(zip(("num_embeddings", "embedding_dim"), call.shapes[1])), {"weight": 1}, "{self}({0}.long())")


# -- normalization --------------------------------------------------------------------------------------------------
traits("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", DARKNET, has_parameters=True, normalizes=True,
       uses_statistics=True)
traits("LayerNorm", "InstanceNorm", "GroupNorm", has_parameters=True, normalizes=True)


def _normalized(call: Call, count: int) -> Shape:
    """The shape of the data. The parameters behind them have so many numbers."""
    for position in range(1, len(call.shapes)):
        call.expect(position, (count,))
    return call.data


@shape("BatchNorm", "LayerNorm")
@shape("BatchNorm_v1", "_contrib_SyncBatchNorm", "InstanceNorm", axis=1)
def _(call: Call, *, axis) -> Shape:
    return _normalized(call, call.data[call.from_front(axis)])


@onnx("BatchNorm")
@onnx("BatchNorm_v1", "_contrib_SyncBatchNorm", axis=1)
def _(call: OnnxCall, data: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, variance: Tensor, *, axis, eps,
      fix_gamma) -> Tensor:
    if fix_gamma:
        gamma = call.model.constant(np.ones(call.shapes[1], call.dtypes[1]))
    axis, ndim = call.from_front(axis), len(call.shape)
    if axis != 1:
        data = data.swapped(ndim, 1, axis)
    result = data.apply("BatchNormalization", gamma, beta, mean, variance, epsilon=eps)
    return result if axis == 1 else result.swapped(ndim, 1, axis)


@torch("BatchNorm")
@torch("BatchNorm_v1", "_contrib_SyncBatchNorm", axis=1)
@torch(DARKNET, module="DarknetBatchNorm")
def _(call: TorchCall, *, axis, eps, momentum, fix_gamma, use_global_stats, module="BatchNorm") -> Form:
    axis = call.from_front(axis)
    text = "{self}({0})" if axis == 1 else f"{{self}}({{0}}.transpose(1, {axis})).transpose(1, {axis})"
    args = {"channels": call.shapes[1][0], "eps": Single.meant(eps), "momentum": round(1 - momentum, 12),
            "fix_gamma": fix_gamma, "use_global_stats": use_global_stats}
    return Form(module=module, args=args, call=text,
                state=_state(call, "weight", "bias", "running_mean", "running_var"))


in_torch(COUNTER, Form(module="Counter", state={"count": 1}))


def _standardized(data: Tensor, axes: Sequence[int], eps: Tensor | float) -> Tensor:
    """(data - mean) / sqrt(variance + eps) over ``axes``."""
    centred = data - data.reduce("ReduceMean", axes)
    variance = (centred * centred).reduce("ReduceMean", axes)
    return centred / (variance + eps).apply("Sqrt")


def _affine(call: OnnxCall, data: Tensor, sizes: tuple) -> Tensor:
    """data * gamma + beta, with gamma and beta in this shape."""
    return data * call.inputs[1].reshape(sizes) + call.inputs[2].reshape(sizes)


@onnx("LayerNorm")
def _(call: OnnxCall, *inputs: Tensor, axis, eps) -> Tensor:
    axis, ndim = call.from_front(axis), len(call.shape)
    if call.model.opset >= 17 and axis == ndim - 1:
        return call.model.add("LayerNormalization", *inputs, epsilon=eps)
    return _affine(call, _standardized(inputs[0], [axis], eps), _across(call.shapes[1][0], ndim, axis))


@torch("LayerNorm")
def _(call: TorchCall, *, axis, eps) -> Form:
    axis = call.from_front(axis)
    return Form(module="nn.LayerNorm", state=_state(call, "weight", "bias"),
                args={"normalized_shape": call.shapes[1][0], "eps": Single(eps)},
                call="{self}({0})" if axis == call.ndim - 1 else
                f"{{self}}({{0}}.transpose({axis}, -1)).transpose({axis}, -1)")


@onnx("InstanceNorm")
def _(call: OnnxCall, *, eps) -> Tensor:
    ndim = len(call.shape)
    result = _standardized(call.inputs[0], list(range(2, ndim)), call.model.scalar(eps, call.dtype))
    return _affine(call, result, _across(call.shapes[1][0], ndim, 1))


@torch("InstanceNorm")
def _(call: TorchCall, *, eps) -> Form:
    call.refuse_if(math.prod(call.shape[2:]) == 1, "normalizes single numbers, which torch refuses")
    args = {"num_features": call.shapes[1][0], "eps": eps, "affine": True}
    return Form(module=f"nn.InstanceNorm{call.ndim - 2}d", args=args, state=_state(call, "weight", "bias"))


@shape("GroupNorm")
def _(call: Call, *, num_groups) -> Shape:
    return _normalized(call, num_groups)


@onnx("GroupNorm")
def _(call: OnnxCall, data: Tensor, *parameters: Tensor, num_groups, eps) -> Tensor:
    sizes = call.shapes[0]
    arrays = [call.model.array(value) for value in parameters]
    if call.model.opset >= 21 and all(array is not None for array in arrays):   # ONNX's are of channels
        each = sizes[1] // len(arrays[0])
        constants = [call.model.constant(np.repeat(array, each)) for array in arrays]
        return data.apply("GroupNormalization", *constants, num_groups=num_groups, epsilon=eps)
    result = data.reshape((sizes[0], num_groups, sizes[1] // num_groups) + sizes[2:])
    result = _standardized(result, list(range(2, len(sizes) + 1)), eps)
    if call.shapes[1][0] == sizes[1]:
        return _affine(call, result.reshape(sizes), _across(sizes[1], len(sizes), 1))
    return _affine(call, result, _across(num_groups, len(sizes) + 1, 1)).reshape(sizes)


@onnx("gluonops_group_norm", opset=21)
def _(call: OnnxCall, *inputs: Tensor, num_groups, eps) -> Tensor:
    return call.model.add("GroupNormalization", *inputs, num_groups=num_groups, epsilon=eps)


@torch("GroupNorm", number=Single)
@torch("gluonops_group_norm")
def _(call: TorchCall, *, num_groups, eps, number=float) -> Form | str:
    """MXNet's own has one gamma for each group, and an epsilon of float32."""
    channels, eps = call.shapes[0][1], number(eps)
    if call.shapes[1][0] != channels:
        parameters = [f"{{{i}}}.repeat_interleave({channels // num_groups})" for i in (1, 2)]
        return f"F.group_norm({{0}}, {num_groups}, {', '.join(parameters)}, {eps!r})"
    args = {"num_groups": num_groups, "num_channels": channels, "eps": eps}
    return Form(module="nn.GroupNorm", args=args, state=_state(call, "weight", "bias"))


@torch("gluonops_rms_norm", total="mean")
@torch("gluonops_l2_normalize", total="sum")
def _(call: TorchCall, *, axis, eps, total) -> str:
    """Rows divided by their length, or by the root of the mean of their squares, times a number for each channel."""
    axis = call.from_front(axis)
    scale = "{1}" + ".unsqueeze(-1)" * (call.ndim - 1 - axis)
    rows = f"{{0}}.square().{total}({axis}, keepdim=True)"
    return f"{{0}} * torch.rsqrt({rows} + {eps!r}) * {scale}"


@shape("L2Normalization", "LRN")
def _(call: Call, data: Shape) -> Shape:
    return data


@onnx("L2Normalization")
def _(call: OnnxCall, data: Tensor, *, mode, eps) -> Tensor:
    ndim = len(call.shapes[0])
    axes = {"instance": range(1, ndim), "channel": [1], "spatial": range(2, ndim)}[mode]
    total = (data * data).reduce("ReduceSum", axes)
    return data / (total + eps).apply("Sqrt")


@torch("L2Normalization")
def _(call: TorchCall, *, mode, eps) -> str:
    axes = {"instance": tuple(range(1, call.ndim)), "channel": 1, "spatial": tuple(range(2, call.ndim))}
    return f"{{0}} / ({{0}}.square().sum({axes[mode]}, keepdim=True) + {Single(eps)!r}).sqrt()"


@onnx("LRN")
def _(call: OnnxCall, data: Tensor, *, nsize, alpha, beta, knorm) -> Tensor:
    return data.apply("LRN", size=nsize, alpha=alpha, beta=beta, bias=knorm)


@torch("LRN")
def _(call: TorchCall, *, nsize, alpha, beta, knorm) -> Form:
    call.refuse_if(call.ndim != 4, "normalizes data without pixels, or clips")
    call.refuse_if(nsize % 2 == 0, "has an even nsize, of which MXNet makes the next odd one")
    args = {"size": nsize, "alpha": Single(alpha), "beta": Single(beta), "k": Single(knorm)}
    return Form(module="nn.LocalResponseNorm", args=args)


# -- pooling --------------------------------------------------------------------------------------------------------
POOLS = {"avg": "AveragePool", "lp": "LpPool", "max": "MaxPool"}


@shape("Pooling", "Pooling_v1")
def _(call: Call, *, global_pool, pooling_convention) -> Shape:
    if global_pool:
        return _map(call, call.data[1], [1] * len(_pixels(call)))
    kernel, strides, pads, _ = call.window()
    sizes = []
    for size, length, stride, pad in zip(_pixels(call, kernel), kernel, strides, pads):
        call.check(length <= size + 2 * pad, 0, f"pixels for a kernel of {kernel}")
        if pooling_convention == "same":
            sizes.append(-(-size // stride))
        else:
            rest = size + 2 * pad - length
            sizes.append((-(-rest // stride) if pooling_convention == "full" else rest // stride) + 1)
    return _map(call, call.data[1], sizes)


@onnx("Pooling")
@onnx("Pooling_v1", count_include_pad=None, p_value=None)
def _(call: OnnxCall, data: Tensor, *, pool_type, global_pool, count_include_pad, p_value) -> Tensor:
    _check_onnx_layout(call)
    options = {"p": p_value} if pool_type == "lp" else {}
    if global_pool:
        if pool_type == "sum":
            return data.reduce("ReduceSum", range(2, len(call.shape)))
        return data.apply(f"Global{POOLS[pool_type]}", **options)
    if any(not isinstance(size, int) for size in call.shape[2:]):
        raise call.refuse("pools along the batch")
    windows = call.windows()
    kernel, strides, before, _, _ = zip(*windows)
    # The last windows end beyond the padding if MXNet rounds their number up.
    after = tuple(max(pad, (count - 1) * stride + length - pad - size)
                  for length, stride, pad, size, count in windows)
    if any(pad >= length for pad, length in zip(after, kernel)):   # MXNet: 0 or the lowest float; onnxruntime: an error
        raise call.refuse("has a window wholly beyond the data, as ceil_mode or pooling_convention='full' can make one")

    options.update(kernel_shape=kernel, strides=strides)
    if pool_type in ("max", "lp"):
        return data.apply(POOLS[pool_type], pads=before + after, **options)
    if any(before + after):
        data = data.apply("Pad", call.model.ints(0, 0, *before, 0, 0, *after), call.model.scalar(0, call.dtype))
    mean = data.apply("AveragePool", **options)
    divisors = np.ones((1,) * len(windows)) if pool_type == "sum" else _counts(windows, count_include_pad is not False)
    factor = math.prod(kernel) / divisors.astype(np.float64)
    return mean if (factor == 1).all() else mean * call.model.constant(factor.astype(call.dtype))


def _counts(windows: list[tuple[int, ...]], counts_padding: bool) -> np.ndarray:
    """How many elements of each window MXNet counts."""
    total = np.ones(())
    for length, stride, pad, size, count in windows:
        begin = np.arange(count) * stride - pad
        end = np.minimum(begin + length, size + pad)
        if not counts_padding:
            begin = np.maximum(begin, 0)
            end = np.minimum(end, size)
        total = total[..., None] * (end - begin)
    return total


@torch("Pooling")
@torch("Pooling_v1", count_include_pad=None)
def _(call: TorchCall, *, pool_type, global_pool, pooling_convention, count_include_pad) -> Form:
    _check_torch_layout(call)
    call.refuse_if(pool_type not in ("max", "avg"), f"has pool_type {pool_type}; expected max or avg")
    name, spatial = pool_type.capitalize(), call.ndim - 2
    if global_pool:
        function = f"F.adaptive_{pool_type}_pool{spatial}d({{0}}, 1)"
        return Form(function, f"nn.Adaptive{name}Pool{spatial}d", {"output_size": 1})
    call.refuse_if(pooling_convention not in ("valid", "full"),
                   f"has pooling_convention {pooling_convention}; expected valid or full")
    _check_windows(call, pooling_convention == "full")
    args = {**_torch_window(call), "ceil_mode": pooling_convention == "full"}
    if pool_type == "avg":
        args["count_include_pad"] = count_include_pad is not False
    text = "{self}({0})"
    if spatial == 3 and args.get("count_include_pad"):   # torch's takes no data that are smaller than the window
        padding = [pad for pad in reversed(call.window()[2]) for _ in ("before", "behind")]
        args["padding"], text = 0, f"{{self}}(F.pad({{0}}, {padding}))"
    return Form(module=f"nn.{name}Pool{spatial}d", args=args, call=text)


def _check_windows(call: TorchCall, is_full: bool) -> None:
    """Refuse what torch's poolings do not have: much padding, and windows that begin behind the data."""
    for axis, (length, stride, pad, size, outputs) in enumerate(call.windows(), 2):
        call.refuse_if(2 * pad > length, f"pads {pad} for a kernel of {length}; expected half of it at most")
        call.refuse_if((outputs - 1) * stride >= size + pad,
                       "has a window wholly beyond the data, as pooling_convention='full' can make one")
        call.refuse_if(is_full and axis in call.free[0] and stride + pad > length,
                       "has a window wholly beyond the data of some images, as pooling_convention='full' can make one")


@shape("_contrib_AdaptiveAvgPooling2D")
def _(call: Call, *, output_size) -> Shape:
    call.check(len(call.data) == 4, 0, "images")
    return (*call.data[:2], *((output_size or (1,)) * 2)[:2])


@onnx("_contrib_AdaptiveAvgPooling2D")
def _(call: OnnxCall, data: Tensor) -> Tensor:
    """Each output is a mean over rows and columns, so it is a product with two matrices."""
    over_rows, over_columns = [
        _means(size, out, call.dtype) for size, out in zip(call.shapes[0][2:], call.shape[2:])]
    result = call.model.constant(over_rows).apply("MatMul", data)
    return result.apply("MatMul", call.model.constant(over_columns.T))


def _means(size: int, out: int, dtype: np.dtype) -> np.ndarray:
    """(out, size): row ``i`` takes the mean of the elements of output ``i``."""
    matrix = np.zeros((out, size), dtype)
    for i in range(out):
        begin = i * size // out
        end = -(-(i + 1) * size // out)
        matrix[i, begin:end] = 1 / (end - begin)
    return matrix


@torch("_contrib_AdaptiveAvgPooling2D")
def _(call: TorchCall) -> Form:
    size = one(call.shape[2:])
    return Form(f"F.adaptive_avg_pool2d({{0}}, {size})", "nn.AdaptiveAvgPool2d", {"output_size": size})


# -- activations and dropout ----------------------------------------------------------------------------------------
traits("Activation", "LeakyReLU", "relu", "clip", "gluonops_mish", "gluonops_swish", "gluonops_hard_swish",
       "gluonops_gelu", is_activation=True)
traits("sigmoid", "tanh", is_gate=True)
traits("LeakyReLU", has_parameters=True)   # prelu reads slopes
traits("Dropout", "_copy", "BlockGrad", is_identity=True)
IN_ONNX = {"relu": "Relu", "sigmoid": "Sigmoid", "softrelu": "Softplus", "softsign": "Softsign", "tanh": "Tanh"}
IN_TORCH = {"relu": Form("F.relu({0})", "nn.ReLU"), "sigmoid": Form("torch.sigmoid({0})", "nn.Sigmoid"),
            "tanh": Form("torch.tanh({0})", "nn.Tanh"), "softrelu": Form("F.softplus({0})", "nn.Softplus"),
            "softsign": Form("F.softsign({0})", "nn.Softsign"), "mish": Form("F.mish({0})", "nn.Mish"),
            "log_sigmoid": Form("F.logsigmoid({0})", "nn.LogSigmoid"), "gelu": Form("F.gelu({0})", "nn.GELU")}
for _name in ("relu", "sigmoid", "tanh", "softsign"):
    in_torch(_name, IN_TORCH[_name])
in_torch("gluonops_mish", IN_TORCH["mish"])
in_torch("gluonops_hard_swish", Form("F.hardswish({0})", "nn.Hardswish"))
in_torch("gluonops_swiglu", "F.silu({0}.chunk(2, <axis>)[0]) * {0}.chunk(2, <axis>)[1]")


@shape("Activation", "Dropout", "SoftmaxActivation")
def _(call: Call, data: Shape) -> Shape:
    return data


@onnx("Activation")
def _(call: OnnxCall, data: Tensor, *, act_type) -> Tensor:
    return data.apply(IN_ONNX[act_type])


@torch("Activation")
def _(call: TorchCall, *, act_type) -> Form:
    return IN_TORCH[act_type]


@shape("LeakyReLU")
def _(call: Call, *, act_type) -> Shape:
    if act_type == "prelu":
        call.check(call.shapes[1] in ((1,), call.data[1:2]), 1, call.data[1:2])
    return call.data


@onnx("LeakyReLU")
def _(call: OnnxCall, data: Tensor, *gamma: Tensor, act_type, slope, lower_bound, upper_bound) -> Tensor:
    if act_type == "prelu":
        sizes = _across(call.shapes[1][0], len(call.shapes[0]) - 1, 0)
        return data.apply("PRelu", gamma[0].reshape(sizes))
    if act_type == "elu":
        return data.apply("Elu", alpha=slope)
    if act_type == "selu":
        return data.apply("Selu")
    if act_type == "gelu" and call.model.opset >= 20:
        return data.apply("Gelu")
    if act_type == "gelu":   # x / 2 * (1 + erf(x / sqrt(2)))
        half = data * 0.5
        return half * ((data * np.sqrt(0.5)).apply("Erf") + 1)
    return data.apply("LeakyRelu", alpha=(lower_bound + upper_bound) / 2 if act_type == "rrelu" else slope)


@torch("LeakyReLU")
def _(call: TorchCall, *, act_type, slope) -> Form:
    if act_type == "leaky":
        return Form(f"F.leaky_relu({{0}}, {slope!r})", "nn.LeakyReLU", {"negative_slope": slope})
    if act_type == "prelu":
        return Form(module="nn.PReLU", args={"num_parameters": call.shapes[1][0]}, state={"weight": 1})
    if act_type == "elu":
        return Form(f"F.elu({{0}}, {Single(slope)!r})", "nn.ELU", {"alpha": Single(slope)})
    call.refuse_if(act_type not in ("selu", "gelu"), f"has act_type {act_type}, which is random")
    return Form(f"F.{act_type}({{0}})", f"nn.{act_type.upper()}")


@onnx("gluonops_gelu", opset=20)
def _(call: OnnxCall, data: Tensor, *, approximation) -> Tensor:
    return data.apply("Gelu", approximate="tanh" if approximation == "tanh" else "none")


@torch("gluonops_gelu")
def _(call: TorchCall, *, approximation) -> Form:
    return IN_TORCH["gelu"] if approximation == "erf" else Form("F.gelu({0}, approximate='tanh')")


@onnx("gluonops_mish", opset=18)
def _(call: OnnxCall, data: Tensor) -> Tensor:
    return data.apply("Mish")


@torch("Dropout")
def _(call: TorchCall, *, p, mode, axes) -> Form:
    """Elements along some axes may share their fate."""
    call.refuse_if(mode != "training", "drops at inference as well")
    one_each = ", ".join(":1" if axis in axes else ":" for axis in range(max(axes, default=0) + 1))
    text = f"{{0}} * {{self}}(torch.ones_like({{0}}[{one_each}]))" if axes else "{self}({0})"
    return Form(module="nn.Dropout", args={"p": p}, call=text)


# -- softmax --------------------------------------------------------------------------------------------------------
@shape("softmax", "softmin")
def _(call: Call, *, axis) -> Shape:
    """It may read the length of each row."""
    axis = call.from_front(axis)
    call.expect(1, (*call.data[:axis], *call.data[axis + 1:]))
    return call.data


@onnx("softmax")
@onnx("log_softmax", function="LogSoftmax")
@onnx("softmin", sign=-1)
def _(call: OnnxCall, data: Tensor, *lengths: Tensor, axis, temperature, use_length, function="Softmax",
      sign=1) -> Tensor:
    temperature = sign * (temperature or 1.0)
    if temperature != 1:
        data = data / temperature
    axis = call.from_front(axis)
    if use_length:
        if (function, sign) != ("Softmax", 1):
            raise call.refuse("masks by length")
        others = [i for i in range(len(call.shape)) if i != axis]
        inside = lengths[0].within(call.shape, axis, others)
        data = inside.apply("Where", data, -np.inf)
    result = data.apply(function, axis=axis)
    if use_length:   # a row of length 0 would be NaN
        result = inside.apply("Where", result, 0)
    return result if call.dtype == call.dtypes[0] else result.cast(call.dtype)


@torch("softmax")
@torch("gluonops_softmax", use_length=False)
@torch("log_softmax", function="log_softmax", module="nn.LogSoftmax")
@torch("softmin", sign=-1)
def _(call: TorchCall, *, axis, temperature, use_length, function="softmax", module="nn.Softmax", sign=1) -> Form:
    axis = call.from_front(axis)
    temperature = sign * (temperature or 1.0)
    data = "{0}" if temperature == 1 else f"{{0}} / {temperature!r}"
    if use_length:
        call.refuse_if(function == "log_softmax", "takes lengths")
        return Form(call.snippet("softmax_within", axis=axis).replace("{*}", f"{data}, {{1}}"))
    if temperature != 1:
        return Form(f"F.{function}({data}, {axis})")
    return Form(f"F.{function}({{0}}, {axis})", module, {"dim": axis})


@onnx("SoftmaxActivation")
def _(call: OnnxCall, data: Tensor, *, mode) -> Tensor:
    return data.apply("Softmax", axis=1 if mode == "channel" else -1)


@torch("SoftmaxActivation")
def _(call: TorchCall, *, mode) -> Form:
    axis = 1 if mode == "channel" else call.ndim - 1
    return Form(f"F.softmax({{0}}, {axis})", "nn.Softmax", {"dim": axis})


# -- resizing -------------------------------------------------------------------------------------------------------
@shape("UpSampling")
def _(call: Call, *, scale, sample_type, multi_input_mode) -> Shape:
    batch, channels, height, width = call.data
    if sample_type == "nearest" and len(call.shapes) > 1:
        channels = sum(other[1] for other in call.shapes) if multi_input_mode != "sum" else channels
    return batch, channels, height * scale, width * scale


@onnx("UpSampling")
def _(call: OnnxCall, *inputs: Tensor, sample_type, multi_input_mode) -> Tensor:
    """Pixels are repeated until all inputs have the size of the first; or a deconvolution has the weights."""
    if sample_type == "bilinear":
        kernel, stride, pad = call.bilinear_window()
        return call.model.add("ConvTranspose", *inputs, kernel_shape=[kernel] * 2, strides=[stride] * 2,
                              pads=[pad] * 4, group=call.shape[1])
    repeated = [_repeated(value, scale) for value, scale in zip(inputs, call.scales())]
    if len(repeated) == 1:
        return repeated[0]
    if multi_input_mode == "sum":
        return functools.reduce(operator.add, repeated)
    return call.model.add("Concat", *repeated, axis=1)


def _repeated(data: Tensor, scale: int) -> Tensor:
    """Every pixel ``scale`` times along both axes."""
    scales = data.model.constant(np.array([1, 1, scale, scale], np.float32))
    return data.apply("Resize", None, scales, mode="nearest", nearest_mode="floor",
                      coordinate_transformation_mode="asymmetric")


@torch("UpSampling")
def _(call: TorchCall, *, scale, sample_type, multi_input_mode) -> Form | str:
    if sample_type == "bilinear":
        _, stride, pad = call.bilinear_window()
        return f"F.conv_transpose2d({{0}}, {{1}}, stride={stride}, padding={pad}, groups={call.shape[1]})"
    repeated = [f"F.interpolate({{{index}}}, scale_factor={float(each)})" for index, each in enumerate(call.scales())]
    if len(repeated) == 1:
        return Form(repeated[0], "nn.Upsample", {"scale_factor": scale})
    if multi_input_mode == "sum":
        return " + ".join(repeated)
    return f"torch.cat([{', '.join(repeated)}], 1)"


@shape("_contrib_BilinearResize2D")
def _(call: Call, *, mode, height, width, scale_height, scale_width) -> Shape:
    sizes = []
    for axis, old, new, scale in zip((2, 3), _pixels(call, (1, 1)), (height, width), (scale_height, scale_width)):
        if mode == "like":
            new = call.shapes[1][axis]
        elif mode == "size":
            new = int(np.float32(scale) * old) if scale_height is not None else new
        else:
            raise Misfit(f"{call.node.name!r} has the mode {mode}, whose sizes only MXNet knows")
        sizes.append(new)
    return (*call.data[:2], *sizes)


@onnx("_contrib_BilinearResize2D")
def _(call: OnnxCall, data: Tensor, *like: Tensor, align_corners) -> Tensor:
    """Along an axis whose output is one pixel MXNet takes the first pixel, whatever the mode is."""
    single = [axis for axis in (2, 3) if call.shape[axis] == 1]
    if single:
        data = data.cut(single, [0] * len(single), [1] * len(single))
    return data.apply("Resize", None, None, call.model.shape(call.shape), mode="linear",
                      coordinate_transformation_mode="align_corners" if align_corners else "half_pixel")


@torch("_contrib_BilinearResize2D")
def _(call: TorchCall, *, mode, scale_height, scale_width, align_corners) -> str:
    call.refuse_if(1 in call.shape[2:] and call.shape[2:] != call.shapes[0][2:], "resizes to one pixel")
    call.refuse_if(mode not in ("size", "like"), f"has the mode {mode}; expected size or like")
    size = "size={1}.shape[2:]" if mode == "like" else f"size={one(call.shape[2:])}"
    if mode == "size" and scale_height is not None:
        scales = scale_height, scale_width
        call.refuse_if(any(scale != int(scale) for scale in scales), "has a scale that is no integer")
        size = f"scale_factor={one(scales)}"
    return f"F.interpolate({{0}}, {size}, mode='bilinear', align_corners={align_corners})"
