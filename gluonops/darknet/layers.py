"""Darknet's layers as HybridBlocks. None of them reads a shape."""
from mxnet.gluon import HybridBlock, nn

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

    def hybrid_forward(self, F, data):
        return data * F.tanh(F.Activation(data, act_type="softrelu"))


class Identity(HybridBlock):
    """What a layer that acts in training only computes otherwise: its input.

    Inputs:
        - **data**: any shape.

    Outputs:
        - **out**: `data`.
    """

    def hybrid_forward(self, F, data):
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

    MXNet divides by ``sqrt(variance + epsilon)``, and no epsilon makes the two equal for every variance. Over the 22
    layers of YOLOv2 the difference adds up: with MXNet's usual 1e-5 the last convolution is off by 4e-4 of its standard
    deviation, with 1e-12, the limit for a variance of 0, by 9e-5, and with the quotient of the two in front of gamma by
    2e-5, where float32 ends. A variance shifted on loading would serve as well, but float32 cannot hold it and give the
    file's bits back on saving. In training the quotient, which is 0.7 to 1, is that of the running variance.

    Inputs:
        - **data**: (B, C, H, W).

    Outputs:
        - **out**: the same shape.
    """

    def __init__(self, in_channels=0, **kwargs):
        super().__init__(momentum=MOMENTUM, epsilon=OFFSET ** 2, in_channels=in_channels, **kwargs)

    def hybrid_forward(self, F, x, gamma, beta, running_mean, running_var):
        quotient = F.BlockGrad(F.sqrt(running_var + OFFSET ** 2) / (F.sqrt(running_var) + OFFSET))
        return super().hybrid_forward(F, x, gamma * quotient, beta, running_mean, running_var)


class Convolution(HybridBlock):
    """Darknet's ``[convolutional]``: convolution, batch norm or bias, activation.

    Its parameters are what a weights file holds of a layer: ``gluonops.darknet.load_weights`` and ``save_weights`` look
    for blocks of this class.

    Parameters
    ----------
    channels, in_channels : int
        Channels of the output and of the input; ``in_channels=0`` leaves the latter to the first run.
    size : int, default 1
        Height and width of the kernel.
    stride : int, default 1
    padding : int, optional
        Zeros on every side; by default ``size // 2``, which is Darknet's ``pad=1``.
    groups : int, default 1
    batch_norm : bool, default True
        Batch norm, instead of a bias.
    activation : {'leaky', 'linear', 'logistic', 'mish', 'relu'}, default 'leaky'
        The slope of leaky is 0.1.
    epsilon : float, optional
        Batch norm divides by ``sqrt(variance + epsilon)``; on a GPU Darknet does, with 1e-5. By default it divides by
        ``sqrt(variance) + 1e-6``, as Darknet does on a CPU.

    Inputs:
        - **data**: (B, in_channels, H, W).

    Outputs:
        - **out**: (B, channels, (H + 2*padding - size) // stride + 1, likewise for W).
    """

    def __init__(self, channels, size=1, in_channels=0, stride=1, padding=None, groups=1, batch_norm=True,
                 activation="leaky", epsilon=None, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.conv = nn.Conv2D(channels, size, stride, size // 2 if padding is None else padding, groups=groups,
                                  in_channels=in_channels, use_bias=not batch_norm)
            self.norm = None
            if batch_norm and epsilon is None:
                self.norm = BatchNorm(channels)
            elif batch_norm:
                self.norm = nn.BatchNorm(momentum=MOMENTUM, epsilon=epsilon, in_channels=channels)
            self.activation = None if activation == "linear" else ACTIVATIONS[activation]()

    def hybrid_forward(self, F, data):
        data = self.conv(data)
        if self.norm is not None:
            data = self.norm(data)
        return data if self.activation is None else self.activation(data)


class MaxPool(HybridBlock):
    """Darknet's ``[maxpool]``: the padding is the sum of both sides, and the larger part lies to the right and below.

    Parameters
    ----------
    size : int, default 2
        Height and width of the window.
    stride : int, default 2
    padding : int, optional
        Rows and columns outside the image, in all; by default ``size - 1``. They never win.
    any_size : bool, default False
        Take images that are smaller than the window as well. With a stride of 2 it costs a copy of the data.

    Inputs:
        - **data**: (B, C, H, W).

    Outputs:
        - **out**: (B, C, (H + padding - size) // stride + 1, likewise for W): for the usual size and stride of 2 half
          of the input, rounded up; for ``size=2, stride=1`` as large as the input.

    Raises
    ------
    OpError
        A window could lie outside the image altogether.
    """

    def __init__(self, size=2, stride=2, padding=None, any_size=False, **kwargs):
        super().__init__(**kwargs)
        padding = size - 1 if padding is None else padding
        if not 0 <= padding <= 2 * size - 2:
            raise OpError("darknet.MaxPool", f"padding is {padding}; expected 0 to {2 * size - 2} for windows of "
                          f"{size}", "Choose a padding that leaves no window without a pixel")
        before, self._extra = divmod(padding, 2)
        self._kwargs = {"kernel": (size, size), "stride": (stride, stride), "pad": (before, before),
                        "pool_type": "max", "pooling_convention": "valid"}
        # MXNet pads both sides alike. Behind a stride of 2 one more column on the right only rounds the size up. Behind
        # a stride of 1 both sides get it, and the windows that start in it are cut off: oneDNN pools and cuts, where
        # MXNet's own Pad beforehand takes ten times as long. Else it is a copy of the last column, which is in every
        # window that would see it.
        # MXNet rounds up only where the window fits at least once, hence any_size.
        if self._extra and stride == 2 and not any_size:
            self._kwargs["pooling_convention"], self._extra = "full", 0
        self._cut = bool(self._extra) and stride == 1
        if self._cut:
            self._kwargs["pad"] = (before + 1, before + 1)

    def hybrid_forward(self, F, data):
        if self._extra and not self._cut:
            data = F.pad(data, mode="edge", pad_width=(0, 0, 0, 0, 0, 1, 0, 1))
        data = F.Pooling(data, **self._kwargs)
        return F.slice(data, begin=(None, None, 1, 1), end=(None,) * 4) if self._cut else data


class AvgPool(HybridBlock):
    """Darknet's ``[avgpool]``: the mean of every channel.

    Inputs:
        - **data**: (B, C, H, W).

    Outputs:
        - **out**: (B, C, 1, 1).
    """

    def hybrid_forward(self, F, data):
        return F.Pooling(data, kernel=(1, 1), global_pool=True, pool_type="avg")


class Route(HybridBlock):
    """Darknet's ``[route]``: earlier outputs side by side, or the ``group``-th of ``groups`` slices of each.

    Parameters
    ----------
    channels : sequence of int
        Channels of every input.
    groups, group : int
        Each divides by ``groups``; slices count from 0.

    Inputs:
        - ***data**: (B, C, H, W) each.

    Outputs:
        - **out**: (B, sum of C / groups, H, W).
    """

    def __init__(self, channels, groups=1, group=0, **kwargs):
        super().__init__(**kwargs)
        self._cuts = [(group * c // groups, (group + 1) * c // groups) for c in channels] if groups > 1 else None

    def hybrid_forward(self, F, *data):
        if self._cuts:
            data = [F.slice_axis(x, axis=1, begin=begin, end=end) for x, (begin, end) in zip(data, self._cuts)]
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

    def __init__(self, activation="linear", alpha=1.0, beta=1.0, **kwargs):
        super().__init__(**kwargs)
        self._alpha, self._beta = alpha, beta
        with self.name_scope():
            self.activation = ACTIVATIONS[activation]()

    def hybrid_forward(self, F, data, earlier):
        data = data if self._alpha == 1 else data * self._alpha
        earlier = earlier if self._beta == 1 else earlier * self._beta
        return self.activation(F.elemwise_add(data, earlier))


class Upsample(HybridBlock):
    """Darknet's ``[upsample]``: every pixel ``stride`` x ``stride`` times, times ``scale``.

    Parameters
    ----------
    stride : int, default 2
    scale : float, default 1

    Inputs:
        - **data**: (B, C, H, W).

    Outputs:
        - **out**: (B, C, H*stride, W*stride).
    """

    def __init__(self, stride=2, scale=1.0, **kwargs):
        super().__init__(**kwargs)
        self._stride, self._scale = stride, scale

    def hybrid_forward(self, F, data):
        data = F.UpSampling(data, scale=self._stride, sample_type="nearest")
        return data if self._scale == 1 else data * self._scale


class Softmax(HybridBlock):
    """Darknet's ``[softmax]``: all of an image's numbers in a row, cut into ``groups``, each made probabilities.

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

    def __init__(self, groups=1, temperature=1.0, **kwargs):
        super().__init__(**kwargs)
        self._groups, self._temperature = groups, temperature

    def hybrid_forward(self, F, data):
        rows = F.reshape(data, shape=(0, self._groups, -1))
        return F.Flatten(softmax(rows, axis=-1, temperature=self._temperature))
