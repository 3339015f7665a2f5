"""Warnings about old interfaces. Each is given once per process."""
from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

import mxnet as mx

_given = set()


def once(name: str, instead: str) -> None:
    """Warn that ``name`` is an old interface, at the line that calls our caller, the first time it is used."""
    _warn(name, f"gluonops.legacy.{name} is for code from before MXNet 1.0. For new code use {instead}.",
          DeprecationWarning, 4)


def install() -> None:
    """Let MXNet's own ``NumpyOp`` and ``NDArrayOp`` warn of their faults, and name the classes to derive from."""
    for name in ("NumpyOp", "NDArrayOp"):
        kind = getattr(mx.operator, name)
        if not hasattr(kind.__init__, "__wrapped__"):
            kind.__init__ = _warning(f"mx.operator.{name}", name, kind.__init__)


def _warning(old: str, name: str, init: Callable) -> Callable:
    @functools.wraps(init)
    def warned(self, *args, **kwargs):
        _warn(old, f"{old} does not work as it did before MXNet 1.0, and may end the process. Derive from "
              f"gluonops.legacy.{name}, and change nothing else: see docs/migrating.md.", UserWarning, 3)
        init(self, *args, **kwargs)

    return warned


def _warn(name: str, text: str, category: type[Warning], stacklevel: int) -> None:
    if name not in _given:
        _given.add(name)
        warnings.warn(text, category, stacklevel=stacklevel)
