"""Converters of deformable convolutions, and of the correlation of two maps."""
from __future__ import annotations

import numpy as np

from .layers import window_options
from .model import Call, Tensor
from .registry import converts


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
    places = constant(np.tile(_places(call), (groups, 1, 1, 1))[None].astype(call.dtype))
    position = offset.reshape(split) + places
    sizes = np.array([height, width], call.dtype).reshape(1, 1, 2, 1, 1)
    is_inside = (position >= 0).apply("And", position < constant(sizes))
    mask = is_inside.cast(call.dtype).reduce("ReduceMin", [2], keepdims=False)
    position = position.apply("Min", constant(sizes - 1)).apply("Max", 0)
    offset = (position - places).reshape(call.shapes[1])
    return _convolution(call, data, weight, offset, *(bias or [None]), mask)


@converts("_contrib_ModulatedDeformableConvolution", opset=19)
def modulated_deformable_convolution(call: Call) -> Tensor:
    data, offset, mask, weight, *bias = call.inputs
    return _convolution(call, data, weight, offset, *(bias or [None]), mask)


def _convolution(call: Call, *inputs: Tensor | None) -> Tensor:
    groups = call.value("num_deformable_group", 1)
    return call.model.add("DeformConv", *inputs, offset_group=groups, **window_options(call))


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
def correlation(call: Call) -> Tensor:
    """A channel for each shift of the second map: the mean of the products, or distances, of both maps."""
    displacement, shift = call.value("max_displacement", 1), call.value("stride2", 1)
    stride, kernel, pad = call.value("stride1", 1), call.value("kernel_size", 1), call.value("pad_size", 0)
    borders = call.model.ints(0, 0, pad, pad, 0, 0, pad, pad)
    first, second = (value.apply("Pad", borders, call.model.scalar(0, call.dtype)) for value in call.inputs)
    sizes = [(count - 1) * stride + kernel for count in call.shape[2:]]   # that the windows cover

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
