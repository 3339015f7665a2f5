"""Darknet's layers with weights as HybridBlocks, and their sections."""
from __future__ import annotations

import math

import mxnet as mx
from mxnet.gluon import nn
from mxnet.util import np_array

from ..backends.emitter import Array
from ..backends.layer import EitherModeBlock
from .activations import ACTIVATIONS, activation_block
from .blocks import Weighted
from .build import Builder, Layer, Shape, kind
from .cfg import Section
from .resizing import BLURS, Blur, blurred, strides_of, windows

# Darknet keeps 0.99 of the running statistics in every step of training; MXNet's default is 0.9.
MOMENTUM = 0.99
OFFSET = 1e-6
WEIGHTS = "weights", "Correct filters or size"   # what Section.check_count says of a layer with too many
# Options that make another operation of a convolution, and why they are refused.
REFUSED = {
    "binary": "gluonops takes weights as they are in the file",
    "flipped": "gluonops takes weights as they are in the file",
    "coordconv": "it is another operation than a convolution",
    **dict.fromkeys(("rotate", "stretch", "stretch_sway", "sway"), "AlexeyAB's Darknet ignores it on a CPU"),
}
# What pixels beyond the image of an xnor layer count as.
OUTSIDE = {"pjreddie": 0.0, "alexeyab": -1.0}


class BatchNorm(EitherModeBlock, nn.BatchNorm):
    """Batch norm that divides by ``sqrt(variance) + 1e-6``, as Darknet does on a CPU.

    MXNet divides by ``sqrt(variance + epsilon)``, and no epsilon makes the two equal for every variance. So gamma is
    multiplied by the quotient of the two divisors, a number from 0.7 to 1. In training it is the quotient for the
    running variance.

    Without the quotient, small differences add up over the 22 layers of YOLOv2. The error of the last convolution,
    relative to the standard deviation of its output, is 4e-4 with MXNet's usual epsilon of 1e-5, 9e-5 with 1e-12, and
    2e-5 with the quotient, which is the error of float32 itself. The variance could also be changed when it is loaded.
    But then the bits of the file could not be restored when the net is saved.
    """

    def __init__(self, in_channels: int = 0, **kwargs):
        super().__init__(momentum=MOMENTUM, epsilon=OFFSET ** 2, in_channels=in_channels, **kwargs)

    def hybrid_forward(self, F, x: Array, gamma: Array, beta: Array, running_mean: Array, running_var: Array) -> Array:
        quotient = F.BlockGrad(F.sqrt(running_var + OFFSET ** 2) / (F.sqrt(running_var) + OFFSET))
        return super().hybrid_forward(F, x, gamma * quotient, beta, running_mean, running_var)


def _norm(channels: int, epsilon: float | None) -> nn.BatchNorm:
    """The batch norm of a program; see ``epsilon`` of :class:`Convolution`."""
    if epsilon is None:
        return BatchNorm(channels)
    return nn.BatchNorm(momentum=MOMENTUM, epsilon=epsilon, in_channels=channels)


class _BinaryConv2D(EitherModeBlock, nn.Conv2D):
    """A convolution of signs: Rastegari et al., "XNOR-Net" (2016).

    A pixel counts as 1 if it is above 0, else as -1. Each weight of a filter is replaced by its sign times the mean
    magnitude of the filter's weights. Pixels beyond the image count as ``outside``.
    """

    def __init__(self, *args, padding: int, outside: float, **kwargs):
        with np_array(False):   # Conv2D chooses the operator here, and the body runs in legacy mode
            super().__init__(*args, padding=0, **kwargs)
        self._outside = outside
        self._pad_width = (0, 0, 0, 0, padding, padding, padding, padding)

    def hybrid_forward(self, F, x: Array, weight: Array, bias: Array | None = None) -> Array:
        signs = 2 * (x > 0) - 1
        signs = F.pad(signs, mode="constant", pad_width=self._pad_width, constant_value=self._outside)
        magnitudes = F.mean(F.abs(weight), axis=(1, 2, 3), keepdims=True)
        weight = F.broadcast_mul(2 * (weight > 0) - 1, magnitudes)
        return super().hybrid_forward(F, signs, weight, bias)


