"""Converters of layers: convolutions, dense layers, normalization, pooling, activations, resizing."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .arrays import cut
from .model import Call, Model
from .registry import converts
from .sequences import within

ACTIVATIONS = {"relu": "Relu", "sigmoid": "Sigmoid", "softrelu": "Softplus", "softsign": "Softsign", "tanh": "Tanh"}


@converts("Convolution", "Convolution_v1", "Deconvolution")
def convolution(model: Model, call: Call) -> str:
    _check_layout(call)
    if any(call.ints("target_shape", ())):
        raise call.refuse("has a target_shape, which MXNet 1.9.1 itself fails on")
    kernel, strides, pads, dilations = call.window()
    op, options = "Conv", {}
    if call.node.op == "Deconvolution":
        op, options = "ConvTranspose", {"output_padding": call.ints("adj", (0,) * len(kernel))}
    return model.add(op, *call.inputs, kernel_shape=kernel, strides=strides, pads=pads * 2, dilations=dilations,
                     group=call.value("num_group", 1), **options)


def _check_layout(call: Call) -> None:
    """Raise an OpError unless channels come first."""
    if call.has_channels_last:
        raise call.refuse(f"has layout {call.text('layout')}; ONNX puts channels first")


@converts("FullyConnected")
def fully_connected(model: Model, call: Call) -> str:
    data, weight, *bias = call.inputs
    if call.flag("flatten", True):
        flat = call.shapes[0][:1] + (call.shapes[1][1],)
        if call.shapes[0] != flat:
            data = model.reshape(data, flat)
        return model.add("Gemm", data, weight, *bias, transB=1)
    product = model.add("MatMul", data, model.add("Transpose", weight, perm=(1, 0)))
    return model.add("Add", product, bias[0]) if bias else product


def _across(size: int, ndim: int, axis: int) -> tuple[int, ...]:
    """The shape in which a vector of this size broadcasts along ``axis``."""
    return tuple(size if i == axis else 1 for i in range(ndim))


@converts("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm")
def batch_norm(model: Model, call: Call) -> str:
    data, gamma, beta, mean, variance = call.inputs
    if call.flag("fix_gamma", True):
        gamma = model.constant(np.ones(call.shapes[1], call.dtypes[1]))
    axis = call.axis(default=1)
    order = list(range(len(call.shapes[0])))
    order[1], order[axis] = axis, 1
    if axis != 1:
        data = model.add("Transpose", data, perm=order)
    epsilon = float(call.value("eps", 1e-3))
    result = model.add("BatchNormalization", data, gamma, beta, mean, variance, epsilon=epsilon)
    return result if axis == 1 else model.add("Transpose", result, perm=order)


def _standardized(model: Model, call: Call, data: str, axes: Sequence[int], eps: float = 1e-5) -> str:
    """(data - mean) / sqrt(variance + eps) over ``axes``. ``eps``: MXNet's default."""
    centred = model.add("Sub", data, model.reduce("ReduceMean", data, axes))
    variance = model.reduce("ReduceMean", model.add("Mul", centred, centred), axes)
    eps = model.scalar(call.value("eps", eps), call.dtype)
    return model.add("Div", centred, model.add("Sqrt", model.add("Add", variance, eps)))


def _affine(model: Model, call: Call, data: str, axis: int) -> str:
    """data * gamma + beta along ``axis``."""
    return _scaled_and_shifted(model, call, data, _across(call.shapes[1][0], len(call.shapes[0]), axis))


def _scaled_and_shifted(model: Model, call: Call, data: str, shape: tuple) -> str:
    """data * gamma + beta, with gamma and beta in this shape."""
    scaled = model.add("Mul", data, model.reshape(call.inputs[1], shape))
    return model.add("Add", scaled, model.reshape(call.inputs[2], shape))


@converts("LayerNorm")
def layer_norm(model: Model, call: Call) -> str:
    axis = call.axis()
    if model.opset >= 17 and axis == len(call.shape) - 1:
        return model.add("LayerNormalization", *call.inputs, epsilon=float(call.value("eps", 1e-5)))
    return _affine(model, call, _standardized(model, call, call.inputs[0], [axis]), axis)


@converts("InstanceNorm")
def instance_norm(model: Model, call: Call) -> str:
    spatial = range(2, len(call.shapes[0]))
    return _affine(model, call, _standardized(model, call, call.inputs[0], spatial, eps=1e-3), 1)


