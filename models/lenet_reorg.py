"""lenet_reorg: a small convolutional network for digits. ``reorg`` replaces the first pooling.

Shapes for ``size=28``, batch B:

========================  =================
data                      (B, 1, 28, 28)
conv 5x5, 20, tanh        (B, 20, 24, 24)
reorg 2                   (B, 80, 12, 12)
conv 5x5, 20, tanh        (B, 20, 8, 8)
conv 5x5, 50, tanh        (B, 50, 4, 4)
fully connected 500, tanh (B, 500)
fully connected, classes  (B, classes)
========================  =================

The convolutions do not pad. So the image size must be even, because reorg halves it, and at least 22.

Sources: the tutorial on run-time kernels, whose reorg kernel has the CRD order (``mode="CRD"``); LeCun, Bottou, Bengio
and Haffner, "Gradient-based learning applied to document recognition" (1998).
"""
import gluonops.nn
from gluonops.backends.emitter import Array
from gluonops.backends.layer import EitherModeBlock
from gluonops.contract.attributes import Int, parsed
from gluonops.contract.errors import OpError
from mxnet.gluon import nn
from mxnet.ndarray import NDArray

from .weights import network

MIN_SIZE = 22
OPTIONS = {"classes": Int(1), "size": Int(1)}


class LeNetReorg(EitherModeBlock):
    """The network for digits of the tutorial on run-time kernels: LeNet with ``reorg`` instead of the first pooling.

    ``features`` ends with the layer of 500 units. ``output`` computes the logits. To fine-tune the net on other
    classes, replace ``output`` by a new ``Dense``.

    Parameters
    ----------
    classes : int, default 10
        Number of logits, at least 1.
    size : int, default 28
        Height and width of the input, even and at least 22.
    mode : {'darknet', 'DCR', 'CRD'}, default 'darknet'
        Order of the output channels of reorg. It makes no difference for a net that is trained from scratch. The
        tutorial's order is 'CRD'.
    **kwargs
        ``prefix`` and ``params`` of ``gluon.HybridBlock``.

    Inputs:
        - **data**: images, (B, channels, size, size). The first call sets the number of channels.

    Outputs:
        - **out**: logits, (B, classes).

    Raises
    ------
    OpError
        ``size`` is odd or below 22, ``classes`` is below 1, or ``mode`` is unknown.
    """

    def __init__(self, classes: int = 10, size: int = 28, mode: str = "darknet", **kwargs):
        super().__init__(**kwargs)
        classes, size = parsed("models.lenet_reorg", OPTIONS, classes=classes, size=size).values()
        if size < MIN_SIZE or size % 2:
            raise OpError("models.lenet_reorg", f"size is {size}; the first convolution leaves {size - 4} pixels a "
                          "side, which must be even, for reorg, and at least 18, for the convolutions after it",
                          f"Choose an even size of at least {MIN_SIZE}")
        self._size = size
        side = (self._size - 4) // 2 - 4 - 4   # each 5x5 convolution subtracts 4, and reorg halves
        with self.name_scope():
            self.features = nn.HybridSequential()
            self.features.add(nn.Conv2D(20, 5, activation="tanh"),
                              gluonops.nn.Reorg(2, mode),
                              nn.Conv2D(20, 5, in_channels=80, activation="tanh"),
                              nn.Conv2D(50, 5, in_channels=20, activation="tanh"),
                              nn.Dense(500, in_units=50 * side * side, activation="tanh"))
            self.output = nn.Dense(classes, in_units=500)

    def forward(self, x: Array, *args: Array) -> Array:
        # The check is here because a hybridized hybrid_forward does not see shapes.
        if isinstance(x, NDArray) and (x.ndim != 4 or x.shape[2:] != (self._size, self._size)):
            raise OpError("models.lenet_reorg", f"data has shape {x.shape}; expected (batch, channels, {self._size}, "
                          f"{self._size})", "Resize the images, or create the net with another size")
        return super().forward(x, *args)

    def hybrid_forward(self, F, data):
        return self.output(self.features(data))


lenet_reorg = network("lenet_reorg", LeNetReorg, "Train the network with examples/train_digits.py")
