"""darknet19: the classifier under YOLOv2. Nineteen convolutions, batch norm, leaky ReLU, five poolings.

Outputs for ``data`` (B, 3, H, W), in sizes of the input:

==================  =================================  =======================
stem                32, pool, 64, pool, 128 64 128,    (B, 256, H/8, W/8)
                    pool, 256 128 256
fine                pool, 512 256 512 256 512          (B, 512, H/16, W/16)
coarse              pool, 1024 512 1024 512 1024       (B, 1024, H/32, W/32)
output              1x1 convolution, mean over pixels  (B, classes)
==================  =================================  =======================

Numbers are channels; convolutions are 3x3, every second one of a run 1x1. Any H and W that are multiples of 32.

Sources: Redmon and Farhadi, "YOLO9000" (2016), table 6; pjreddie/darknet ``cfg/darknet19.cfg``.
"""
from __future__ import annotations

from collections.abc import Sequence

from gluonops.core.errors import OpError
from gluonops.darknet import Convolution, load_weights
from gluonops.darknet.net import PREPROCESSING
from mxnet.gluon import HybridBlock, nn
from mxnet.ndarray import NDArray

from .classes import class_names

__all__ = ["Darknet19", "Darknet19Features", "DarknetModel", "darknet19", "stack"]

POOL = "pool"
STEM = (32, POOL, 64, POOL, 128, 64, 128, POOL, 256, 128, 256)
FINE = (POOL, 512, 256, 512, 256, 512)
COARSE = (POOL, 1024, 512, 1024, 512, 1024)
STRIDE = 32


def stack(plan: Sequence[int | str], in_channels: int, prefix: str) -> nn.HybridSequential:
    """Convolution units and poolings in a row.

    Parameters
    ----------
    plan : sequence of int or str
        Channels of a convolution, or ``"pool"``. A convolution that reduces the number of channels is 1x1, the others
        are 3x3.
    in_channels : int
        Channels of the input.
    prefix : str
        Of the block's name.

    Returns
    -------
    HybridSequential
    """
    block = nn.HybridSequential(prefix=prefix)
    with block.name_scope():
        for step in plan:
            if step == POOL:
                block.add(nn.MaxPool2D(2, 2))
            else:
                block.add(Convolution(step, 1 if step < in_channels else 3, in_channels))
                in_channels = step
    return block


class DarknetModel(HybridBlock):
    """What our Darknet networks share: sizes are checked, and Darknet's weights load."""

    preprocessing = PREPROCESSING
    stride = STRIDE

    def load_darknet(self, path, ctx=None):
        """Load a Darknet ``.weights`` file of this network. See :func:`gluonops.darknet.load_weights`."""
        return load_weights(self, path, ctx)

    def forward(self, x, *args):
        # Here, because hybrid_forward sees no shapes once the net is hybridized.
        if isinstance(x, NDArray) and (x.ndim != 4 or any(side % self.stride for side in x.shape[2:])):
            raise OpError(f"models.{type(self).__name__}", f"data has shape {x.shape}; expected (batch, 3, height, "
                          f"width) with height and width that are multiples of {self.stride}",
                          "Resize the images, for instance with gluonops.data.letterbox")
        return super().forward(x, *args)


class Darknet19Features(HybridBlock):
    """Darknet-19 without its classifier: the backbone of YOLOv2.

    ``gluonops.darknet.load_weights(features, "darknet19_448.conv.23")`` loads the published pretrained layers.

    Inputs:
        - **data**: (B, 3, H, W), H and W multiples of 32.

    Outputs:
        - **fine**: (B, 512, H/16, W/16).
        - **coarse**: (B, 1024, H/32, W/32).
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.fine = stack(STEM + FINE, 3, "fine_")
            self.coarse = stack(COARSE, FINE[-1], "coarse_")

    def hybrid_forward(self, F, data):
        fine = self.fine(data)
        return fine, self.coarse(fine)


class Darknet19(DarknetModel):
    """Darknet-19, the classifier. See :func:`gluonops.models.darknet19`.

    Parameters
    ----------
    classes : int or sequence of str, default 1000
        Number of logits, or the names of the classes, which an ONNX file then carries. The net's ``classes`` are names.

    Inputs:
        - **data**: (B, 3, H, W), H and W multiples of 32, in RGB from 0 to 1.

    Outputs:
        - **out**: logits, (B, classes).
    """

    def __init__(self, classes=1000, **kwargs):
        super().__init__(**kwargs)
        self.classes = class_names("models.darknet19", classes)
        with self.name_scope():
            self.features = Darknet19Features(prefix="features_")
            self.output = Convolution(len(self.classes), 1, COARSE[-1], batch_norm=False, activation="linear",
                                      prefix="output_")
            self.pool = nn.GlobalAvgPool2D()
            self.flatten = nn.Flatten()

    def hybrid_forward(self, F, data):
        _, coarse = self.features(data)
        return self.flatten(self.pool(self.output(coarse)))


def darknet19(classes: int | Sequence[str] = 1000, **kwargs) -> Darknet19:
    """Darknet-19, the classifier.

    Parameters
    ----------
    classes : int or sequence of str, default 1000
        Number of logits, or the names of the classes, which an ONNX file then carries. The net's ``classes`` are names.
    **kwargs
        ``prefix`` and ``params`` of ``gluon.HybridBlock``.

    Returns
    -------
    Darknet19
        Takes (B, 3, H, W), RGB from 0 to 1, sides multiples of 32; returns logits (B, classes), where Darknet returns
        their softmax. Not initialized: ``net.initialize()``, or ``net.load_darknet("darknet19.weights")``.

    Raises
    ------
    OpError
        ``classes`` is below 1, or names a class twice.
    """
    return Darknet19(classes, **kwargs)
