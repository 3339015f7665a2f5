"""Converters of layers: convolutions, correlation, dense layers, normalization, pooling, activations, resizing."""
from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .model import CONVERTERS, Call, Tensor, converts
from .sequences import within

ACTIVATIONS = {"relu": "Relu", "sigmoid": "Sigmoid", "softrelu": "Softplus", "softsign": "Softsign", "tanh": "Tanh"}
POOLS = {"avg": "AveragePool", "lp": "LpPool", "max": "MaxPool"}


@converts("Convolution", "Convolution_v1")
def convolution(call: Call) -> Tensor:
    _check_layout(call)
    return call.model.add("Conv", *call.inputs, **_window_options(call))


@converts("Deconvolution")
def deconvolution(call: Call) -> Tensor:
    _check_layout(call)
    if any(call.ints("target_shape", ())):
        raise call.refuse("has a target_shape, which MXNet 1.9.1 itself fails on")
    options = _window_options(call)
    padding = call.ints("adj", (0,) * len(options["kernel_shape"]))
    return call.model.add("ConvTranspose", *call.inputs, output_padding=padding, **options)


def _window_options(call: Call) -> dict[str, Any]:
    """The attributes of ONNX's convolutions."""
    kernel, strides, pads, dilations = call.window()
    return {"kernel_shape": kernel, "strides": strides, "pads": pads * 2, "dilations": dilations,
            "group": call.value("num_group", 1)}


@converts("_contrib_DeformableConvolution", opset=19)
def deformable_convolution(call: Call) -> Tensor:
    """MXNet's first version reads nothing at negative positions, and clamps those beyond the last pixel to it.

    ONNX weighs both with the zeros around the data. So the positions are clamped, and a mask leaves out the others.
    """
    data, offset, weight, *bias = call.inputs
    constant = call.model.constant
    batch, _, height, width = call.shapes[0]
    kernel, groups = call.ints("kernel", ()), call.value("num_deformable_group", 1)
    points = int(np.prod(kernel))
    rows, columns = call.shape[2:]
    split = (batch, groups * points, 2, rows, columns)
    grid = constant(np.tile(_grid(call), (groups, 1, 1, 1))[None].astype(call.dtype))
    position = offset.reshape(split) + grid
    sizes = np.array([height, width], call.dtype).reshape(1, 1, 2, 1, 1)
    is_inside = (position >= 0).apply("And", position < constant(sizes))
    mask = is_inside.cast(call.dtype).reduce("ReduceMin", [2], keepdims=False)
    position = position.apply("Min", constant(sizes - 1)).apply("Max", 0)
    offset = (position - grid).reshape(call.shapes[1])
    return _convolution(call, data, weight, offset, *(bias or [None]), mask)


@converts("_contrib_ModulatedDeformableConvolution", opset=19)
def modulated_deformable_convolution(call: Call) -> Tensor:
    data, offset, mask, weight, *bias = call.inputs
    return _convolution(call, data, weight, offset, *(bias or [None]), mask)


def _convolution(call: Call, *inputs: Tensor | None) -> Tensor:
    groups = call.value("num_deformable_group", 1)
    return call.model.add("DeformConv", *inputs, offset_group=groups, **_window_options(call))


def _grid(call: Call) -> np.ndarray:
    """Where each point of the kernel is without offsets, (points, 2, rows, columns)."""
    kernel, *window = call.window()
    grids = []
    for axis, (stride, pad, dilation) in enumerate(zip(*window)):
        steps = np.indices(call.shape[2:])[axis] * stride - pad
        point = np.indices(kernel)[axis].reshape(-1, 1, 1) * dilation
        grids.append(point + steps)
    return np.stack(grids, axis=1)


