"""Label checks that need the values: switched on with ``GLUONOPS_CHECK_LABELS=1``, because reading them waits.

Switched off, an operator answers a label it cannot use with NaN in that row; it never reads beyond the row.
"""
import os

import mxnet as mx
import numpy as np

SHOWN = 3


def checking():
    """Whether class labels are checked before each forward pass."""
    return os.environ.get("GLUONOPS_CHECK_LABELS", "0") not in ("", "0")


def check_call(op, attrs, arrays):
    """Where labels are checked, check those that a block is called with.

    A block does so because a hybridized net may be of MXNet's own operators, none of which would. Symbols pass.
    Arguments and errors are those of :func:`check`; of the tensor with the classes the shape is enough.
    """
    if checking() and not any(isinstance(array, mx.sym.Symbol) for array in arrays.values()):
        check(op, attrs, arrays)


def check(op, attrs, arrays):
    """Raise an OpError that names the first label which is not a class, or what else an input may not hold.

    Parameters
    ----------
    op : Op
    attrs : Attrs
    arrays : dict of str to NDArray
        The inputs by name.
    """
    for arg in op.inputs:
        wrong = arg.values and arg.values(attrs, arrays[arg.name].asnumpy())
        if wrong:
            raise op.error(*wrong)
        if arg.classes is None or not getattr(attrs, "sparse_label", True):
            continue
        classes = arrays[arg.classes].shape[getattr(attrs, "axis", 0)]
        label = arrays[arg.name].asnumpy()
        values = label.astype(np.float64)
        with np.errstate(invalid="ignore"):
            good = (values >= 0) & (values < classes) & (values == np.floor(values))
        if getattr(attrs, "ignore_label", None) is not None:
            good |= values == attrs.ignore_label
        if not good.all():
            wrong = np.argwhere(~good)
            position = ", ".join(str(i) for i in wrong[0])
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            skip = ", or name the value to skip with ignore_label" if hasattr(attrs, "ignore_label") else ""
            raise op.error(f"{arg.name}[{position}] is {label[tuple(wrong[0])]:g}{more}; expected a whole number from "
                           f"0 to {classes - 1}", f"Correct the labels{skip}")
