"""The layer ``gluonops.nn.SqueezeExcite``."""
from mxnet.gluon import nn

from ..backends.layer import EitherModeBlock
from ..backends.printed import Printed
from ..contract.attributes import Int, parsed

OPTIONS = {"channels": Int(1), "reduction": Int(1)}


class SqueezeExcite(Printed, EitherModeBlock):
    """Multiply each channel by a weight from 0 to 1, which follows from the means of all channels.

    ``out = data * sigmoid(expand(relu(squeeze(mean(data)))))``, where squeeze and expand are dense layers with a bias,
    written as convolutions of 1 x 1.

    Parameters
    ----------
    channels : int
        The channels of the input.
    reduction : int, default 16
        The squeezed tensor has ``channels // reduction`` channels, and at least one.

    Inputs:
        - **data**: (batch, channels, height, width).

    Outputs:
        - **out**: the shape of `data`.

    Raises
    ------
    OpError
        An argument is below 1.

    Source: Hu et al., "Squeeze-and-Excitation Networks" (2018), equations 2 to 4.
    """

    def __init__(self, channels: int, reduction: int = 16, **kwargs):
        super().__init__(**kwargs)
        self._options = parsed("SqueezeExcite", OPTIONS, channels=channels, reduction=reduction)
        squeezed = max(1, channels // reduction)
        with self.name_scope():
            self.squeeze = nn.Conv2D(squeezed, 1, in_channels=channels, activation="relu")
            self.expand = nn.Conv2D(channels, 1, in_channels=squeezed, activation="sigmoid")

    def hybrid_forward(self, F, data):
        means = F.mean(data, axis=(2, 3), keepdims=True)
        return F.broadcast_mul(data, self.expand(self.squeeze(means)))
