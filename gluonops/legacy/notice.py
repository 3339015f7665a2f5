"""A warning that is given once per process."""
from __future__ import annotations

import warnings

_given = set()


def once(name: str, instead: str, stacklevel: int) -> None:
    """Warn that ``name`` is an old interface, at the user's line, the first time it is used."""
    if name not in _given:
        _given.add(name)
        warnings.warn(f"gluonops.legacy.{name} is for code from before MXNet 1.0. For new code use {instead}.",
                      DeprecationWarning, stacklevel=stacklevel + 1)
