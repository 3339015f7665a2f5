"""Checks of label values. ``GLUONOPS_CHECK_LABELS=1`` switches them on; reading the values waits for the engine.

If they are off, a row with an invalid label is NaN; an operator never reads beyond the row.
"""
from __future__ import annotations

import os
from collections.abc import Sequence

import mxnet as mx
import numpy as np

from .contract import Arg, Op, Rows, expression, fill_in


def checking() -> bool:
    """Whether class labels are checked before each forward pass."""
    return os.environ.get("GLUONOPS_CHECK_LABELS", "0") not in ("", "0")


def check_call(op: Op, attrs: tuple, arrays: dict) -> None:
    """Check the labels that a block is called with, if label checks are on.

    A block checks labels because a hybridized net may consist of MXNet's own operators, which do not. Symbols are not
    checked. For arguments and errors see :func:`check`.
    """
    if not checking() or any(isinstance(array, mx.sym.Symbol) for array in arrays.values()):
        return
    check(op, attrs, arrays)


def check(op: Op, attrs: tuple, arrays: dict[str, mx.nd.NDArray]) -> None:
    """Raise an OpError that names the first label out of range, or the first row that is not valid.

    ``arrays``: the inputs by name.
    """
    sizes = op.index_sizes(attrs, {name: array.shape for name, array in arrays.items()})
    for arg in op.inputs:
        if isinstance(arg.values, Rows):
            _check_rows(op, attrs, arg, arrays[arg.name].asnumpy())
        elif arg.name in sizes:
            _check_indices(op, attrs, arg, arrays[arg.name].asnumpy(), sizes[arg.name])


def _check_indices(op: Op, attrs: tuple, arg: Arg, label: np.ndarray, size: int) -> None:
    values = label.astype(np.float64)
    ignore = arg.values.ignore
    with np.errstate(invalid="ignore"):
        good = (values >= 0) & (values < size) & (values == np.floor(values))
    if ignore and getattr(attrs, ignore) is not None:
        good |= values == getattr(attrs, ignore)
    wrong = np.argwhere(~good)
    if not len(wrong):
        return
    position = ", ".join(str(i) for i in wrong[0])
    skip = f", or name the value to skip with {ignore}" if ignore else ""
    raise op.error(f"{arg.name}[{position}] is {label[tuple(wrong[0])]:g}{_more(wrong)}; expected a whole number from "
                   f"0 to {size - 1}", f"Correct the labels{skip}")


def _check_rows(op: Op, attrs: tuple, arg: Arg, array: np.ndarray) -> None:
    rows = arg.values
    values = attrs._asdict()
    is_valid = expression(rows.valid)
    numbers = array.astype(np.float64)
    wrong = []
    for index in np.ndindex(*array.shape[:-1]):
        columns = dict(zip(rows.columns, numbers[index].tolist()))
        if numbers[index].any() and not is_valid({**values, **columns}):
            wrong.append(index)
    if not wrong:
        return
    first = wrong[0]
    position = ", ".join(str(i) for i in first)
    place = " of ".join(f"{axis} {i}" for axis, i in reversed(list(zip(rows.axes, first))))
    row = ", ".join(f"{number:g}" for number in numbers[first])
    raise op.error(f"{arg.name}[{position}], {place}, is ({row}){_more(wrong)}; expected "
                   f"{fill_in(rows.expected, values)}", rows.remedy)


def _more(wrong: Sequence) -> str:
    return f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