class Convolution(Weighted):
    """Darknet's ``[convolutional]``: a convolution, a batch norm or a bias, an activation, and on request a blur.

    Parameters
    ----------
    channels, in_channels : int
        Channels of the output and of the input. ``in_channels=0`` takes those of the first input.
    size : int, default 1
        Height and width of the kernel.
    stride : int or tuple of int, default 1
        Stride of the rows and the columns.
    padding : int, optional
        Zeros on each side. The default is ``size // 2``, which is Darknet's ``pad=1``. With a dilation of 2 there are
        twice as many.
    groups : int, default 1
    batch_norm : bool, default True
        Whether a batch norm follows the convolution. If False, a bias is added.
    activation : str, default 'leaky'
        One of ``gluonops.darknet.activations.ACTIVATIONS``. The slope of leaky is 0.1.
    epsilon : float, optional
        Batch norm divides by ``sqrt(variance + epsilon)``. pjreddie's Darknet does so on a GPU, and AlexeyAB's always,
        with 1e-5. By default it divides by ``sqrt(variance) + 1e-6``, as pjreddie's does on a CPU.
    dilation : int, default 1
        Distance of the pixels that neighbouring weights meet.
    blur : {0, 2, 3}, default 0
        Size of a blur that follows and has the ``stride``. The convolution itself then has a stride of 1.
    outside : float, optional
        If given, signs are convolved, as the option ``xnor`` says. Pixels beyond the image count as ``outside``, which
        is -1 or 0.

    Inputs:
        - **data**: (B, in_channels, H, W).

    Outputs:
        - **out**: (B, channels, (H + 2*padding - size) // stride + 1, likewise for W).
    """

    def __init__(self, channels: int, size: int = 1, in_channels: int = 0, stride: int | tuple[int, int] = 1,
                 padding: int | None = None, groups: int = 1, batch_norm: bool = True, activation: str = "leaky",
                 epsilon: float | None = None, dilation: int = 1, blur: int = 0, outside: float | None = None,
                 **kwargs):
        super().__init__(**kwargs)
        if padding is None:
            padding = size // 2
        options = {"strides": 1 if blur else stride, "padding": padding * dilation, "dilation": dilation,
                   "groups": groups, "in_channels": in_channels, "use_bias": not batch_norm}
        with self.name_scope():
            if outside is None:
                self.conv = nn.Conv2D(channels, size, **options)
            else:
                self.conv = _BinaryConv2D(channels, size, outside=outside, prefix="conv0_", **options)
            self.norm = _norm(channels, epsilon) if batch_norm else None
            self.activation = activation_block(activation)
            self.blur = Blur(channels, blur, stride) if blur else None
        self.activates = True   # the builder takes the activations of layers with the option bin_output away

    def file_parameters(self) -> list[mx.gluon.Parameter]:
        if self.norm is None:
            return [self.conv.bias, self.conv.weight]
        return [self.norm.beta, self.norm.gamma, self.norm.running_mean, self.norm.running_var, self.conv.weight]

    def hybrid_forward(self, F, data: Array) -> Array:
        activation = self.activation if self.activates else None
        for step in (self.conv, self.norm, activation, self.blur):
            data = data if step is None else step(data)
        return data


