"""Darknet's layers as HybridBlocks. None of them reads a shape."""
from __future__ import annotations

from collections.abc import Sequence

from mxnet.gluon import HybridBlock, nn

from ..core.backend import Array
from ..core.errors import OpError
from ..ops import softmax

__all__ = ["ACTIVATIONS", "AvgPool", "BatchNorm", "Convolution", "Identity", "MaxPool", "Mish", "Route", "Shortcut",
           "Softmax", "Upsample"]

# Darknet keeps 0.99 of the running statistics in every step of training; MXNet's default is 0.9.
MOMENTUM = 0.99
SLOPE = 0.1
OFFSET = 1e-6


class Mish(HybridBlock):
    """``x * tanh(log(1 + exp(x)))``. Source: Misra, "Mish" (2019).

    Inputs:
        - **data**: any shape.

    Outputs:
        - **out**: the same shape.
    """

    def hybrid_forward(self, F, data: Array) -> Array:
        return data * F.tanh(F.Activation(data, act_type="softrelu"))


class Identity(HybridBlock):
    """A layer that acts in training only: its output is its input.

    Inputs:
        - **data**: any shape.

    Outputs:
        - **out**: `data`.
    """

    def hybrid_forward(self, F, data: Array) -> Array:
        return F.identity(data)


ACTIVATIONS = {
    "leaky": lambda: nn.LeakyReLU(SLOPE),
    "linear": Identity,
    "logistic": lambda: nn.Activation("sigmoid"),
    "mish": Mish,
    "relu": lambda: nn.Activation("relu"),
}


class BatchNorm(nn.BatchNorm):
    """Batch norm that divides by ``sqrt(variance) + 1e-6``, as Darknet does on a CPU.

    MXNet divides by ``sqrt(variance + epsilon)``, and no epsilon makes the two equal for every variance. So gamma is
    multiplied by the quotient of the two, which is 0.7 to 1. In training it is the quotient of the running variance.

    The difference adds up over the 22 layers of YOLOv2. The error of the last convolution, relative to its standard
    deviation, is 4e-4 with MXNet's usual epsilon of 1e-5, 9e-5 with 1e-12, and 2e-5 with the quotient, which is
    float32's own error. To shift the variance at loading would do as well, but then float32 could not give the file's
    bits back at saving.

    Inputs:
        - **data**: (B, C, H, W).

    Outputs:
        - **out**: the same shape.
    """

    def __init__(self, in_channels: int = 0, **kwargs):
        super().__init__(momentum=MOMENTUM, epsilon=OFFSET ** 2, in_channels=in_channels, **kwargs)

    def hybrid_forward(self, F, x: Array, gamma: Array, beta: Array, running_mean: Array, running_var: Array) -> Array:
        quotient = F.BlockGrad(F.sqrt(running_var + OFFSET ** 2) / (F.sqrt(running_var) + OFFSET))
        return super().hybrid_forward(F, x, gamma * quotient, beta, running_mean, running_var)


class Convolution(HybridBlock):
    """Darknet's ``[convolutional]``: convolution, batch norm or bias, activation.

    A weights file holds the parameters of these blocks, and of no others.

    Parameters
    ----------
    channels, in_channels : int
        Channels of the output and of the input. ``in_channels=0`` takes those of the first input.
    size : int, default 1
        Height and width of the kernel.
    stride : int, default 1
    padding : int, optional
        Zeros on each side. The default is ``size // 2``, Darknet's ``pad=1``.
    groups : int, default 1
    batch_norm : bool, default True
        Batch norm. If False, a bias.
    activation : {'leaky', 'linear', 'logistic', 'mish', 'relu'}, default 'leaky'
        The slope of leaky is 0.1.
    epsilon : float, optional
        Batch norm divides by ``sqrt(variance + epsilon)``. Darknet does so on a GPU, with 1e-5. By default it divides
        by ``sqrt(variance) + 1e-6``, as Darknet does on a CPU.

    Inputs:
        - **data**: (B, in_channels, H, W).

    Outputs:
        - **out**: (B, channels, (H + 2*padding - size) // stride + 1, likewise for W).
    """

    def __init__(self, channels: int, size: int = 1, in_channels: int = 0, stride: int = 1, padding: int | None = None,
                 groups: int = 1, batch_norm: bool = True, activation: str = "leaky", epsilon: float | None = None,
                 **kwargs):
        super().__init__(**kwargs)
        if padding is None:
            padding = size // 2
        with self.name_scope():
            self.conv = nn.Conv2D(channels, size, stride, padding, groups=groups, in_channels=in_channels,
                                  use_bias=not batch_norm)
            self.norm = None
            if batch_norm and epsilon is None:
                self.norm = BatchNorm(channels)
            elif batch_norm:
                self.norm = nn.BatchNorm(momentum=MOMENTUM, epsilon=epsilon, in_channels=channels)
            self.activation = None if activation == "linear" else ACTIVATIONS[activation]()

    def hybrid_forward(self, F, data: Array) -> Array:
        data = self.conv(data)
        if self.norm is not None:
            data = self.norm(data)
        return data if self.activation is None else self.activation(data)


