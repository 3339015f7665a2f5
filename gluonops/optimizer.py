"""``mx.optimizer.create("fusedsgd")``: an optimizer that older releases had, for scripts that name it."""
from __future__ import annotations

import warnings
from typing import Any

import mxnet as mx

__all__ = ["FusedSGD"]


@mx.optimizer.register
class FusedSGD(mx.optimizer.SGD):
    """MXNet's ``SGD``, with the same arguments, states and numbers.

    Older releases updated all parameters at once under this name, and computed the same numbers to the bit.

    Parameters
    ----------
    **options
        Of ``mx.optimizer.SGD``: ``learning_rate``, ``momentum``, ``wd``, ``clip_gradient``, ``lr_scheduler``, ...
    """

    def __init__(self, **options: Any):
        warnings.warn("gluonops: the optimizer fusedsgd is now MXNet's sgd, which computes the same numbers. Write "
                      "sgd.",
                      DeprecationWarning, stacklevel=2)
        super().__init__(**options)

    def __reduce__(self):
        return mx.optimizer.SGD, (), self.__dict__   # servers of a kvstore need not have gluonops