class Connected(Weighted):
    """Darknet's ``[connected]``: a dense layer. The input is (B, ...), and the output is (B, units)."""

    def __init__(self, units: int, in_units: int, batch_norm: bool = False, activation: str = "logistic",
                 epsilon: float | None = None, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.dense = nn.Dense(units, in_units=in_units, use_bias=not batch_norm)
            self.norm = _norm(units, epsilon) if batch_norm else None
            self.activation = activation_block(activation)

    def file_parameters(self) -> list[mx.gluon.Parameter]:
        if self.norm is None:
            return [self.dense.bias, self.dense.weight]
        return [self.norm.beta, self.dense.weight, self.norm.gamma, self.norm.running_mean, self.norm.running_var]

    def matrix(self) -> mx.gluon.Parameter:
        return self.dense.weight

    def hybrid_forward(self, F, data: Array) -> Array:
        for step in (self.dense, self.norm, self.activation):
            data = data if step is None else step(data)
        return data


class Local(Weighted):
    """Darknet's ``[local]``: a convolution with other weights at every position."""

    def __init__(self, channels: int, in_channels: int, size: int, stride: int, padding: int,
                 out_size: tuple[int, int], activation: str = "logistic", **kwargs):
        super().__init__(**kwargs)
        height, width = out_size
        positions = height * width
        self._pad_width = (0, 0, 0, 0, padding, padding, padding, padding)
        self._window = size, stride, out_size
        self._out_shape = (0, channels, height, width)
        with self.name_scope():
            self.bias = self.params.get("bias", shape=(channels, positions), init="zeros")
            self.weight = self.params.get("weight", shape=(positions, channels, in_channels * size ** 2))
            self.activation = activation_block(activation)

    def file_parameters(self) -> list[mx.gluon.Parameter]:
        return [self.bias, self.weight]

    def _pixels(self, F, data: Array) -> Array:
        """The pixels under the kernel at every position, (positions, B, in_channels * size**2)."""
        size, stride, (height, width) = self._window
        data = F.pad(data, mode="constant", pad_width=self._pad_width, constant_value=0)
        shifted = []
        for top in range(size):
            for left in range(size):
                end = (None, None, top + stride * (height - 1) + 1, left + stride * (width - 1) + 1)
                part = F.slice(data, begin=(None, None, top, left), end=end, step=(None, None, stride, stride))
                shifted.append(F.reshape(part, shape=(0, 0, -1)))
        pixels = F.stack(*shifted, axis=2)                        # B, C, size**2, positions
        return F.transpose(F.reshape(pixels, shape=(0, -3, 0)), axes=(2, 0, 1))

    def hybrid_forward(self, F, data: Array, bias: Array, weight: Array) -> Array:
        out = F.batch_dot(self._pixels(F, data), weight, transpose_b=True)   # positions, B, channels
        out = F.broadcast_add(F.transpose(out, axes=(1, 2, 0)), F.expand_dims(bias, axis=0))
        out = F.reshape(out, shape=self._out_shape)
        return out if self.activation is None else self.activation(out)


@kind("convolutional", "conv")
def convolutional(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    filters = section.integer("filters", 1, 1)
    size = section.integer("size", 1, 1)
    strides = strides_of(section)
    padding = section.integer("padding", 0, 0)
    if section.flag("pad"):
        padding = size // 2
    for key, why in REFUSED.items():
        section.refuse(key, why)
    dilation = section.integer("dilation", 1, 1) if size > 1 else 1
    if size == 1:
        section.skip("dilation")
    xnor = section.flag("xnor")
    groups = _groups(section, shape[0], filters, xnor)
    blur = BLURS[section.text("antialiasing", "0", sorted(BLURS))]
    if xnor and (strides[0] != strides[1] or dilation > 1 or blur):
        raise section.error("xnor is not supported together with two strides, dilation or antialiasing, which Darknet "
                            "ignores there", "Remove xnor, or the other option", "xnor")
    section.check_count(filters * (shape[0] // groups) * size ** 2, *WEIGHTS)
    activation = section.text("activation", "logistic", sorted(ACTIVATIONS))
    batch_norm = section.flag("batch_normalize") or section.flag("cbn")

    options = {"groups": groups, "batch_norm": batch_norm, "activation": activation, "epsilon": build.epsilon,
               "dilation": dilation, "blur": blur, "outside": OUTSIDE[build.dialect] if xnor else None}
    shared = _shared(build, section, (filters, shape[0] // groups, size, size), batch_norm)
    if shared is not None:
        options["params"] = shared.collect_params()
    block = Convolution(filters, size, shape[0], strides, padding, prefix=prefix, **options)
    if section.flag("bin_output") and xnor:
        build.binary_outputs[build.number] = block
    sides = _convolved(section, shape, size, strides, padding, dilation, blur)
    return Layer(block, (filters, *sides))


def _convolved(section: Section, shape: Shape, size: int, strides: tuple[int, int], padding: int, dilation: int,
               blur: int) -> list[int]:
    """The height and width of a convolution's output."""
    reach = dilation * (size - 1) + 1
    steps = (1, 1) if blur else strides
    sides = windows(shape[1:], reach, steps, 2 * padding * dilation)
    if sides != windows(shape[1:], size, steps, 2 * padding):
        raise section.error(f"dilation={dilation} with size={size} and a padding of {padding} is not supported, "
                            "because Darknet reads beyond the image there", "Take an odd size and pad=1", "dilation")
    return blurred(sides, blur, strides)


def _groups(section: Section, channels: int, filters: int, xnor: bool) -> int:
    """The option ``groups``. AlexeyAB's Darknet has none in an xnor layer."""
    groups = section.integer("groups", 1, 1)
    if xnor:
        return 1
    for what, count in (("channels of its input", channels), ("filters", filters)):
        if count % groups:
            raise section.error(f"groups is {groups}, and the number of {what} is {count}; expected a divisor of "
                                f"{count}",
                                "Correct groups", "groups")
    return groups


def _shared(build: Builder, section: Section, weight_shape: Shape, batch_norm: bool) -> Convolution | None:
    """The convolution whose weights a section shares, which the option ``share_index`` names. None without it."""
    if "share_index" not in section:
        return None
    number = build.earlier(section, "share_index", section.integer("share_index"))
    block = build.net[number]
    fits = isinstance(block, Convolution) and block.conv.weight.shape == weight_shape
    if not fits or (block.norm is not None) != batch_norm:
        raise section.error(f"share_index names layer {number}; expected a convolution with weights of the shape "
                            f"{weight_shape}, and with the same batch_normalize",
                            "Name a convolution with the same filters, size, channels and batch_normalize",
                            "share_index")
    return block


@kind("connected", "conn", takes_row=True)
def connected(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    units = section.integer("output", 1, 1)
    activation = section.text("activation", "logistic", sorted(ACTIVATIONS))
    batch_norm = section.flag("batch_normalize")
    count = math.prod(shape)
    section.check_count(units * count, *WEIGHTS)
    return Layer(Connected(units, count, batch_norm, activation, build.epsilon, prefix=prefix), (units,))


@kind("local")
def local(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    filters = section.integer("filters", 1, 1)
    size = section.integer("size", 1, 1)
    stride = section.integer("stride", 1, 1)
    padding = section.integer("pad", 0, 0)
    activation = section.text("activation", "logistic", sorted(ACTIVATIONS))
    channels, *sides = shape
    steps = (stride, stride)
    out = windows(sides, size, steps, 2 * padding)
    if out != windows(sides, 1 if padding else size, steps, 0):
        raise section.error(f"pad={padding} with size={size} is not supported, because Darknet reads beyond the image "
                            "there",
                            "Take pad=1 with size=3, or pad=0", "pad")
    if min(out) > 0:   # otherwise the builder says what is wrong
        section.check_count(filters * channels * size ** 2 * math.prod(out), *WEIGHTS)
    return Layer(Local(filters, channels, size, stride, padding, out, activation, prefix=prefix), (filters, *out))
