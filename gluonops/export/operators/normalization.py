"""Layers that normalize: over a batch, a layer, a group, a channel, or the neighbouring channels."""
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..graph import VARIABLE, Node
from .attributes import attributes_of
from .forms import Form, Single
from .registry import OnnxCall, Tensor, TorchCall, in_torch, onnx, shape, torch, traits
from .shapes import Call, Shape
from .windows import across, state_of

DARKNET = "darknet_batch_norm"   # a node of these stands for a batch norm that divides as Darknet does
COUNTER = "counter"              # and a node of these for what counts images in training

# The nodes that compute the gamma of Darknet's batch norm, from gamma itself and the variance.
GAMMA_OF_DARKNET = (VARIABLE, VARIABLE, "_plus_scalar", "sqrt", "sqrt", "_plus_scalar", "elemwise_div", "BlockGrad",
                    "elemwise_mul")

traits("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", DARKNET, has_parameters=True, normalizes=True,
       uses_statistics=True)
traits("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", "InstanceNorm", "GroupNorm", has_channel_numbers=True)
traits("BatchNorm", fuses_behind_convolution=True, stays_float=True)
traits("LayerNorm", "InstanceNorm", "GroupNorm", has_parameters=True, normalizes=True)


def channel_axis(node: Node) -> int:
    """Return the axis of the channels that a normalization has numbers for. Operators without an attribute take 1."""
    attributes = attributes_of(node)
    return attributes["axis"] if "axis" in attributes else 1


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
@torch("BatchNorm_v1", axis=1, number=Single)
@torch("_contrib_SyncBatchNorm", axis=1)
@torch(DARKNET, module="DarknetBatchNorm")
def _(call: TorchCall, *, axis, eps, momentum, fix_gamma, use_global_stats, module="BatchNorm",
      number=Single.meant) -> Form:
    """The first BatchNorm holds its epsilon in float32. Others hold it in float64, with a default of float32."""
    axis = call.from_front(axis)
    text = "{self}({0})" if axis == 1 else f"{{self}}({{0}}.transpose(1, {axis})).transpose(1, {axis})"
    args = {"channels": call.shapes[1][0], "eps": number(eps), "momentum": round(1 - momentum, 12),
            "fix_gamma": fix_gamma, "use_global_stats": use_global_stats}
    return Form(module=module, args=args, call=text,
                state=state_of(call, "weight", "bias", "running_mean", "running_var"))


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
    return _affine(call, _standardized(inputs[0], [axis], eps), across(call.shapes[1][0], ndim, axis))


@torch("LayerNorm")
def _(call: TorchCall, *, axis, eps) -> Form:
    axis = call.from_front(axis)
    return Form(module="nn.LayerNorm", state=state_of(call, "weight", "bias"),
                args={"normalized_shape": call.shapes[1][0], "eps": Single(eps)},
                call="{self}({0})" if axis == call.ndim - 1 else
                f"{{self}}({{0}}.transpose({axis}, -1)).transpose({axis}, -1)")


@onnx("InstanceNorm")
def _(call: OnnxCall, *, eps) -> Tensor:
    ndim = len(call.shape)
    result = _standardized(call.inputs[0], list(range(2, ndim)), call.model.scalar(eps, call.dtype))
    return _affine(call, result, across(call.shapes[1][0], ndim, 1))


@torch("InstanceNorm")
def _(call: TorchCall, *, eps) -> Form:
    call.refuse_if(math.prod(call.shape[2:]) == 1, "normalizes single numbers, which torch refuses")
    args = {"num_features": call.shapes[1][0], "eps": Single(eps), "affine": True}
    return Form(module=f"nn.InstanceNorm{call.ndim - 2}d", args=args, state=state_of(call, "weight", "bias"))


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
        return _affine(call, result.reshape(sizes), across(sizes[1], len(sizes), 1))
    return _affine(call, result, across(num_groups, len(sizes) + 1, 1)).reshape(sizes)


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
    return Form(module="nn.GroupNorm", args=args, state=state_of(call, "weight", "bias"))


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
