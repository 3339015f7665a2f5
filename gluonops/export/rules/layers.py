"""Rules of layers, losses, and what detectors compute."""
from __future__ import annotations

import math

import numpy as np

from .infer import Call, Misfit, Shape, shape_of


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


@shape_of("Convolution", "Convolution_v1", "Deconvolution", "_contrib_ModulatedDeformableConvolution")
def convolution(call: Call) -> Shape:
    kernel, strides, pads, dilations = call.window()
    pixels = _pixels(call, kernel)
    filters, groups, channels = call.value("num_filter"), call.value("num_group", 1), call.data[1]
    spans = [dilation * (length - 1) + 1 - 2 * pad for length, pad, dilation in zip(kernel, pads, dilations)]
    if call.node.op == "Deconvolution":
        adjustments, targets = (call.ints(name, (0,) * len(kernel)) for name in ("adj", "target_shape"))
        sizes = [stride * (size - 1) + span + more for size, stride, span, more
                 in zip(pixels, strides, spans, adjustments)]
        sizes = targets if all(targets) else sizes
        rows, columns = channels, filters // groups
    else:
        sizes = [(size - span) // stride + 1 for size, stride, span in zip(pixels, strides, spans)]
        call.check(channels % groups == 0, 0, f"channels in {groups} groups")
        rows, columns = filters, channels // groups
    first = 1
    if call.node.op == "_contrib_ModulatedDeformableConvolution":   # it has offsets, and weights of the points
        first, points = 3, call.value("num_deformable_group", 1) * math.prod(kernel)
        call.expect(1, (call.data[0], 2 * points, *sizes))
        call.expect(2, (call.data[0], points, *sizes))
    call.expect(first, (rows, columns, *kernel))
    call.expect(first + 1, (filters,))
    return _map(call, filters, sizes)


@shape_of("FullyConnected")
def fully_connected(call: Call) -> Shape:
    count = call.value("num_hidden")
    flattens = call.flag("flatten", True)
    rows = call.data[:1] if flattens else call.data[:-1]
    call.expect(1, (count, math.prod(call.data[1:]) if flattens else call.data[-1]))
    call.expect(2, (count,))
    return (*rows, count)


@shape_of("Pooling", "Pooling_v1")
def pooling(call: Call) -> Shape:
    if call.flag("global_pool"):
        return _map(call, call.data[1], [1] * len(_pixels(call)))
    kernel, strides, pads, _ = call.window()
    convention = call.text("pooling_convention", "valid")
    sizes = []
    for size, length, stride, pad in zip(_pixels(call, kernel), kernel, strides, pads):
        call.check(length <= size + 2 * pad, 0, f"pixels for a kernel of {kernel}")
        if convention == "same":
            sizes.append(-(-size // stride))
        else:
            rest = size + 2 * pad - length
            sizes.append((-(-rest // stride) if convention == "full" else rest // stride) + 1)
    return _map(call, call.data[1], sizes)


@shape_of("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", "LayerNorm", "InstanceNorm", "GroupNorm")
def normalization(call: Call) -> Shape:
    if call.node.op == "GroupNorm":
        count = call.value("num_groups", 1)
    else:
        count = call.data[call.axis(default=-1 if call.node.op == "LayerNorm" else 1)]
    for position in range(1, len(call.shapes)):
        call.expect(position, (count,))
    return call.data


@shape_of("Embedding")
def embedding(call: Call) -> Shape:
    call.expect(1, (call.value("input_dim"), call.value("output_dim")))
    return (*call.data, call.value("output_dim"))


@shape_of("RNN")
def recurrent(call: Call) -> list[Shape]:
    time, batch, inputs = call.data
    size, layers = call.value("state_size"), call.value("num_layers")
    ends = 2 if call.flag("bidirectional") else 1
    shown = call.value("projection_size") or size
    if shown == size:   # a projection has weights of its own
        call.expect(1, (sum(map(math.prod, call.recurrent_parameters(inputs).values())),))
    states = [(layers * ends, batch, shown), (layers * ends, batch, size)][:2 if call.text("mode") == "lstm" else 1]
    for position, state in enumerate(states, 2):
        call.expect(position, state)
    return [(time, batch, shown * ends), *(states if call.flag("state_outputs") else [])]


@shape_of("UpSampling")
def up_sampling(call: Call) -> Shape:
    batch, channels, height, width = call.data
    scale = call.value("scale")
    if call.text("sample_type") == "nearest" and len(call.shapes) > 1:
        channels = sum(shape[1] for shape in call.shapes) if call.text("multi_input_mode") != "sum" else channels
    return batch, channels, height * scale, width * scale


@shape_of("_contrib_BilinearResize2D")
def bilinear_resize(call: Call) -> Shape:
    mode, has_scales = call.text("mode", "size"), call.value("scale_height") is not None
    sizes = []
    for axis, old, name in zip((2, 3), _pixels(call, (1, 1)), ("height", "width")):
        if mode == "like":
            new = call.shapes[1][axis]
        elif mode == "size":
            new = int(np.float32(call.value(f"scale_{name}")) * old) if has_scales else call.value(name, 1)
        else:
            raise Misfit(f"{call.node.name!r} has the mode {mode}, whose sizes only MXNet knows")
        sizes.append(new)
    return (*call.data[:2], *sizes)


@shape_of("_contrib_AdaptiveAvgPooling2D")
def adaptive_average(call: Call) -> Shape:
    sizes = call.ints("output_size", (1,))
    call.check(len(call.data) == 4, 0, "images")
    return (*call.data[:2], *(sizes * 2)[:2])


# -- losses -------------------------------------------------------------------------------------------------------
@shape_of("SoftmaxOutput")
def softmax_output(call: Call) -> Shape:
    label, (batch, _, *rest) = call.shapes[1], call.data
    if call.flag("multi_output"):
        taken = [(batch, math.prod(rest)), (batch, *rest), (batch, 1, *rest), call.data]
        call.expect(1, label if label in taken else taken[0])
    elif label != call.data:
        call.expect(1, call.data[:-1])
    return call.data


@shape_of("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput")
def regression_output(call: Call) -> Shape:
    label = call.shapes[1]
    if label is None:
        call.expect(1, call.data[:1] if call.data[1:] == (1,) else call.data)
    else:
        call.check(math.prod(label) == math.prod(call.data), 1, call.data)
    return call.data


@shape_of("SVMOutput", "softmax_cross_entropy", "batch_take")
def of_rows(call: Call) -> Shape:
    """They read a number for each row."""
    call.expect(1, call.data[:-1])
    return {"SVMOutput": call.data, "softmax_cross_entropy": (1,)}.get(call.node.op, call.data[:-1])


# -- boxes --------------------------------------------------------------------------------------------------------
@shape_of("_contrib_box_decode")
def box_decode(call: Call) -> Shape:
    call.check(len(call.data) == 3 and call.data[2] == 4, 0, "(batch, boxes, 4)")
    call.check(call.shapes[1][1:] == call.data[1:], 1, f"(1, {call.data[1]}, 4)")
    return call.data


@shape_of("_contrib_ROIAlign")
def of_regions(call: Call) -> Shape:
    regions, sizes = call.shapes[1], (call.ints("pooled_size", ()) * 2)[:2]
    call.check(len(regions) == 2 and regions[1] == 5, 1, "rows of an image and a box")
    maps = math.prod(sizes) if call.flag("position_sensitive") else 1
    return (regions[0], call.data[1] // maps, *sizes)


@shape_of("_contrib_MultiBoxPrior")
def multi_box_prior(call: Call) -> Shape:
    call.check(len(call.data) == 4, 0, "images")
    each_pixel = len(call.ints("sizes", (1.0,))) + len(call.ints("ratios", (1.0,))) - 1
    return 1, call.data[2] * call.data[3] * each_pixel, 4


@shape_of("_contrib_MultiBoxTarget")
def multi_box_target(call: Call) -> list[Shape]:
    count, batch = call.data[1], call.shapes[1][0]
    call.expect(0, (1, count, 4))
    call.expect(2, (batch, call.shapes[2][1], count))
    return [(batch, 4 * count), (batch, 4 * count), (batch, count)]


@shape_of("_contrib_MultiBoxDetection")
def multi_box_detection(call: Call) -> Shape:
    batch, _, count = call.data
    call.expect(1, (batch, 4 * count))
    call.expect(2, (1, count, 4))
    return batch, count, 6
