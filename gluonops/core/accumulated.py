"""Parameters that a rule of their own updates, and not an optimizer.

Each ``backward()`` accumulates the sums that the rule needs as the parameter's gradient. Gradients reach every context
and every graph, hybridized or not; they add up over several batches; and they are computed in training only.
"""
from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import mxnet as mx
from mxnet import autograd

from .errors import OpError

if TYPE_CHECKING:
    from .emitter import Array


class AccumulatedGradient(mx.gluon.Parameter):
    """A parameter whose gradient accumulates until its block collects it.

    It is initialized, saved, loaded and moved between contexts like any other. Every ``backward()`` adds to its
    gradient until :meth:`collect` resets it; :meth:`add` changes the value on every context alike. A Trainer sees
    ``grad_req`` "null", whatever was set, so that no optimizer updates it.
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

        ``trainer``: if its kvstore is distributed, the gradient is summed over its workers; each of them has to call
        this. The sum is on the first context. An OpError if the servers of the trainer's kvstore run an optimizer and
        would apply it to the gradient.
        """
        grads = self.list_grad()
        with autograd.pause():
            total = mx.nd.add_n(*(grad.as_in_context(grads[0].context) for grad in grads))
            self.zero_grad()
            if trainer is not None:
                _sum_over_workers(trainer, self.name, total)
        return total

    def add(self, change: mx.nd.NDArray) -> None:
        """Add an array to the value, on every context the same."""
        with autograd.pause():
            value = self.list_data()[0] + change
            for data in self.list_data():
                data[:] = value


def accumulated_gradient(block: mx.gluon.Block, name: str, **options) -> AccumulatedGradient:
    """A block's :class:`AccumulatedGradient` of this name.

    A block that shares another block's parameters gets that block's; otherwise a new one is made with ``options``.
    """
    name = block.params.prefix + name
    parameter = block.params._get_impl(name)
    if parameter is None:
        parameter = AccumulatedGradient(name, **options)
        block.params.update({name: parameter})
    return parameter


def with_auxiliary_losses(F, output: Array, *losses: Array) -> Array:
    """``output``, whose ``backward()`` also differentiates the sum of every loss, whatever the head gradient is.

    The losses have the output's shape. Their values are not added to the output; only their gradients are computed.
    """
    for loss in losses:
        output = F.where(F.ones_like(output), output, F.make_loss(loss))
    return output


def _sum_over_workers(trainer: mx.gluon.Trainer, name: str, total: mx.nd.NDArray) -> None:
    """Replace ``total`` by its sum over the workers of a distributed trainer."""
    if not trainer._kv_initialized:
        raise OpError("Trainer", "it has not made a step yet; expected one, which opens its kvstore",
                      "Call trainer.step(batch_size) first")
    kvstore = trainer._kvstore
    if kvstore is None or "dist" not in kvstore.type:
        return
    if trainer._update_on_kvstore:
        raise OpError("Trainer", f"the servers of kvstore {kvstore.type!r} run the optimizer; expected them to add up",
                      "Create it with kvstore='dist_sync', update_on_kvstore=False")
    # A kvstore's keys are all of one type. The trainer's keys are its parameters' positions: small numbers.
    key = zlib.crc32(name.encode()) % 2**30 + 2**30
    initialized = trainer.__dict__.setdefault("_gluonops_accumulated_keys", set())
    if key not in initialized:
        kvstore.init(key, mx.nd.zeros_like(total))
        initialized.add(key)
    kvstore.push(key, total)
    kvstore.pull(key, out=total)
