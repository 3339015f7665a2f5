"""Gradients between backward and update: accumulation over batches, and clipping of their norm."""
from __future__ import annotations

from collections.abc import Iterable

from mxnet import gluon

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
