"""The loss ``gluonops.loss.CenterLoss``."""
from __future__ import annotations

import mxnet as mx
import numpy as np
from mxnet.gluon.loss import _apply_weighting

from ...core import labels
from ...core.accumulated import accumulated_gradient, with_auxiliary_losses
from ...core.attributes import Float, Int, parsed
from ...core.block import OpLoss
from ...core.emitter import Array
from .. import center_loss as _center_loss
from .contract import OP

OPTIONS = {"classes": Int(1), "features": Int(1), "alpha": Float(low=0)}


class CenterLoss(OpLoss, function=_center_loss):
    """Half the squared distance of the features to the centre of their class, with centres that are learned.

    Use it with a small ``weight``, added to a loss that separates the classes. Call :meth:`update` after every step. It
    moves the centres by the paper's rule. The loss of float16 data is float32.

    Parameters
    ----------
    classes, features : int
        Shape of the centres, each at least 1.
    alpha : float, default 0.5
        Learning rate of the centres, at least 0. The paper allows at most 1.
    weight : float, optional
        Factor of the loss (the paper's lambda, for example 0.003). It does not influence the centres.
    batch_axis : int, default 0
        0 for data of shape (batch, features), 1 for (features, batch).
    center_initializer : str or Initializer, default 'zeros'
        Initializer of the centres.

    Inputs:
        - **sample_weight**: optional, (batch,). It weights the loss, and not the update of the centres.

    Outputs:
        - **loss**: (batch,).

    Attributes
    ----------
    centers : Parameter
        (classes, features).
    counts : Parameter
        Number of samples that moved each centre, (classes,).
    """

    _learned = ("centers", "counts")

    def __init__(self, classes: int, features: int, alpha: float = 0.5, weight: float | None = None,
                 batch_axis: int = 0, center_initializer: str | mx.init.Initializer = "zeros", **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        parsed("CenterLoss", OPTIONS, locals())
        self._alpha = alpha
        self._dtype = "float32"
        self.centers = accumulated_gradient(self, "centers", shape=(classes, features), init=center_initializer)
        self.counts = accumulated_gradient(self, "counts", shape=(classes,), init="zeros")

    def cast(self, dtype: str) -> None:
        """Change the dtype of the centres and of the loss. float16 becomes float32."""
        self._dtype = "float32" if np.dtype(dtype) == np.float16 else dtype
        super().cast(self._dtype)

    def forward(self, data: Array, label: Array, *args: Array) -> Array:
        labels.check_call(self, OP, OP.parse({}), {"label": label, "centers": self.centers})
        return super().forward(data, label, *args)

    def hybrid_forward(self, F, data, label, sample_weight=None, centers=None, counts=None):
        if self._batch_axis:
            data = F.transpose(data)
        data = F.cast(data, dtype=self._dtype)
        loss = _center_loss(data, label, F.BlockGrad(centers))
        weights = None if sample_weight is None else F.reshape_like(sample_weight, loss)

        # The gradients of two auxiliary losses are the sum of differences, and the number of samples, of each class.
        centers_loss = _center_loss(F.BlockGrad(data), label, centers)
        valid = centers_loss == centers_loss   # an invalid label makes it NaN
        counts_loss = F.where(valid, F.take(counts, label, mode="clip"), F.zeros_like(centers_loss))

        loss = _apply_weighting(F, loss, self._weight, weights)
        return with_auxiliary_losses(F, loss, centers_loss, counts_loss)

    def update(self, trainer: mx.gluon.Trainer | None = None) -> None:
        """Move each centre by ``-alpha * sum(centre - x) / (1 + n)``.

        The sum is over the n samples x of the class since the last update, on all contexts.

        Parameters
        ----------
        trainer : gluon.Trainer, optional
            If its kvstore is distributed, the samples of all its workers count. Each worker must call this method.
        """
        displacement = self.centers.collect(trainer)
        samples = self.counts.collect(trainer)
        step = mx.nd.broadcast_div(displacement, samples.expand_dims(1) + 1)
        self.centers.add(step * -self._alpha)
        self.counts.add(samples)
