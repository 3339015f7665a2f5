"""Checks of label values.

A block checks the labels of its first two calls, and then until it has seen a label 0: labels that start at 1 show in
the batch that has the last class only. ``GLUONOPS_CHECK_LABELS=1`` has them checked in every call, of operators
too, and 0 in none: reading the values waits until they are computed. Where they are not checked, a row with an invalid
label is NaN; an operator never reads beyond the row.
"""
from __future__ import annotations

import math
import os
from collections.abc import Sequence

import mxnet as mx
import numpy as np

from ..contract.declarations import Arg, ValidRows
from ..contract.expressions import expression, fill_in
from ..contract.op import Op

CHECKED_CALLS = 2   # A block checks its first calls: a mistake in all labels shows there.
MOST_CALLS = 1000   # The calls that are checked if no label is 0.


def checking() -> bool:
    """Return whether class labels are checked before each forward pass."""
    return _switch() not in ("", "0")


def _switch() -> str:
    return os.environ.get("GLUONOPS_CHECK_LABELS", "")


def check_call(block: mx.gluon.Block, op: Op, attrs: tuple, arrays: dict) -> None:
    """Check the labels that a block is called with, in its first calls or, as the user says, in all or none.

    A block checks labels because a hybridized net may consist of MXNet's own operators, which do not. Symbols are not
    checked. The arguments and the errors are those of :func:`check`.
    """
    if _switch() == "0" or any(isinstance(array, mx.sym.Symbol) for array in arrays.values()):
        return
    calls, lowest = block.__dict__.get("_checked_calls", (0, math.inf))
    if calls < (CHECKED_CALLS if lowest == 0 else MOST_CALLS) or checking():
        block.__dict__["_checked_calls"] = calls + 1, min(lowest, check(op, attrs, arrays))


def check(op: Op, attrs: tuple, arrays: dict[str, mx.nd.NDArray]) -> float:
    """Return the lowest class label, or 0 for an operator whose labels are rows.

    ``arrays`` has the inputs by name. Raise an OpError that names the first label out of range, or the first row that
    is not valid.
    """
    lowest = 0
    sizes = op.index_sizes(attrs, {name: array.shape for name, array in arrays.items()})
    for arg in op.inputs:
        if isinstance(arg.values, ValidRows):
            _check_rows(op, attrs, arg, arrays[arg.name].asnumpy())
        elif arg.name in sizes:
            lowest = _check_indices(op, attrs, arg, arrays[arg.name].asnumpy(), sizes[arg.name])
    return lowest


def _check_indices(op: Op, attrs: tuple, arg: Arg, label: np.ndarray, size: int) -> float:
    values = label.astype(np.float64)
    ignore = arg.values.ignore
    with np.errstate(invalid="ignore"):
        good = (values >= 0) & (values < size) & (values == np.floor(values))
        lowest = float(values.min(initial=math.inf, where=values >= 0))
    if ignore and getattr(attrs, ignore) is not None:
        good |= values == getattr(attrs, ignore)
    wrong = np.argwhere(~good)
    if not len(wrong):
        return lowest
    position = ", ".join(str(i) for i in wrong[0])
    begins_at_1 = values[~good].min() == size and lowest >= 1
    remedy = "Labels start at 0: subtract 1 from them" if begins_at_1 else "Correct the labels"
    skip = f", or name the value to skip with {ignore}" if ignore else ""
    raise op.error(f"{arg.name}[{position}] is {label[tuple(wrong[0])]:g}{_more(wrong)}; expected a whole number from "
                   f"0 to {size - 1}", remedy + skip)


def _check_rows(op: Op, attrs: tuple, arg: Arg, array: np.ndarray) -> None:
    rows = arg.values
    values = attrs._asdict()
    is_valid = expression(rows.valid)
    numbers = array.astype(np.float64)
    wrong = [index for index in np.ndindex(*array.shape[:-1]) if numbers[index].any()
             and not is_valid({**values, **dict(zip(rows.columns, numbers[index].tolist()))})]
    if not wrong:
        return
    first = wrong[0]
    position = ", ".join(str(i) for i in first)
    location = " of ".join(f"{axis} {i}" for axis, i in reversed(list(zip(rows.axes, first))))
    row = ", ".join(f"{number:g}" for number in numbers[first])
    raise op.error(f"{arg.name}[{position}], {location}, is ({row}){_more(wrong)}; expected "
                   f"{fill_in(rows.expected, values)}", rows.remedy)


def _more(wrong: Sequence) -> str:
    return f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
