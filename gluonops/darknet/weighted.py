"""Darknet's layers with weights as HybridBlocks. A weights file holds the parameters of these blocks, and no others."""
from __future__ import annotations

from collections.abc import Sequence

import mxnet as mx
from mxnet.gluon import HybridBlock, nn

from ..core.emitter import Array
from .activations import activation_block
from .merging import add_parts
from .pooling import Blur

__all__ = ["BatchNorm", "Connected", "Convolution", "Local", "Weighted", "WeightedShortcut"]

# Darknet keeps 0.99 of the running statistics in every step of training; MXNet's default is 0.9.
MOMENTUM = 0.99
OFFSET = 1e-6
NORMALIZATION_OFFSET = 1e-4   # is added to the sum of a shortcut's weights


class Weighted(HybridBlock):
    """A layer whose parameters a weights file holds."""

    def file_parameters(self) -> list[mx.gluon.Parameter]:
        """The parameters in the order of the file."""
        raise NotImplementedError

    def matrix(self) -> mx.gluon.Parameter | None:
        """The parameter that files of some versions hold transposed."""
        return None


class BatchNorm(nn.BatchNorm):
    """Batch norm that divides by ``sqrt(variance) + 1e-6``, as Darknet does on a CPU.

    MXNet divides by ``sqrt(variance + epsilon)``, and no epsilon makes the two equal for every variance. So gamma is
    multiplied by the quotient of the two, which is 0.7 to 1. In training it is the quotient of the running variance.

    The difference adds up over the 22 layers of YOLOv2. The error of the last convolution, relative to its standard
    deviation, is 4e-4 with MXNet's usual epsilon of 1e-5, 9e-5 with 1e-12, and 2e-5 with the quotient, which is
    float32's own error. To shift the variance at loading would do as well, but then float32 could not give the file's
    bits back at saving.
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


class _BinaryConv2D(nn.Conv2D):
    """A convolution of signs: Rastegari et al., "XNOR-Net" (2016).

    A pixel counts as 1 if it is above 0, else as -1. The weights of a filter are their mean magnitude with their signs.
    Pixels beyond the image count as ``outside``.
    """

    def __init__(self, *args, padding: int, outside: float, **kwargs):
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
    """Darknet's ``[convolutional]``: convolution, batch norm or bias, activation, and a blur if it is asked for.

    Parameters
    ----------
    channels, in_channels : int
        Channels of the output and of the input. ``in_channels=0`` takes those of the first input.
    size : int, default 1
        Height and width of the kernel.
    stride : int or tuple of int, default 1
        Stride of the rows and the columns.
    padding : int, optional
        Zeros on each side. The default is ``size // 2``, Darknet's ``pad=1``. With a dilation there are as many times
        more.
    groups : int, default 1
    batch_norm : bool, default True
        Batch norm. If False, a bias.
    activation : str, default 'leaky'
        One of ``gluonops.darknet.activations.ACTIVATIONS``. The slope of leaky is 0.1.
    epsilon : float, optional
        Batch norm divides by ``sqrt(variance + epsilon)``. pjreddie's Darknet does so on a GPU, and AlexeyAB's always,
        with 1e-5. By default it divides by ``sqrt(variance) + 1e-6``, as pjreddie's does on a CPU.
    dilation : int, default 1
        Distance of the pixels that neighbouring weights meet.
    blur : {0, 2, 3}, default 0
        Size of a blur that makes the steps of ``stride``; the convolution itself then makes none.
    outside : float, optional
        Convolve signs: the option ``xnor``. Pixels beyond the image count as this, -1 or 0.

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
        self._activates = True

    def remove_activation(self) -> None:
        """Leave the activation out from now on."""
        self._activates = False

    def file_parameters(self) -> list[mx.gluon.Parameter]:
        if self.norm is None:
            return [self.conv.bias, self.conv.weight]
        return [self.norm.beta, self.norm.gamma, self.norm.running_mean, self.norm.running_var, self.conv.weight]

    def hybrid_forward(self, F, data: Array) -> Array:
        activation = self.activation if self._activates else None
        for step in (self.conv, self.norm, activation, self.blur):
            data = data if step is None else step(data)
        return data


class Connected(Weighted):
    """Darknet's ``[connected]``: every number of the output is a weighted sum of all of the input.

    - ``units`` and ``in_units``: numbers of an image in the output, (B, units), and in the input, (B, ...).
    - ``batch_norm``: batch norm. If False, a bias.
    - ``epsilon``: see :class:`Convolution`.
    """

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
    """Darknet's ``[local]``: a convolution with other weights at every position.

    - ``channels`` and ``in_channels``: channels of the output and of the input.
    - ``size`` and ``stride``: height and width of the kernel; steps.
    - ``padding``: zeros on each side.
    - ``out_size``: (height, width) of the output.
    """

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


class WeightedShortcut(Weighted):
    """AlexeyAB's ``[shortcut]`` with ``weights_type``: the weighted sum of several outputs.

    - ``channels``: channels of every input; all have one height and width. If an input has fewer channels than the
      first, it is added to its first ones; the rest of one with more is not used.
    - ``per_channel``: one weight for each channel of each input. Otherwise one for each input.
    - ``normalization``: 'relu' or 'softmax'; what makes the sum of the weights 1.
    """

    def __init__(self, channels: Sequence[int], per_channel: bool = False, normalization: str = "relu",
                 activation: str = "linear", **kwargs):
        super().__init__(**kwargs)
        self._channels = channels
        self._normalization = normalization
        self._per_channel = per_channel
        shape = (len(channels), channels[0] if per_channel else 1)
        with self.name_scope():
            self.weight = self.params.get("weight", shape=shape, init="ones")
            self.activation = activation_block(activation)

    def file_parameters(self) -> list[mx.gluon.Parameter]:
        return [self.weight]

    def _normalized(self, F, weight: Array) -> Array:
        if self._normalization == "relu":
            positive = F.relu(weight)
        else:
            positive = F.exp(F.broadcast_sub(weight, F.max(weight, axis=0, keepdims=True)))
        return F.broadcast_div(positive, F.sum(positive, axis=0, keepdims=True) + NORMALIZATION_OFFSET)

    def hybrid_forward(self, F, *data: Array, weight: Array) -> Array:
        weight = self._normalized(F, weight)
        terms = []
        for i, (part, channels) in enumerate(zip(data, self._channels)):
            common = min(channels, self._channels[0])
            factor = F.reshape(F.slice_axis(weight, axis=0, begin=i, end=i + 1), shape=(1, -1, 1, 1))
            if self._per_channel:
                factor = F.slice_axis(factor, axis=1, begin=0, end=common)
            part = F.slice_axis(part, axis=1, begin=0, end=common)
            terms.append(F.broadcast_mul(part, factor))
        out = add_parts(F, terms[0], terms[1:], [min(count, self._channels[0]) for count in self._channels])
        return out if self.activation is None else self.activation(out)
