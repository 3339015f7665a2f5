"""What is measured: every row and every target. Nothing here measures."""
import dataclasses
from collections.abc import Iterable
from typing import Optional

import gluonops as gops
import numpy as np
from gluonops.bench.cases import typical as typical_case

from ..common import suites
from .declare import EXACT, KINDS, ROUNDED, Case, Target, in_mxnet, in_numpy, ours


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
    """The row of an operator that declares none: of a typical size, or the first case of its suite if ``quick``."""
    suite = suites.get(op)
    case = suite.cases[0]
    if not quick:
        typical = typical_case(op)
        case = dataclasses.replace(case, shapes=tuple(typical.shapes.values()), attrs=typical.attrs)

    function = getattr(gops.ops, op)
    mine = ours(op, lambda *inputs: function(*inputs, **case.attrs))
    in_oracle = in_numpy(op, **{name: str(value) for name, value in case.attrs.items()})
    peers = (*mine, *in_mxnet(op, case.shapes[0], **case.attrs), in_oracle)

    def draw(rng: np.random.RandomState) -> list:
        return suite().draw(case, "float32", rng)

    tolerance = EXACT if suite.exact else ROUNDED
    return [Case(op, op, case.shapes[0], peers, draw=draw, tolerance=tolerance)]
