"""Converters of deformable convolutions, and of the correlation of two maps."""
from __future__ import annotations

import numpy as np

from .arrays import cut
from .model import Call, Model
from .registry import converts


@converts("_contrib_DeformableConvolution", opset=19)
def deformable_convolution(model: Model, call: Call) -> str:
    """MXNet's first version reads nothing at negative positions, and clamps those beyond the last pixel to it.

    ONNX weighs both with the zeros around the data. So the positions are clamped, and a mask leaves out the others.
    """
    data, offset, weight, *bias = call.inputs
    batch, _, height, width = call.shapes[0]
    kernel, groups = call.ints("kernel", ()), call.value("num_deformable_group", 1)
    points = int(np.prod(kernel))
    rows, columns = call.shape[2:]
    split = (batch, groups * points, 2, rows, columns)
    places = model.constant(np.tile(_places(call), (groups, 1, 1, 1))[None].astype(call.dtype))
    position = model.add("Add", model.reshape(offset, split), places)
    sizes = np.array([height, width], call.dtype).reshape(1, 1, 2, 1, 1)
    zero = model.scalar(0, call.dtype)
    is_inside = model.add("And", model.add("GreaterOrEqual", position, zero),
                          model.add("Less", position, model.constant(sizes)))
    mask = model.reduce("ReduceMin", model.cast(is_inside, call.dtype), [2], keepdims=False)
    position = model.add("Max", model.add("Min", position, model.constant(sizes - 1)), zero)
    offset = model.reshape(model.add("Sub", position, places), call.shapes[1])
    return _convolution(model, call, data, weight, offset, *(bias or [""]), mask)


@converts("_contrib_ModulatedDeformableConvolution", opset=19)
def modulated_deformable_convolution(model: Model, call: Call) -> str:
    data, offset, mask, weight, *bias = call.inputs
    return _convolution(model, call, data, weight, offset, *(bias or [""]), mask)


def _convolution(model: Model, call: Call, *inputs: str) -> str:
    kernel, strides, pads, dilations = call.window()
    return model.add("DeformConv", *inputs, kernel_shape=kernel, strides=strides, pads=pads * 2, dilations=dilations,
                     group=call.value("num_group", 1), offset_group=call.value("num_deformable_group", 1))


def _places(call: Call) -> np.ndarray:
    """Where each point of the kernel is without offsets, (points, 2, rows, columns)."""
    kernel, *window = call.window()
    grids = []
    for axis, (stride, pad, dilation) in enumerate(zip(*window)):
        steps = np.indices(call.shape[2:])[axis] * stride - pad
        point = np.indices(kernel)[axis].reshape(-1, 1, 1) * dilation
        grids.append(point + steps)
    return np.stack(grids, axis=1)


@converts("Correlation")
def correlation(model: Model, call: Call) -> str:
    """A channel for each shift of the second map: the mean of the products, or distances, of both maps."""
    displacement, shift = call.value("max_displacement", 1), call.value("stride2", 1)
    stride, kernel, pad = call.value("stride1", 1), call.value("kernel_size", 1), call.value("pad_size", 0)
    borders = model.ints(0, 0, pad, pad, 0, 0, pad, pad)
    first, second = (model.add("Pad", value, borders, model.scalar(0, call.dtype)) for value in call.inputs)
    sizes = [(count - 1) * stride + kernel for count in call.shape[2:]]   # that the windows cover

    def window(value: str, row: int, column: int) -> str:
        begins = [displacement + row, displacement + column]
        return cut(model, value, [2, 3], begins, [begin + size for begin, size in zip(begins, sizes)])

    reach = displacement // shift
    shifts = [step * shift for step in range(-reach, reach + 1)]
    centre = window(first, 0, 0)
    channels = []
    for row in shifts:
        for column in shifts:
            moved = window(second, row, column)
            if call.flag("is_multiply", True):
                product = model.add("Mul", centre, moved)
            else:
                product = model.add("Abs", model.add("Sub", centre, moved))
            channels.append(model.reduce("ReduceMean", product, [1]))
    maps = model.add("Concat", *channels, axis=1)
    return model.add("AveragePool", maps, kernel_shape=[kernel, kernel], strides=[stride, stride])
