"""What is measured: every row and every target. Nothing here measures."""
from collections.abc import Iterable
from typing import Optional

import gluonops as gops
import numpy as np
from gluonops.core import registry

from ..common import suites
from .declare import EXACT, ROUNDED, Case, Target, in_mxnet, in_numpy, ours

KINDS = ("case", "node", "sweep")


def cases(quick: bool = False, ops: Optional[Iterable[str]] = None) -> list[Case]:
    """Every row, kind by kind.

    Parameters
    ----------
    quick : bool, default False
        Small shapes, to check that everything runs, not to measure speed.
    ops : iterable of str, optional
        Only these operators.
    """
    result = []
    for op in gops.ops.list():
        if ops is not None and op not in ops:
            continue
        declared = suites.rows_of(__package__, op)
        result += derived(op, quick) if declared is None else declared.cases(quick)
    return sorted(result, key=lambda case: KINDS.index(case.kind))


def targets() -> list[Target]:
    """Every target."""
    modules = (suites.rows_of(__package__, op) for op in gops.ops.list())
    return [target for module in modules for target in getattr(module, "TARGETS", ())]


def derived(op: str, quick: bool) -> list[Case]:
    """The row of an operator that declares none: the first case of its suite, with a larger batch."""
    suite, size = suites.get(op), suites.enlarged(op, 1000 if quick else suites.ELEMENTS)
    contract, function = registry.get(op).op, getattr(gops.ops, op)
    shapes = tuple(size.shapes[arg.name] for arg in contract.inputs)
    sized = type(suite.cases[0])(suite.cases[0].id, shapes, size.attrs)
    attrs = {name: str(value) for name, value in size.attrs.items()}
    peers = (*ours(op, lambda *inputs: function(*inputs, **size.attrs)), *in_mxnet(op, shapes[0], **size.attrs),
             in_numpy(op, **attrs))

    def draw(rng: np.random.RandomState) -> list:
        return suite().draw(sized, "float32", rng)

    tolerance = EXACT if suite.exact else ROUNDED
    return [Case(op, op, shapes[0], peers, draw=draw, tolerance=tolerance)]
