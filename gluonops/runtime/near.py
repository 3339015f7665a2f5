"""The name that a mistyped one is like. It uses nothing of gluonops, as all that the command imports at its start."""
from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["near"]


def near(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one; None if none is."""
    return next(iter(difflib.get_close_matches(name, list(known), 1)), None)