class MaxPool(HybridBlock):
    """Darknet's ``[maxpool]``. The larger half of its padding lies on the right and below.

    Parameters
    ----------
    size : int, default 2
        Height and width of the window.
    stride : int, default 2
    padding : int, optional
        Rows and columns of padding, the sum of both sides. The default is ``size - 1``. Padding is never the maximum.
    any_size : bool, default False
        Also take images that are smaller than the window. With a stride of 2 this costs a copy of the data.

    Inputs:
        - **data**: (B, C, H, W).

    Outputs:
        - **out**: (B, C, (H + padding - size) // stride + 1, likewise for W). With the default size and stride that is
          half of the input, rounded up; with ``size=2, stride=1`` it is the size of the input.

    Raises
    ------
    OpError
        With this padding a window could lie outside the image.
    """

    def __init__(self, size: int = 2, stride: int = 2, padding: int | None = None, any_size: bool = False,
                 **kwargs):
        super().__init__(**kwargs)
        padding = size - 1 if padding is None else padding
        if not 0 <= padding <= 2 * size - 2:
            raise OpError("darknet.MaxPool", f"padding is {padding}; expected 0 to {2 * size - 2} for windows of "
                          f"{size}", "Choose a padding that leaves no window without a pixel")
        before, extra = divmod(padding, 2)
        pad = (before, before)
        convention = "valid"
        # MXNet pads both sides alike. An extra row and column on the right and below is made in one of three ways:
        # Stride 2: they only round the output's size up. MXNet rounds up only if the window fits once, hence any_size.
        # Stride 1: both sides get them, and the windows that start in them are cut off. oneDNN pools and cuts; MXNet's
        # own Pad in front would take ten times as long.
        # Otherwise: the data is padded with its last row and column, which are in every window that sees the copy.
        self._cut = bool(extra) and stride == 1
        self._pad_data = False
        if self._cut:
            pad = (before + 1, before + 1)
        elif extra and stride == 2 and not any_size:
            convention = "full"
        elif extra:
            self._pad_data = True
        self._kwargs = {"kernel": (size, size), "stride": (stride, stride), "pad": pad, "pool_type": "max",
                        "pooling_convention": convention}

    def hybrid_forward(self, F, data: Array) -> Array:
        if self._pad_data:
            data = F.pad(data, mode="edge", pad_width=(0, 0, 0, 0, 0, 1, 0, 1))
        data = F.Pooling(data, **self._kwargs)
        if self._cut:
            data = F.slice(data, begin=(None, None, 1, 1), end=(None, None, None, None))
        return data


class AvgPool(HybridBlock):
    """Darknet's ``[avgpool]``: the mean of every channel.

    Inputs:
        - **data**: (B, C, H, W).

    Outputs:
        - **out**: (B, C, 1, 1).
    """

    def hybrid_forward(self, F, data: Array) -> Array:
        return F.Pooling(data, kernel=(1, 1), global_pool=True, pool_type="avg")


class Route(HybridBlock):
    """Darknet's ``[route]``: concatenates outputs along the channels, or one of ``groups`` slices of each.

    Parameters
    ----------
    channels : sequence of int
        Channels of every input.
        Each is a multiple of ``groups``.
    groups : int, default 1
        Number of slices.
    group : int, default 0
        Number of the slice, from 0.

    Inputs:
        - ***data**: (B, C, H, W) each.

    Outputs:
        - **out**: (B, sum of C / groups, H, W).
    """

    def __init__(self, channels: Sequence[int], groups: int = 1, group: int = 0, **kwargs):
        super().__init__(**kwargs)
        self._bounds = None
        if groups > 1:
            self._bounds = [(group * count // groups, (group + 1) * count // groups) for count in channels]

    def hybrid_forward(self, F, *data: Array) -> Array:
        if self._bounds:
            data = [F.slice_axis(x, axis=1, begin=begin, end=end) for x, (begin, end) in zip(data, self._bounds)]
        return F.concat(*data, dim=1) if len(data) > 1 else F.identity(data[0])


class Shortcut(HybridBlock):
    """Darknet's ``[shortcut]``: ``activation(alpha * data + beta * earlier)``.

    Parameters
    ----------
    activation : {'leaky', 'linear', 'logistic', 'mish', 'relu'}, default 'linear'
    alpha, beta : float, default 1

    Inputs:
        - **data**, **earlier**: the same shape.

    Outputs:
        - **out**: that shape.
    """

    def __init__(self, activation: str = "linear", alpha: float = 1.0, beta: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self._alpha = alpha
        self._beta = beta
        with self.name_scope():
            self.activation = ACTIVATIONS[activation]()

    def hybrid_forward(self, F, data: Array, earlier: Array) -> Array:
        data = data if self._alpha == 1 else data * self._alpha
        earlier = earlier if self._beta == 1 else earlier * self._beta
        return self.activation(F.elemwise_add(data, earlier))


class Upsample(HybridBlock):
    """Darknet's ``[upsample]``: repeats each pixel ``stride`` x ``stride`` times and multiplies it by ``scale``.

    Parameters
    ----------
    stride : int, default 2
    scale : float, default 1

    Inputs:
        - **data**: (B, C, H, W).

    Outputs:
        - **out**: (B, C, H*stride, W*stride).
    """

    def __init__(self, stride: int = 2, scale: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self._stride = stride
        self._scale = scale

    def hybrid_forward(self, F, data: Array) -> Array:
        data = F.UpSampling(data, scale=self._stride, sample_type="nearest")
        return data if self._scale == 1 else data * self._scale


class Softmax(HybridBlock):
    """Darknet's ``[softmax]``: the numbers of an image in a row, in ``groups`` of one size, and the softmax of each.

    Parameters
    ----------
    groups : int, default 1
    temperature : float, default 1
        The input is divided by it.

    Inputs:
        - **data**: (B, ...).

    Outputs:
        - **out**: (B, N).
    """

    def __init__(self, groups: int = 1, temperature: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self._groups = groups
        self._temperature = temperature

    def hybrid_forward(self, F, data: Array) -> Array:
        rows = F.reshape(data, shape=(0, self._groups, -1))
        return F.Flatten(softmax(rows, axis=-1, temperature=self._temperature))
