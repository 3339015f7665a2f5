"""Makes a net for classification from any model with ``features``, of this package or of a model zoo.

``embed`` computes the model's features as vectors, with an optional dense layer behind them. ``output`` is a dense
layer:

========  =======================================
embed     (B, D)
output    (B, classes), logits
========  =======================================
"""
from __future__ import annotations

import os
from collections.abc import Sequence

import mxnet as mx
from gluonops.backends.layer import EitherModeBlock
from gluonops.contract.errors import OpError
from gluonops.darknet.net import preprocessing_for
from gluonops.io.optional import require
from gluonops.runtime.near import perhaps
from mxnet import gluon
from mxnet.gluon import nn
from mxnet.gluon.model_zoo import vision

from .darknet19 import darknet19
from .iresnet import iresnet
from .lenet_reorg import lenet_reorg
from .mlp import mlp
from .weights import BACKBONE_WIDTH, BackboneOwner
from .yolov2 import tiny_yolov2

WHERE = "models.classifier"


class Classifier(EitherModeBlock, BackboneOwner):
    """``output(embed(x))``. See :func:`gluonops.models.classifier`.

    Parameters
    ----------
    features : HybridBlock
        Takes images and returns maps or vectors.
    pool : bool
        Whether the features are maps, which are averaged.
    embedding : int
        Units of a dense layer between features and output. With 0 there is none.
    classes : sequence of str
        Names of the classes.

    Inputs:
        - **data**: (B, C, H, W).

    Outputs:
        - **out**: logits, (B, classes).
    """

    _backbone, _where = "features", WHERE

    def __init__(self, features: gluon.HybridBlock, pool: bool, embedding: int, classes: Sequence[str], **kwargs):
        super().__init__(**kwargs)
        self.classes = list(classes)
        with self.name_scope():
            self.embed = nn.HybridSequential()
            self.embed.add(features)
            if pool:
                self.embed.add(nn.GlobalAvgPool2D())
            self.embed.add(nn.Flatten())
            if embedding:
                self.embed.add(nn.Dense(embedding))
            self.output = nn.Dense(len(self.classes))

    @property
    def features(self) -> gluon.HybridBlock:
        """The model's own layers: the backbone."""
        return self.embed[0]

    def hybrid_forward(self, F, data):
        return self.output(self.embed(data))

    @staticmethod
    def darknet_tensors(path: str | os.PathLike, classes: int) -> dict[str, mx.nd.NDArray]:
        """The tensors of Darknet-19's ``.weights`` by the names of a Classifier's parameters.

        Darknet's 1x1 convolution before the mean is a dense layer after it.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        classes : int
            Number of classes of the file.
        """
        net = darknet19(classes)
        net.initialize()
        net.load_darknet(os.fspath(path))
        stages = {"embed.0.0": net.features.fine, "embed.0.1": net.features.coarse}
        tensors = {f"{stage}.{name}": parameter.data() for stage, block in stages.items()
                   for name, parameter in block._collect_params_with_prefix().items()}
        tensors["output.weight"] = net.output.conv.weight.data().reshape((classes, -1))
        tensors["output.bias"] = net.output.conv.bias.data()
        return tensors


def classifier(name: str, classes: Sequence[str], shape: tuple[int, int, int], embedding: int = 0) -> Classifier:
    """Make a classifier of images. It is initialized, and its shapes are known.

    Parameters
    ----------
    name : str
        ``mlp``, ``lenet_reorg``, ``iresnet``, ``darknet19``, ``tiny_yolov2`` for the backbone of this detector at half
        its width, or the name of a classifier in MXNet's or gluoncv's model zoo.
    classes : sequence of str
        Names of the classes.
    shape : tuple of int
        Shape of an image: (channels, height, width).
    embedding : int, default 0
        Units of a dense layer between features and output. With 0 there is none.

    Returns
    -------
    Classifier
        Its ``embed`` returns vectors, and its ``features`` are the layers of the model.

    Raises
    ------
    OpError
        There is no such classifier, or it does not take images of this shape.
    """
    features = _features(name, len(classes), shape)
    try:
        out = features(mx.sym.var("data")).infer_shape(data=(1, *shape))[1][0]
    except mx.MXNetError as error:
        channels, height, width = shape
        raise OpError(WHERE, f"{name} does not take images of {channels} channels, {height} x {width}",
                      "Choose another model, or larger images") from error
    net = Classifier(features, len(out) == 4, embedding, classes)
    net.preprocessing = preprocessing_for(shape[0])   # an exported net says how to prepare images
    net.initialize(mx.init.Xavier())
    net(mx.nd.zeros((1, *shape)))   # fixes every shape
    return net


def _features_of_darknet19(classes):
    features, net = nn.HybridSequential(), darknet19(classes)
    features.add(net.features.fine, net.features.coarse)
    return features


# The features of our models, from the number of classes and the shape of an image.
OURS = {
    "mlp": lambda classes, shape: mlp(classes=classes).body[:-1],
    "lenet_reorg": lambda classes, shape: lenet_reorg(classes=classes, size=shape[1]).features,
    "iresnet": lambda classes, shape: iresnet(),
    "darknet19": lambda classes, shape: _features_of_darknet19(classes),
    "tiny_yolov2": lambda classes, shape: tiny_yolov2(width=BACKBONE_WIDTH).backbone,
}


def _features(name, classes, shape):
    if name in OURS:
        return OURS[name](classes, shape)
    try:
        return vision.get_model(name, classes=classes).features
    except (ValueError, AttributeError):
        return _features_of_gluoncv(name, classes)


def _features_of_gluoncv(name, classes):
    zoo = require("gluoncv.model_zoo", WHERE)
    options = {"classes": classes, "pretrained": False}
    try:
        try:   # a detector would else download the weights of the classifier that it is made upon
            return zoo.get_model(name, pretrained_base=False, **options).features
        except (TypeError, KeyError, Warning) as error:   # a classifier raises one: it has no such option
            if "'classes'" in str(error):
                raise ValueError("its classes are fixed") from error
            return zoo.get_model(name, **options).features
    except (ValueError, AttributeError) as error:
        names = [*OURS, *zoo.get_model_list()]
        meant = "" if name in names else perhaps(name, names)
        raise OpError(WHERE, f"there is no classifier {name!r} with `features`",
                      meant or f"Choose {', '.join(OURS)}, resnet18_v1, mobilenet0.25, ...") from error
