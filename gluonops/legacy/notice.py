"""Warnings about old interfaces. Each is given once per process."""
from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

import mxnet as mx

_warn = functools.cache(warnings.warn)   # a text is given once


def once(name: str, instead: str) -> None:
    """Warn that ``name`` is an old interface, at the line that calls our caller, the first time it is used."""
    _warn(f"gluonops.legacy.{name} is for code from before MXNet 1.0. For new code use {instead}.",
          DeprecationWarning, 3)


def install() -> None:
    """Let MXNet's own ``NumpyOp`` and ``NDArrayOp`` warn of their faults, and name the classes to derive from."""
    for name in ("NumpyOp", "NDArrayOp"):
        kind = getattr(mx.operator, name)
        if not hasattr(kind.__init__, "__wrapped__"):
            kind.__init__ = _warning(name, kind.__init__)


def _warning(name: str, init: Callable) -> Callable:
    @functools.wraps(init)
    def warned(self, *args, **kwargs):
        _warn(f"mx.operator.{name} does not work as it did before MXNet 1.0, and may end the process. Derive from "
              f"gluonops.legacy.{name}, and change nothing else: see docs/migrating.md.", UserWarning, 2)
        init(self, *args, **kwargs)

    return warned
