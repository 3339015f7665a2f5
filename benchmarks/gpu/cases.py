"""The cases: large ones to be timed, and small ones for every path of every kernel."""
from __future__ import annotations

from collections.abc import Iterable

from ..harness.cases import Case, on_gpu, small

__all__ = ["Case", "cases"]


def cases(quick: bool = False, ops: Iterable[str] | None = None) -> list[Case]:
    """Every case of every operator that has CUDA kernels.

    Parameters
    ----------
    quick : bool, default False
        Small cases with odd sizes, to find memory errors, not to measure speed.
    ops : iterable of str, optional
        Only these operators.
    """
    from gluonops.core import registry

    result = []
    for op, entry in registry.entries().items():
        if entry.op.cuda is not None and (ops is None or op in ops):
            result += small(op, entry.op.types) if quick else on_gpu(op)
    return result
