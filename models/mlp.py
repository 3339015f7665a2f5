"""mlp: fully connected layers with ReLU, and a softmax.

``data`` (B, ...) is flattened. Each number in ``hidden`` is a fully connected layer with this number of units and ReLU.
A fully connected layer with ``classes`` units and a softmax follow. Source: the network of the NumpyOp tutorial
(128, 64, 10).
"""
from __future__ import annotations

import gluonops.nn
from gluonops.backends.layer import EitherModeBlock
from gluonops.contract.attributes import Int, IntOrTuple, parsed
from mxnet.gluon import nn

from .weights import network

OPTIONS = {"classes": Int(1), "hidden": IntOrTuple(1)}


class MLP(EitherModeBlock):
    """Fully connected layers with ReLU (``body``), and a softmax (``head``).

    Train the logits: ``SoftmaxCELoss()(net.body(x), y)``. For ``Module``, export the body with a loss head:
    ``gluonops.export.symbol(net.body, prefix, shape, head="softmax_output")``.

    Parameters
    ----------
    classes : int, default 10
        Number of probabilities, at least 1.
    hidden : int or tuple of int, default (128, 64)
        Units of the hidden layers, each at least 1. An empty tuple gives logistic regression.
    **kwargs
        ``prefix`` and ``params`` of ``gluon.HybridBlock``.

    Inputs:
        - **data**: (B, ...). The first call sets the number of elements per sample.

    Outputs:
        - **out**: probabilities, (B, classes).

    Raises
    ------
    OpError
        ``classes`` or a number in ``hidden`` is below 1.
    """

    def __init__(self, classes: int = 10, hidden: int | tuple[int, ...] = (128, 64), **kwargs):
        super().__init__(**kwargs)
        classes, hidden = parsed("models.mlp", OPTIONS, classes=classes, hidden=hidden).values()
        with self.name_scope():
            self.body = nn.HybridSequential()
            self.body.add(nn.Flatten())
            for units in hidden if isinstance(hidden, tuple) else (hidden,):
                self.body.add(nn.Dense(units, activation="relu"))
            self.body.add(nn.Dense(classes))
            self.head = gluonops.nn.Softmax()

    def hybrid_forward(self, F, data):
        return self.head(self.body(data))


mlp = network("mlp", MLP, "Train the network with examples/module_mlp.py")
