"""Gradients between backward and update: accumulation over batches, clipping of their norm, and the update."""
from __future__ import annotations

from collections.abc import Iterable

from mxnet import gluon

from ..core.errors import OpError
from .devices import Workers
from .precision import MixedPrecision

__all__ = ["accumulate_gradients", "clip_gradients", "zero_gradients"]


def accumulate_gradients(parameters: Iterable[gluon.Parameter]) -> None:
    """Let each backward pass add to the gradients, instead of replacing them. Frozen parameters stay frozen."""
    for parameter in parameters:
        if parameter.grad_req == "write":
            parameter.grad_req = "add"


def zero_gradients(parameters: Iterable[gluon.Parameter]) -> None:
    """Set the gradients to zero, after an update with accumulated gradients."""
    for parameter in parameters:
        parameter.zero_grad()


def clip_gradients(parameters: Iterable[gluon.Parameter], largest_norm: float) -> None:
    """Scale all gradients down together, if their global norm is larger than ``largest_norm``.

    The global norm is the norm of the vector of all gradients. Nothing waits for the result. On several devices the
    gradients have to be summed over the devices already.

    Parameters
    ----------
    parameters : iterable of gluon.Parameter
        Those with a gradient are used.
    largest_norm : float
        Above 0.
    """
    trained = [parameter for parameter in parameters if parameter.grad_req != "null"]
    for gradients in zip(*(parameter.list_grad() for parameter in trained)):   # per device
        gluon.utils.clip_global_norm(list(gradients), largest_norm, check_isfinite=False)


class Updates:
    """The updates of a run, whose arguments these are. ``waiting``: images whose gradients are not used yet."""

    def __init__(self, trainer: gluon.Trainer, workers: Workers, batch_size: int, accumulate: int, clip: float,
                 precision: MixedPrecision):
        if clip and workers.update_on_servers:
            raise OpError("train.Run", "clip needs the sum of all gradients, which dist_async never has",
                          "Leave clip out, or choose dist_sync")
        if accumulate > 1:
            accumulate_gradients(trainer._params)
        self.trainer, self.workers, self.precision = trainer, workers, precision
        self.batch_size, self.accumulate, self.clip, self.waiting = batch_size, accumulate, clip, 0

    def make(self) -> None:
        """Update the parameters."""
        if self.workers.update_on_servers:
            # A server updates for one worker at a time, and keeps the first divisor that it is told.
            self.trainer.step(self.batch_size * self.accumulate)
        elif self.clip:
            self.trainer.allreduce_grads()
            clip_gradients(self.trainer._params, self.clip * self.waiting * self.precision.loss_scale)
            self.trainer.update(self.waiting)
        else:
            self.trainer.step(self.waiting)
        self.waiting = 0
        if self.accumulate > 1:
            zero_gradients(self.trainer._params)
