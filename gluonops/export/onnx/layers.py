"""Converters of layers: convolutions, dense layers, normalization, pooling, activations, resizing."""
import numpy as np

from .arrays import cut
from .registry import converts


@converts("Convolution", "Convolution_v1")
def convolution(m, n):
    kernel = n.ints("kernel", ())
    _channels_first(n)
    ones = (1,) * len(kernel)
    pads = n.ints("pad", (0,) * len(kernel))
    return m.add("Conv", *n.inputs, kernel_shape=kernel, strides=n.ints("stride", ones), pads=pads * 2,
                 dilations=n.ints("dilate", ones), group=n.value("num_group", 1))


@converts("Deconvolution")
def deconvolution(m, n):
    kernel = n.ints("kernel", ())
    _channels_first(n)
    ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
    strides, dilations = n.ints("stride", ones), n.ints("dilate", ones)
    pads, extra = n.ints("pad", zeros), n.ints("adj", zeros)
    if any(n.ints("target_shape", zeros)):
        raise n.refuse("has a target_shape, which MXNet 1.9.1 itself fails on")
    return m.add("ConvTranspose", *n.inputs, kernel_shape=kernel, strides=strides, pads=pads * 2, dilations=dilations,
                 output_padding=extra, group=n.value("num_group", 1))


def _channels_first(n):
    layout = n.text("layout", "None")
    if layout not in ("None", "NCW", "NCHW", "NCDHW"):
        raise n.refuse(f"has layout {layout}; ONNX puts channels first")


@converts("FullyConnected")
def fully_connected(m, n):
    data, weight, *bias = n.inputs
    if n.flag("flatten", True):
        flat = n.shapes[0][:1] + (n.shapes[1][1],)
        data = data if n.shapes[0] == flat else m.reshape(data, flat)
        return m.add("Gemm", data, weight, *bias, transB=1)
    product = m.add("MatMul", data, m.add("Transpose", weight, perm=(1, 0)))
    return m.add("Add", product, bias[0]) if bias else product


def _across(values, ndim, axis):
    """Shape that lets a vector broadcast along ``axis``."""
    return tuple(values if i == axis else 1 for i in range(ndim))


@converts("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm")
def batch_norm(m, n):
    data, gamma, beta, mean, variance = n.inputs
    axis, ndim = n.axis(default=1), len(n.shapes[0])
    if n.flag("fix_gamma", True):
        gamma = m.constant(np.ones(n.shapes[1], n.dtypes[1]))
    order = list(range(ndim))
    order[1], order[axis] = axis, 1
    if axis != 1:
        data = m.add("Transpose", data, perm=order)
    result = m.add("BatchNormalization", data, gamma, beta, mean, variance, epsilon=float(n.value("eps", 1e-3)))
    return result if axis == 1 else m.add("Transpose", result, perm=order)


def _standardized(m, n, data, axes):
    """(data - mean) / sqrt(variance + eps) over ``axes``."""
    centred = m.add("Sub", data, m.reduce("ReduceMean", data, axes))
    variance = m.reduce("ReduceMean", m.add("Mul", centred, centred), axes)
    eps = m.scalar(n.value("eps", 1e-5), n.dtype)
    return m.add("Div", centred, m.add("Sqrt", m.add("Add", variance, eps)))


def _affine(m, n, data, axis):
    """data * gamma + beta along ``axis``."""
    along = _across(n.shapes[1][0], len(n.shapes[0]), axis)
    return m.add("Add", m.add("Mul", data, m.reshape(n.inputs[1], along)), m.reshape(n.inputs[2], along))


@converts("LayerNorm")
def layer_norm(m, n):
    axis = n.axis()
    return _affine(m, n, _standardized(m, n, n.inputs[0], [axis]), axis)


@converts("InstanceNorm")
def instance_norm(m, n):
    spatial = list(range(2, len(n.shapes[0])))
    eps = m.scalar(n.value("eps", 1e-3), n.dtype)
    data = n.inputs[0]
    centred = m.add("Sub", data, m.reduce("ReduceMean", data, spatial))
    variance = m.reduce("ReduceMean", m.add("Mul", centred, centred), spatial)
    return _affine(m, n, m.add("Div", centred, m.add("Sqrt", m.add("Add", variance, eps))), 1)


