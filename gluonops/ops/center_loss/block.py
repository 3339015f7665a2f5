"""The loss ``gluonops.loss.CenterLoss``."""
from __future__ import annotations

import zlib

import mxnet as mx
import numpy as np
from mxnet import autograd
from mxnet.gluon.loss import _apply_weighting

from ...backends import label_checks, numpy_mode
from ...backends.block import OpLoss
from ...backends.emitter import Array
from ...contract.attributes import Float, Int, parsed
from ...contract.errors import OpError
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
        parsed("CenterLoss", OPTIONS, classes=classes, features=features, alpha=alpha)
        self._alpha = alpha
        self._dtype = "float32"
        self.centers = accumulated_gradient(self, "centers", shape=(classes, features), init=center_initializer)
        self.counts = accumulated_gradient(self, "counts", shape=(classes,), init="zeros")

    def cast(self, dtype: str) -> None:
        """Change the dtype of the centres and of the loss. float16 becomes float32."""
        self._dtype = "float32" if np.dtype(dtype) == np.float16 else dtype
        super().cast(self._dtype)

    def forward(self, data: Array, label: Array, *args: Array) -> Array:
        label_checks.check_call(self, OP, OP.parse({}), {"label": label, "centers": self.centers})
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
        for auxiliary in (centers_loss, counts_loss):   # differentiated beside the loss, whatever its head gradient is
            loss = F.where(F.ones_like(loss), loss, F.make_loss(auxiliary))
        return loss

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


class AccumulatedGradient(mx.gluon.Parameter):
    """A parameter that is updated by a rule of its own, and not by an optimizer, from the sums that are its gradient.

    It is initialized, saved, loaded and moved between contexts like any other. Every ``backward()`` adds to its
    gradient, on every context and in every graph, hybridized or not, in training only. :meth:`collect` resets it, and
    :meth:`add` changes the value on every context alike. A Trainer sees ``grad_req`` "null", whatever was set.
    """

    @property
    def grad_req(self) -> str:
        return "null"

    @grad_req.setter
    def grad_req(self, request: str) -> None:
        self._grad_req = "null"

    def _init_grad(self) -> None:
        self._grad = [mx.nd.zeros(data.shape, data.context, data.dtype) for data in self._data]
        autograd.mark_variables(self._data, self._grad, "add")

    def cast(self, dtype: str | type) -> None:
        super().cast(dtype)
        if self._data is not None:
            self._init_grad()   # Parameter.cast has marked the arrays with "null"

    def collect(self, trainer: mx.gluon.Trainer | None = None) -> mx.nd.NDArray:
        """Return the accumulated gradient, summed over contexts and workers, and reset it to zero.

        If the kvstore of ``trainer`` is distributed, the gradient is summed over its workers, each of which has to call
        this method. The sum is on the first context. Raise an OpError if the servers of the kvstore run an optimizer,
        because they would apply it to the gradient.
        """
        grads = numpy_mode.to_legacy(self.list_grad())
        with autograd.pause():
            total = mx.nd.add_n(*(grad.as_in_context(grads[0].context) for grad in grads))
            self.zero_grad()
            if trainer is not None:
                _sum_over_workers(trainer, self.name, total)
        return total

    def add(self, change: mx.nd.NDArray) -> None:
        """Add the same array to the value on every context."""
        with autograd.pause():
            values = numpy_mode.to_legacy(self.list_data())   # they share the memory
            changed = values[0] + change
            for value in values:
                value[:] = changed


def accumulated_gradient(block: mx.gluon.Block, name: str, **options) -> AccumulatedGradient:
    """Return a block's :class:`AccumulatedGradient` of this name.

    A block that shares the parameters of another block gets the one of that block. Otherwise a new one is made with
    ``options``.
    """
    name = block.params.prefix + name
    parameter = block.params._get_impl(name)
    if parameter is None:
        parameter = AccumulatedGradient(name, **options)
        block.params.update({name: parameter})
    return parameter


def _sum_over_workers(trainer: mx.gluon.Trainer, name: str, total: mx.nd.NDArray) -> None:
    """Replace ``total`` by its sum over the workers of a distributed trainer."""
    if not trainer._kv_initialized:
        raise OpError("Trainer", "the trainer has not made a step yet, and only its first step opens the kvstore",
                      "Call trainer.step(batch_size) first")
    kvstore = trainer._kvstore
    if kvstore is None or "dist" not in kvstore.type:
        return
    if trainer._update_on_kvstore:
        raise OpError("Trainer", f"the servers of kvstore {kvstore.type!r} run the optimizer; expected servers that "
                      "only add up the gradients",
                      "Create it with kvstore='dist_sync', update_on_kvstore=False")
    # A kvstore's keys are all of one type. The trainer's keys are its parameters' positions: small numbers.
    key = zlib.crc32(name.encode()) % 2**30 + 2**30
    initialized = trainer.__dict__.setdefault("_gluonops_accumulated_keys", set())
    if key not in initialized:
        kvstore.init(key, mx.nd.zeros_like(total))
        initialized.add(key)
    kvstore.push(key, total)
    kvstore.pull(key, out=total)
