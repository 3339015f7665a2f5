"""The loss ``gluonops.loss.CenterLoss``."""
from __future__ import annotations

import mxnet as mx
import numpy as np
from mxnet.gluon.loss import Loss, _apply_weighting

from ...core import labels
from ...core.accumulated import accumulated_gradient, with_auxiliary_losses
from ...core.contract import Attr, Float, Int
from ...core.text import call_text
from .. import center_loss as _center_loss
from .contract import OP

CHECKED = (Attr("classes", Int(1), None, ""), Attr("features", Int(1), None, ""), Attr("alpha", Float(low=0), None, ""))


class CenterLoss(Loss):
    """Draws the features of a class together; goes, with a small `weight`, with a loss that keeps classes apart.

    Call :meth:`update` after every step. See :func:`gluonops.ops.center_loss`; the paper's rule is in :meth:`update`.

    Parameters
    ----------
    classes, features : int
        The shape of the centres.
    alpha : float, default 0.5
        How far a centre moves, from 0 (not at all); the paper's range ends at 1.
    weight : float, optional
        Multiplies the loss (the paper's lambda, 0.003 there). The centres move alike under any.
    batch_axis : int, default 0
        1 takes data of (features, batch).
    center_initializer : str or Initializer, default 'zeros'

    Inputs: **data**, (batch, features); **label**, class indices, (batch,); **sample_weight**, optional, one number per
    sample, weights the loss alone. Outputs: **loss**, (batch,), in float32 where data is float16.
    """

    def __init__(self, classes, features, alpha=0.5, weight=None, batch_axis=0, center_initializer="zeros", **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        shape, self._alpha = (classes, features), alpha
        for attr, value in zip(CHECKED, (classes, features, alpha)):
            attr.parse("CenterLoss", value)
        self.centers = accumulated_gradient(self, "centers", shape=shape, init=center_initializer)
        # The number of samples that moved each centre.
        self.counts = accumulated_gradient(self, "counts", shape=(classes,), init="zeros")
        self._dtype = "float32"

    def cast(self, dtype):
        self._dtype = "float32" if np.dtype(dtype) == np.float16 else dtype
        super().cast(self._dtype)

    def forward(self, data, label, *args):
        labels.check_call(OP, OP.parse({}), {"label": label, "centers": self.centers})
        return super().forward(data, label, *args)

    def __repr__(self):
        classes, features = self.centers.shape
        return call_text(self, {"classes": classes, "features": features, "alpha": self._alpha, "weight": self._weight,
                                "batch_axis": self._batch_axis, "center_initializer": self.centers.init})

    def hybrid_forward(self, F, data, label, sample_weight=None, centers=None, counts=None):
        data = F.cast(F.transpose(data) if self._batch_axis else data, dtype=self._dtype)
        loss = _center_loss(data, label, F.BlockGrad(centers))
        weights = None if sample_weight is None else F.reshape_like(sample_weight, loss)
        centers_loss = _center_loss(F.BlockGrad(data), label, centers)
        is_class = centers_loss == centers_loss   # NaN marks a label that is no class
        counts_loss = F.where(is_class, F.take(counts, label, mode="clip"), F.zeros_like(centers_loss))
        loss = _apply_weighting(F, loss, self._weight, weights)
        return with_auxiliary_losses(F, loss, centers_loss, counts_loss)

    def update(self, trainer: mx.gluon.Trainer | None = None) -> None:
        """Move each centre by ``-alpha * sum(centre - x) / (1 + n)`` over its n samples x since the last update, those
        of all contexts; and of all workers of `trainer`, where that is a distributed one."""
        displacement, samples = self.centers.collect(trainer), self.counts.collect(trainer)
        self.centers.add(mx.nd.broadcast_div(displacement, samples.expand_dims(1) + 1) * -self._alpha)
        self.counts.add(samples)