@converts("GroupNorm")
def group_norm(model: Model, call: Call) -> str:
    groups = call.value("num_groups", 1)
    shape = call.shapes[0]
    parameters = [model.array(value) for value in call.inputs[1:]]
    if model.opset >= 21 and all(array is not None for array in parameters):   # ONNX's are of channels
        each = shape[1] // len(parameters[0])
        parameters = [model.constant(np.repeat(array, each)) for array in parameters]
        return model.add("GroupNormalization", call.inputs[0], *parameters, num_groups=groups,
                         epsilon=float(call.value("eps", 1e-5)))
    split = model.reshape(call.inputs[0], (shape[0], groups, shape[1] // groups) + shape[2:])
    result = _standardized(model, call, split, list(range(2, len(shape) + 1)))
    if call.shapes[1][0] == shape[1]:
        return _affine(model, call, model.reshape(result, shape), 1)
    result = _scaled_and_shifted(model, call, result, _across(groups, len(shape) + 1, 1))
    return model.reshape(result, shape)


@converts("gluonops_group_norm", opset=21)
def group_norm_of_channels(model: Model, call: Call) -> str:
    return model.add("GroupNormalization", *call.inputs, num_groups=call.value("num_groups"), epsilon=call.value("eps"))


@converts("L2Normalization")
def l2_normalization(model: Model, call: Call) -> str:
    ndim = len(call.shapes[0])
    axes = {"instance": range(1, ndim), "channel": [1], "spatial": range(2, ndim)}[call.text("mode", "instance")]
    data = call.inputs[0]
    total = model.reduce("ReduceSum", model.add("Mul", data, data), axes)
    eps = model.scalar(call.value("eps", 1e-10), call.dtype)
    return model.add("Div", data, model.add("Sqrt", model.add("Add", total, eps)))


@converts("LRN")
def local_response(model: Model, call: Call) -> str:
    alpha = float(call.value("alpha", 1e-4))
    beta = float(call.value("beta", 0.75))
    bias = float(call.value("knorm", 2))
    return model.add("LRN", call.inputs[0], alpha=alpha, beta=beta, bias=bias, size=call.value("nsize"))


@converts("Pooling", "Pooling_v1")
def pooling(model: Model, call: Call) -> str:
    kind = call.text("pool_type", "max")
    _check_layout(call)
    if call.flag("global_pool"):
        return _global_pooling(model, call, kind)
    if any(not isinstance(size, int) for size in call.shape[2:]):
        raise call.refuse("pools along the batch")
    windows = call.windows()
    kernel, strides, before, *_ = zip(*windows)
    # The last window may lie beyond the padding: MXNet may round up.
    after = [max(pad, (outputs - 1) * stride + length - pad - size) for length, stride, pad, size, outputs in windows]
    if any(pad >= length for pad, length in zip(after, kernel)):   # MXNet: 0 or the lowest float; onnxruntime: an error
        raise call.refuse("has a window wholly beyond the data, as ceil_mode or pooling_convention='full' can make one")

    data, options = call.inputs[0], {"kernel_shape": kernel, "strides": strides}
    if kind == "max":
        return model.add("MaxPool", data, pads=[*before, *after], **options)
    if kind == "lp":
        return model.add("LpPool", data, pads=[*before, *after], p=call.value("p_value", 2), **options)
    if any(before) or any(after):
        data = model.add("Pad", data, model.ints(0, 0, *before, 0, 0, *after), model.scalar(0, call.dtype))
    mean = model.add("AveragePool", data, **options)
    factor = int(np.prod(kernel)) / _divisors(call, kind).astype(np.float64)
    return mean if (factor == 1).all() else model.add("Mul", mean, model.constant(factor.astype(call.dtype)))


def _divisors(call: Call, kind: str) -> np.ndarray:
    """The number that MXNet divides each window's sum by: 1, or how many elements it counts."""
    if kind == "sum":
        return np.ones((1,) * (len(call.shape) - 2))
    total = np.ones(())
    for length, stride, pad, size, outputs in call.windows():
        begin = np.arange(outputs) * stride - pad
        end = np.minimum(begin + length, size + pad)
        if not call.flag("count_include_pad", True):
            begin = np.maximum(begin, 0)
            end = np.minimum(end, size)
        total = total[..., None] * (end - begin)
    return total


def _global_pooling(model: Model, call: Call, kind: str) -> str:
    if kind == "sum":
        return model.reduce("ReduceSum", call.inputs[0], range(2, len(call.shape)))
    options = {"p": call.value("p_value", 2)} if kind == "lp" else {}
    op = {"max": "GlobalMaxPool", "avg": "GlobalAveragePool", "lp": "GlobalLpPool"}[kind]
    return model.add(op, call.inputs[0], **options)


@converts("_contrib_AdaptiveAvgPooling2D")
def adaptive_average(model: Model, call: Call) -> str:
    """Each output is a mean over rows and columns, so it is a product with two matrices."""
    over_rows, over_columns = [
        _means(size, out, call.dtype) for size, out in zip(call.shapes[0][2:], call.shape[2:])]
    result = model.add("MatMul", model.constant(over_rows), call.inputs[0])
    return model.add("MatMul", result, model.constant(over_columns.T))


def _means(size: int, out: int, dtype: np.dtype) -> np.ndarray:
    """(out, size): row ``i`` takes the mean of the elements of output ``i``."""
    matrix = np.zeros((out, size), dtype)
    for i in range(out):
        begin = i * size // out
        end = -(-(i + 1) * size // out)
        matrix[i, begin:end] = 1 / (end - begin)
    return matrix


@converts("Activation")
def activation(model: Model, call: Call) -> str:
    kind = call.text("act_type")
    return model.add(ACTIVATIONS[kind], call.inputs[0])


@converts("LeakyReLU")
def leaky_relu(model: Model, call: Call) -> str:
    kind = call.text("act_type", "leaky")
    slope = float(call.value("slope", 0.25))
    if kind == "prelu":
        shape = _across(call.shapes[1][0], len(call.shapes[0]) - 1, 0)
        return model.add("PRelu", call.inputs[0], model.reshape(call.inputs[1], shape))
    if kind == "elu":
        return model.add("Elu", call.inputs[0], alpha=slope)
    if kind == "selu":
        return model.add("Selu", call.inputs[0])
    if kind == "gelu":
        return _gelu(model, call)
    if kind == "rrelu":
        lowest = float(call.value("lower_bound", 0.125))
        highest = float(call.value("upper_bound", 0.334))
        slope = (lowest + highest) / 2
    return model.add("LeakyRelu", call.inputs[0], alpha=slope)


@converts("gluonops_mish", opset=18)
def mish(model: Model, call: Call) -> str:
    return model.add("Mish", call.inputs[0])


@converts("gluonops_gelu", opset=20)
def gelu(model: Model, call: Call) -> str:
    approximate = "tanh" if call.text("approximation") == "tanh" else "none"
    return model.add("Gelu", call.inputs[0], approximate=approximate)


def _gelu(model: Model, call: Call) -> str:
    """x / 2 * (1 + erf(x / sqrt(2)))."""
    if model.opset >= 20:
        return model.add("Gelu", call.inputs[0])
    half = model.add("Mul", call.inputs[0], model.scalar(0.5, call.dtype))
    erf = model.add("Erf", model.add("Mul", call.inputs[0], model.scalar(np.sqrt(0.5), call.dtype)))
    return model.add("Mul", half, model.add("Add", erf, model.scalar(1, call.dtype)))


@converts("softmax", "log_softmax", "softmin")
def softmax(model: Model, call: Call) -> str:
    data = call.inputs[0]
    temperature = call.value("temperature") or 1.0
    if call.node.op == "softmin":
        temperature = -temperature
    if temperature != 1:
        data = model.add("Div", data, model.scalar(temperature, call.dtypes[0]))
    axis = call.axis()
    if call.flag("use_length"):
        if call.node.op != "softmax":
            raise call.refuse("masks by length")
        others = [i for i in range(len(call.shape)) if i != axis]
        inside = within(model, call.inputs[1], call.shape, axis, others)
        data = model.add("Where", inside, data, model.scalar(-np.inf, call.dtypes[0]))
    result = model.add("LogSoftmax" if call.node.op == "log_softmax" else "Softmax", data, axis=axis)
    if call.flag("use_length"):   # a row of length 0 would be NaN
        result = model.add("Where", inside, result, model.scalar(0, call.dtypes[0]))
    return result if call.dtype == call.dtypes[0] else model.cast(result, call.dtype)


@converts("SoftmaxActivation")
def softmax_activation(model: Model, call: Call) -> str:
    """Over the channels, or in the mode "instance" over the last axis."""
    axis = 1 if call.text("mode", "instance") == "channel" else -1
    return model.add("Softmax", call.inputs[0], axis=axis)


@converts("UpSampling")
def up_sampling(model: Model, call: Call) -> str:
    if call.text("sample_type") != "nearest" or len(call.inputs) != 1:
        raise call.refuse("upsamples several inputs, or not by nearest neighbour")
    scale = call.value("scale")
    scales = model.constant(np.array([1, 1, scale, scale], np.float32))
    return model.add("Resize", call.inputs[0], "", scales, mode="nearest", nearest_mode="floor",
                     coordinate_transformation_mode="asymmetric")


@converts("_contrib_BilinearResize2D")
def bilinear_resize(model: Model, call: Call) -> str:
    """Along an axis whose output is one pixel MXNet takes the first pixel, whatever the mode is."""
    mode = "align_corners" if call.flag("align_corners", True) else "half_pixel"
    data = call.inputs[0]
    single = [axis for axis in (2, 3) if call.shape[axis] == 1]
    if single:
        data = cut(model, data, single, [0] * len(single), [1] * len(single))
    return model.add("Resize", data, "", "", model.shape(call.shape), mode="linear",
                     coordinate_transformation_mode=mode)
