"""darknet19: the classifier that is the backbone of YOLOv2. It has 19 convolutions with batch norm and leaky ReLU.

Outputs for ``data`` of shape (B, 3, H, W):

==================  =================================  =======================
stem                32, pool, 64, pool, 128 64 128,    (B, 256, H/8, W/8)
                    pool, 256 128 256
fine                pool, 512 256 512 256 512          (B, 512, H/16, W/16)
coarse              pool, 1024 512 1024 512 1024       (B, 1024, H/32, W/32)
output              1x1 convolution, mean over pixels  (B, classes)
==================  =================================  =======================

Numbers are channels of convolutions. A convolution that reduces the number of channels is 1x1, and the others are 3x3.
"pool" is a 2x2 max pooling with stride 2. H and W must be multiples of 32.

Sources: Redmon and Farhadi, "YOLO9000" (2016), table 6; pjreddie/darknet ``cfg/darknet19.cfg``.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import mxnet as mx
from gluonops.backends.emitter import Array
from gluonops.backends.layer import EitherModeBlock
from gluonops.contract.attributes import Attr, Int
from gluonops.darknet import Convolution, load_weights
from gluonops.darknet.detector import check_sides
from gluonops.darknet.net import preprocessing_for
from gluonops.darknet.weights import Header
from gluonops.data import base
from mxnet.gluon import HybridBlock, nn

from .weights import network

POOL = partial(nn.MaxPool2D, 2, 2)
STEM = (32, POOL, 64, POOL, 128, 64, 128, POOL, 256, 128, 256)
FINE = (POOL, 512, 256, 512, 256, 512)
COARSE = (POOL, 1024, 512, 1024, 512, 1024)


def stack(plan: Sequence[int | Callable[[], HybridBlock]], in_channels: int = 0, prefix: str | None = None,
          **options) -> nn.HybridSequential:
    """Make a sequence of layers.

    ``plan`` has, for each layer, the channels of a convolution, or a function that makes another layer. A convolution
    that reduces the number of channels is 1x1, and the others are 3x3. ``options`` are arguments of all convolutions.
    """
    block = nn.HybridSequential(prefix=prefix)
    with block.name_scope():
        for step in plan:
            if callable(step):
                block.add(step())
                continue
            kernel_size = 1 if step < in_channels else 3
            block.add(Convolution(step, kernel_size, in_channels, **options))
            in_channels = step
    return block


def class_names(where: str, classes: int | Sequence[str]) -> tuple[str, ...]:
    """Names of the classes.

    ``classes`` are the names, or their number. With a number, the names are "0", "1", ... An OpError is raised if the
    number is below 1, or two names are equal.
    """
    if isinstance(classes, (list, tuple)):
        return base.class_names(classes, where)
    count = Attr("classes", Int(1), None).parse(where, classes)
    return tuple(str(i) for i in range(count))


class DarknetModel(EitherModeBlock):
    """The base class of Darknet networks. It checks the image size, and loads Darknet's weights."""

    preprocessing = preprocessing_for()
    stride = 32   # pixels from one cell of the coarsest features to the next

    def load_darknet(self, path: str, ctx: mx.Context | list[mx.Context] | None = None) -> Header:
        """Load a Darknet ``.weights`` file of this network. See :func:`gluonops.darknet.load_weights`."""
        return load_weights(self, path, ctx)

    def forward(self, x: Array, *args: Array) -> Array | tuple:
        # Here, because hybrid_forward sees no shapes once the net is hybridized.
        check_sides(f"models.{type(self).__name__}", x, self.stride)
        return super().forward(x, *args)


class Darknet19Features(EitherModeBlock):
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
    """Darknet-19, the classifier.

    Darknet itself returns the softmax of the logits. The net is not initialized: call ``net.initialize()`` or
    ``net.load_darknet("darknet19.weights")``.

    Parameters
    ----------
    classes : int or sequence of str, default 1000
        Number of logits, or the names of the classes. An ONNX file of the net contains the names.
    **kwargs
        ``prefix`` and ``params`` of ``gluon.HybridBlock``.

    Inputs:
        - **data**: (B, 3, H, W), H and W multiples of 32, in RGB from 0 to 1.

    Outputs:
        - **out**: logits, (B, classes).

    Raises
    ------
    OpError
        ``classes`` is below 1, or names a class twice.
    """

    def __init__(self, classes: int | Sequence[str] = 1000, **kwargs):
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


darknet19 = network("darknet19", Darknet19, "Load Darknet's file with net.load_darknet('darknet19.weights'), or train "
                    "the network with examples/finetune_classifier.py")
