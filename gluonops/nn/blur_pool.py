"""The layer ``gluonops.nn.BlurPool``."""
import math

import numpy as np

from ..backends.layer import EitherModeBlock
from ..backends.printed import Printed
from ..contract.attributes import Int, parsed

OPTIONS = {"channels": Int(1), "filter_size": Int(2), "stride": Int(1)}


class BlurPool(Printed, EitherModeBlock):
    """Downsampling after a binomial filter, so that the result changes little if the input is shifted by a pixel.

    To use it, replace a max pooling of stride 2 by a max pooling of stride 1 and this layer, and a convolution of
    stride 2 by one of stride 1, its activation, and this layer. The border is reflected.

    Parameters
    ----------
    channels : int
        The channels of the input.
    filter_size : int, default 4
        Height and width of the filter, at least 2: the binomial coefficients, divided by their sum.
    stride : int, default 2
        The step between results.

    Inputs:
        - **data**: (batch, channels, height, width); height and width above ``filter_size / 2``.

    Outputs:
        - **out**: (batch, channels, ceil(height / stride), ceil(width / stride)).

    Raises
    ------
    OpError
        An argument is out of range.

    Source: Zhang, "Making Convolutional Networks Shift-Invariant Again" (2019), and its ``antialiased_cnns.BlurPool``.
    """

    def __init__(self, channels: int, filter_size: int = 4, stride: int = 2, **kwargs):
        super().__init__(**kwargs)
        self._options = parsed("BlurPool", OPTIONS, channels=channels, filter_size=filter_size, stride=stride)
        row = np.array([math.comb(filter_size - 1, i) for i in range(filter_size)]) / 2 ** (filter_size - 1)
        weight = np.broadcast_to(np.outer(row, row), (channels, 1, filter_size, filter_size))
        with self.name_scope():
            self.weight = self.params.get_constant("weight", weight.astype("float32"))

    def hybrid_forward(self, F, data, weight):
        channels, size, stride = self._options.values()
        before, after = (size - 1) // 2, size // 2
        padded = F.pad(data, mode="reflect", pad_width=(0, 0, 0, 0, before, after, before, after))
        return F.Convolution(padded, weight, kernel=(size, size), num_filter=channels, num_group=channels,
                             stride=(stride, stride), no_bias=True)