@converts("GroupNorm")
def group_norm(m, n):
    groups, shape = n.value("num_groups", 1), n.shapes[0]
    split = m.reshape(n.inputs[0], (shape[0], groups, shape[1] // groups) + shape[2:])
    result = _standardized(m, n, split, list(range(2, len(shape) + 1)))
    if n.shapes[1][0] == shape[1]:
        return _affine(m, n, m.reshape(result, shape), 1)
    along = _across(groups, len(shape) + 1, 1)
    result = m.add("Add", m.add("Mul", result, m.reshape(n.inputs[1], along)), m.reshape(n.inputs[2], along))
    return m.reshape(result, shape)


@converts("L2Normalization")
def l2_normalization(m, n):
    ndim = len(n.shapes[0])
    axes = {"instance": range(1, ndim), "channel": [1], "spatial": range(2, ndim)}[n.text("mode", "instance")]
    total = m.reduce("ReduceSum", m.add("Mul", n.inputs[0], n.inputs[0]), axes)
    return m.add("Div", n.inputs[0], m.add("Sqrt", m.add("Add", total, m.scalar(n.value("eps", 1e-10), n.dtype))))


@converts("LRN")
def local_response(m, n):
    return m.add("LRN", n.inputs[0], alpha=float(n.value("alpha", 1e-4)), beta=float(n.value("beta", 0.75)),
                 bias=float(n.value("knorm", 2)), size=n.value("nsize"))


@converts("Pooling", "Pooling_v1")
def pooling(m, n):
    kind = n.text("pool_type", "max")
    _channels_first(n)
    if n.flag("global_pool"):
        return _global_pooling(m, n, kind)
    kernel = n.ints("kernel", ())
    strides, pads = n.ints("stride", (1,) * len(kernel)), n.ints("pad", (0,) * len(kernel))
    if any(not isinstance(size, int) for size in n.shape[2:]):
        raise n.refuse("pools along the batch")
    # What the last window reaches beyond the end: more than the padding where MXNet rounds the size up.
    ends = [max(pad, (out - 1) * step + k - size - pad) for pad, out, step, k, size in
            zip(pads, n.shape[2:], strides, kernel, n.shapes[0][2:])]
    if any(end >= k for end, k in zip(ends, kernel)):   # MXNet: 0 or the lowest float; onnxruntime: an error
        raise n.refuse("has a window wholly beyond the data, as ceil_mode or pooling_convention='full' can make one")
    options = {"kernel_shape": kernel, "strides": strides}
    if kind == "max":
        return m.add("MaxPool", n.inputs[0], pads=[*pads, *ends], **options)
    if kind == "lp":
        return m.add("LpPool", n.inputs[0], pads=[*pads, *ends], p=n.value("p_value", 2), **options)
    data = n.inputs[0]
    if any(pads) or any(ends):
        data = m.add("Pad", data, m.ints(0, 0, *pads, 0, 0, *ends), m.scalar(0, n.dtype))
    mean, area = m.add("AveragePool", data, **options), int(np.prod(kernel))
    factor = area / _counted(n, kernel, strides, pads, kind).astype(np.float64)
    return mean if (factor == 1).all() else m.add("Mul", mean, m.constant(factor.astype(n.dtype)))


def _counted(n, kernel, strides, pads, kind):
    """How many elements MXNet divides each window's sum by."""
    if kind == "sum":
        return np.ones((1,) * len(kernel))
    inside = not n.flag("count_include_pad", True)
    total = np.ones(())
    for size, out, k, step, pad in zip(n.shapes[0][2:], n.shape[2:], kernel, strides, pads):
        begin = np.arange(out) * step - pad
        end = np.minimum(begin + k, size + pad)
        if inside:
            begin, end = np.maximum(begin, 0), np.minimum(end, size)
        total = total[..., None] * (end - begin)
    return total


def _global_pooling(m, n, kind):
    if kind == "max":
        return m.add("GlobalMaxPool", n.inputs[0])
    if kind == "avg":
        return m.add("GlobalAveragePool", n.inputs[0])
    if kind == "lp":
        return m.add("GlobalLpPool", n.inputs[0], p=n.value("p_value", 2))
    return m.reduce("ReduceSum", n.inputs[0], range(2, len(n.shape)))


@converts("_contrib_AdaptiveAvgPooling2D")
def adaptive_average(m, n):
    """Each output is a mean over rows and over columns, so two matrices do it."""
    result = n.inputs[0]
    matrices = [_means(size, out, n.dtype) for size, out in zip(n.shapes[0][2:], n.shape[2:])]
    result = m.add("MatMul", m.constant(matrices[0]), result)
    return m.add("MatMul", result, m.constant(matrices[1].T))


def _means(size, out, dtype):
    matrix = np.zeros((out, size), dtype)
    for i in range(out):
        begin, end = i * size // out, -(-(i + 1) * size // out)
        matrix[i, begin:end] = 1 / (end - begin)
    return matrix


@converts("Activation")
def activation(m, n):
    kind = n.text("act_type")
    if kind == "softrelu":
        return m.add("Softplus", n.inputs[0])
    return m.add({"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "softsign": "Softsign"}[kind], n.inputs[0])


@converts("LeakyReLU")
def leaky_relu(m, n):
    kind, slope = n.text("act_type", "leaky"), float(n.value("slope", 0.25))
    if kind == "prelu":
        return m.add("PRelu", n.inputs[0], m.reshape(n.inputs[1], _across(n.shapes[1][0], len(n.shapes[0]) - 1, 0)))
    if kind == "elu":
        return m.add("Elu", n.inputs[0], alpha=slope)
    if kind == "selu":
        return m.add("Selu", n.inputs[0])
    if kind == "gelu":
        half = m.add("Mul", n.inputs[0], m.scalar(0.5, n.dtype))
        bell = m.add("Erf", m.add("Mul", n.inputs[0], m.scalar(np.sqrt(0.5), n.dtype)))
        return m.add("Mul", half, m.add("Add", bell, m.scalar(1, n.dtype)))
    if kind == "rrelu":
        slope = (float(n.value("lower_bound", 0.125)) + float(n.value("upper_bound", 0.334))) / 2
    return m.add("LeakyRelu", n.inputs[0], alpha=slope)


@converts("softmax", "log_softmax", "softmin")
def softmax(m, n):
    if n.flag("use_length"):
        raise n.refuse("masks by length")
    data, temperature = n.inputs[0], n.value("temperature") or 1.0
    if n.node.op == "softmin":
        temperature = -temperature
    if temperature != 1:
        data = m.add("Div", data, m.scalar(temperature, n.dtypes[0]))
    result = m.add("LogSoftmax" if n.node.op == "log_softmax" else "Softmax", data, axis=n.axis())
    return result if n.dtype == n.dtypes[0] else m.cast(result, n.dtype)


@converts("SoftmaxActivation")
def softmax_activation(m, n):
    """Over channels; or over the last axis, whatever "instance" suggests."""
    return m.add("Softmax", n.inputs[0], axis=1 if n.text("mode", "instance") == "channel" else -1)


@converts("UpSampling")
def up_sampling(m, n):
    if n.text("sample_type") != "nearest" or len(n.inputs) != 1:
        raise n.refuse("upsamples otherwise than one input to the nearest neighbour")
    scales = m.constant(np.array([1, 1, n.value("scale"), n.value("scale")], np.float32))
    return m.add("Resize", n.inputs[0], "", scales, mode="nearest", nearest_mode="floor",
                 coordinate_transformation_mode="asymmetric")


@converts("_contrib_BilinearResize2D")
def bilinear_resize(m, n):
    """Along an axis of which one pixel is left, MXNet takes the first, whatever the mode."""
    mode = "align_corners" if n.flag("align_corners", True) else "half_pixel"
    single = [axis for axis in (2, 3) if n.shape[axis] == 1]
    data = cut(m, n.inputs[0], single, [0] * len(single), [1] * len(single)) if single else n.inputs[0]
    return m.add("Resize", data, "", "", m.shape(n.shape), mode="linear",
                 coordinate_transformation_mode=mode)