@converts("Correlation")
def correlation(call: Call) -> Tensor:
    """A channel for each shift of the second map: the mean of the products, or distances, of both maps."""
    displacement, shift = call.value("max_displacement", 1), call.value("stride2", 1)
    stride, kernel, pad = call.value("stride1", 1), call.value("kernel_size", 1), call.value("pad_size", 0)
    borders = call.model.ints(0, 0, pad, pad, 0, 0, pad, pad)
    first, second = (value.apply("Pad", borders, call.model.scalar(0, call.dtype)) for value in call.inputs)
    sizes = [(count - 1) * stride + kernel for count in call.shape[2:]]   # The windows cover so many.

    def window(value: Tensor, row: int, column: int) -> Tensor:
        begins = [displacement + row, displacement + column]
        return value.cut([2, 3], begins, [begin + size for begin, size in zip(begins, sizes)])

    reach = displacement // shift
    shifts = [step * shift for step in range(-reach, reach + 1)]
    centre = window(first, 0, 0)
    channels = []
    for row in shifts:
        for column in shifts:
            moved = window(second, row, column)
            score = centre * moved if call.flag("is_multiply", True) else (centre - moved).apply("Abs")
            channels.append(score.reduce("ReduceMean", [1]))
    maps = call.model.add("Concat", *channels, axis=1)
    return maps.apply("AveragePool", kernel_shape=[kernel, kernel], strides=[stride, stride])


def _check_layout(call: Call) -> None:
    if call.has_channels_last:
        raise call.refuse(f"has layout {call.text('layout')}; ONNX puts channels first")


@converts("FullyConnected")
def fully_connected(call: Call) -> Tensor:
    data, weight, *bias = call.inputs
    if call.flag("flatten", True):
        flat = call.shapes[0][:1] + (call.shapes[1][1],)
        if call.shapes[0] != flat:
            data = data.reshape(flat)
        return data.apply("Gemm", weight, *bias, transB=1)
    product = data.apply("MatMul", weight.apply("Transpose", perm=(1, 0)))
    return product + bias[0] if bias else product


def _across(size: int, ndim: int, axis: int) -> tuple[int, ...]:
    """The shape in which a vector of this size broadcasts along ``axis``."""
    return tuple(size if i == axis else 1 for i in range(ndim))


@converts("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm")
def batch_norm(call: Call) -> Tensor:
    data, gamma, beta, mean, variance = call.inputs
    if call.flag("fix_gamma", True):
        gamma = call.model.constant(np.ones(call.shapes[1], call.dtypes[1]))
    axis, ndim = call.axis(default=1), len(call.shape)
    if axis != 1:
        data = data.swapped(ndim, 1, axis)
    epsilon = float(call.value("eps", 1e-3))
    result = data.apply("BatchNormalization", gamma, beta, mean, variance, epsilon=epsilon)
    return result if axis == 1 else result.swapped(ndim, 1, axis)


def _standardized(data: Tensor, axes: Sequence[int], eps: Tensor | float) -> Tensor:
    """(data - mean) / sqrt(variance + eps) over ``axes``."""
    centred = data - data.reduce("ReduceMean", axes)
    variance = (centred * centred).reduce("ReduceMean", axes)
    return centred / (variance + eps).apply("Sqrt")


def _affine(call: Call, data: Tensor, shape: tuple) -> Tensor:
    """data * gamma + beta, with gamma and beta in this shape."""
    return data * call.inputs[1].reshape(shape) + call.inputs[2].reshape(shape)


@converts("LayerNorm")
def layer_norm(call: Call) -> Tensor:
    axis, eps, ndim = call.axis(), call.value("eps", 1e-5), len(call.shape)
    if call.model.opset >= 17 and axis == ndim - 1:
        return call.model.add("LayerNormalization", *call.inputs, epsilon=float(eps))
    return _affine(call, _standardized(call.inputs[0], [axis], eps), _across(call.shapes[1][0], ndim, axis))


@converts("InstanceNorm")
def instance_norm(call: Call) -> Tensor:
    ndim = len(call.shape)
    eps = call.model.scalar(call.value("eps", 1e-3), call.dtype)
    result = _standardized(call.inputs[0], list(range(2, ndim)), eps)
    return _affine(call, result, _across(call.shapes[1][0], ndim, 1))


@converts("GroupNorm")
def group_norm(call: Call) -> Tensor:
    groups, eps = call.value("num_groups", 1), call.value("eps", 1e-5)
    data, shape = call.inputs[0], call.shapes[0]
    parameters = [call.model.array(value) for value in call.inputs[1:]]
    if call.model.opset >= 21 and all(array is not None for array in parameters):   # ONNX's are of channels
        each = shape[1] // len(parameters[0])
        parameters = [call.model.constant(np.repeat(array, each)) for array in parameters]
        return data.apply("GroupNormalization", *parameters, num_groups=groups, epsilon=float(eps))
    result = data.reshape((shape[0], groups, shape[1] // groups) + shape[2:])
    result = _standardized(result, list(range(2, len(shape) + 1)), eps)
    if call.shapes[1][0] == shape[1]:
        return _affine(call, result.reshape(shape), _across(shape[1], len(shape), 1))
    return _affine(call, result, _across(groups, len(shape) + 1, 1)).reshape(shape)


@converts("gluonops_group_norm", opset=21)
def group_norm_of_channels(call: Call) -> Tensor:
    return call.model.add("GroupNormalization", *call.inputs, num_groups=call.value("num_groups"),
                          epsilon=call.value("eps"))


@converts("L2Normalization")
def l2_normalization(call: Call) -> Tensor:
    ndim, data = len(call.shapes[0]), call.inputs[0]
    axes = {"instance": range(1, ndim), "channel": [1], "spatial": range(2, ndim)}[call.text("mode", "instance")]
    total = (data * data).reduce("ReduceSum", axes)
    return data / (total + call.value("eps", 1e-10)).apply("Sqrt")


@converts("Pooling", "Pooling_v1")
def pooling(call: Call) -> Tensor:
    kind, data = call.text("pool_type", "max"), call.inputs[0]
    _check_layout(call)
    options = {"p": call.value("p_value", 2)} if kind == "lp" else {}
    if call.flag("global_pool"):
        if kind == "sum":
            return data.reduce("ReduceSum", range(2, len(call.shape)))
        return data.apply(f"Global{POOLS[kind]}", **options)
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
    if kind in ("max", "lp"):
        return data.apply(POOLS[kind], pads=before + after, **options)
    if any(before + after):
        data = data.apply("Pad", call.model.ints(0, 0, *before, 0, 0, *after), call.model.scalar(0, call.dtype))
    mean = data.apply("AveragePool", **options)
    factor = int(np.prod(kernel)) / _divisors(call, kind).astype(np.float64)
    return mean if (factor == 1).all() else mean * call.model.constant(factor.astype(call.dtype))


def _divisors(call: Call, kind: str) -> np.ndarray:
    """The number that MXNet divides each window's sum by: 1, or how many elements it counts."""
    windows = call.windows()
    if kind == "sum":
        return np.ones((1,) * len(windows))
    counts_padding = call.flag("count_include_pad", True)
    total = np.ones(())
    for length, stride, pad, size, count in windows:
        begin = np.arange(count) * stride - pad
        end = np.minimum(begin + length, size + pad)
        if not counts_padding:
            begin = np.maximum(begin, 0)
            end = np.minimum(end, size)
        total = total[..., None] * (end - begin)
    return total


@converts("_contrib_AdaptiveAvgPooling2D")
def adaptive_average(call: Call) -> Tensor:
    """Each output is a mean over rows and columns, so it is a product with two matrices."""
    over_rows, over_columns = [
        _means(size, out, call.dtype) for size, out in zip(call.shapes[0][2:], call.shape[2:])]
    result = call.model.constant(over_rows).apply("MatMul", call.inputs[0])
    return result.apply("MatMul", call.model.constant(over_columns.T))


def _means(size: int, out: int, dtype: np.dtype) -> np.ndarray:
    """(out, size): row ``i`` takes the mean of the elements of output ``i``."""
    matrix = np.zeros((out, size), dtype)
    for i in range(out):
        begin = i * size // out
        end = -(-(i + 1) * size // out)
        matrix[i, begin:end] = 1 / (end - begin)
    return matrix


@converts("LeakyReLU")
def leaky_relu(call: Call) -> Tensor:
    kind, data = call.text("act_type", "leaky"), call.inputs[0]
    slope = float(call.value("slope", 0.25))
    if kind == "prelu":
        shape = _across(call.shapes[1][0], len(call.shapes[0]) - 1, 0)
        return data.apply("PRelu", call.inputs[1].reshape(shape))
    if kind == "elu":
        return data.apply("Elu", alpha=slope)
    if kind == "selu":
        return data.apply("Selu")
    if kind == "gelu" and call.model.opset >= 20:
        return data.apply("Gelu")
    if kind == "gelu":   # x / 2 * (1 + erf(x / sqrt(2)))
        half = data * 0.5
        return half * ((data * np.sqrt(0.5)).apply("Erf") + 1)
    if kind == "rrelu":
        slope = (float(call.value("lower_bound", 0.125)) + float(call.value("upper_bound", 0.334))) / 2
    return data.apply("LeakyRelu", alpha=slope)


@converts("gluonops_gelu", opset=20)
def gelu(call: Call) -> Tensor:
    approximate = "tanh" if call.text("approximation") == "tanh" else "none"
    return call.inputs[0].apply("Gelu", approximate=approximate)


@converts("softmax", "log_softmax", "softmin")
def softmax(call: Call) -> Tensor:
    data = call.inputs[0]
    temperature = call.value("temperature") or 1.0
    if call.node.op == "softmin":
        temperature = -temperature
    if temperature != 1:
        data = data / temperature
    axis = call.axis()
    if call.flag("use_length"):
        if call.node.op != "softmax":
            raise call.refuse("masks by length")
        others = [i for i in range(len(call.shape)) if i != axis]
        inside = within(call.inputs[1], call.shape, axis, others)
        data = inside.apply("Where", data, -np.inf)
    result = data.apply("LogSoftmax" if call.node.op == "log_softmax" else "Softmax", axis=axis)
    if call.flag("use_length"):   # a row of length 0 would be NaN
        result = inside.apply("Where", result, 0)
    return result if call.dtype == call.dtypes[0] else result.cast(call.dtype)


@converts("UpSampling")
def up_sampling(call: Call) -> Tensor:
    """Pixels are repeated until all inputs have the size of the first; or a deconvolution has the weights."""
    if call.text("sample_type") == "bilinear":
        kernel, stride, pad = call.bilinear_window()
        return call.model.add("ConvTranspose", *call.inputs, kernel_shape=[kernel] * 2, strides=[stride] * 2,
                              pads=[pad] * 4, group=call.shape[1])
    repeated = [_repeated(value, scale) for value, scale in zip(call.inputs, call.scales())]
    if len(repeated) == 1:
        return repeated[0]
    if call.text("multi_input_mode") == "sum":
        return functools.reduce(operator.add, repeated)
    return call.model.add("Concat", *repeated, axis=1)


def _repeated(data: Tensor, scale: int) -> Tensor:
    """Every pixel ``scale`` times along both axes."""
    scales = data.model.constant(np.array([1, 1, scale, scale], np.float32))
    return data.apply("Resize", None, scales, mode="nearest", nearest_mode="floor",
                      coordinate_transformation_mode="asymmetric")


@converts("_contrib_BilinearResize2D")
def bilinear_resize(call: Call) -> Tensor:
    """Along an axis whose output is one pixel MXNet takes the first pixel, whatever the mode is."""
    mode = "align_corners" if call.flag("align_corners", True) else "half_pixel"
    data = call.inputs[0]
    single = [axis for axis in (2, 3) if call.shape[axis] == 1]
    if single:
        data = data.cut(single, [0] * len(single), [1] * len(single))
    return data.apply("Resize", None, None, call.model.shape(call.shape), mode="linear",
                      coordinate_transformation_mode=mode)


converts("gluonops_mish", opset=18)(lambda call: call.inputs[0].apply("Mish"))
CONVERTERS.update({
    "Activation": lambda call: call.inputs[0].apply(ACTIVATIONS[call.text("act_type")]),
    "LRN": lambda call: call.inputs[0].apply(
        "LRN", size=call.value("nsize"), **call.floats(alpha=("alpha", 1e-4), beta=("beta", 0.75), bias=("knorm", 2))),
    "SoftmaxActivation": lambda call: call.inputs[0].apply(
        "Softmax", axis=1 if call.text("mode", "instance") == "channel" else -1),
})
