"""Which combinations of the operators' checks run every day. ``--every-mode`` runs all of them instead.

A check of :class:`op_suite.OpSuite` takes values of some axes: cases, dtypes, requests, backends, modes. A check that
is not in :data:`DAILY` runs every combination of them.
"""
from __future__ import annotations

import itertools
from collections.abc import Iterator

FIRST = "the first case"   # It is small and typical.
# What the backends do in the same way for every operator is checked in every way with these. They differ in what the
# backends have to handle: class indices and hidden outputs, elements that only move, several gradients, and a loss head
# that ignores the head gradient.
VARIED = ("softmax_cross_entropy", "reorg", "rms_norm", "softmax_output")

# The rows of each check. A row names the values of some axes, and runs them with every value of the axes that it leaves
# out: ``{"dtype": ("float32",)}`` runs each case in each backend and mode as float32. A row that names operators is for
# those alone.
DAILY = {
    "test_output_and_gradient": (
        # Every case with every implementation. Two have kernels of their own for float32, which most users have. The
        # reference has its own gradient, where float64 finds a wrong constant. The builtin graph has the reference's
        # forward pass, where float16 finds a number that is too large; it also runs after it was written as JSON.
        {"backend": ("native", "cuda"), "dtype": ("float32",), "mode": ("hybridized",)},
        {"backend": ("reference",), "dtype": ("float64",), "mode": ("hybridized",)},
        {"backend": ("builtin",), "dtype": ("float16",), "mode": ("hybridized",)},
        # Every dtype of every case in the C++ kernels, whose vectors and short rows differ from type to type.
        {"backend": ("native",), "mode": ("imperative",)},
        {"backend": ("builtin",), "dtype": ("float32",), "mode": ("reloaded",)},
        # Every dtype in every backend.
        {"case": FIRST, "mode": ("imperative",)},
        # The attributes reach the kernels of the library from a custom operator, too.
        {"operator": VARIED, "backend": ("custom",), "dtype": ("float32",), "mode": ("hybridized",)},
        # Every mode in every backend.
        {"operator": VARIED, "case": FIRST, "dtype": ("float32",)},
    ),
    "test_requests": (
        # Every request in every backend. What adds has a kernel of its own for each dtype.
        {"dtype": ("float32",)},
        {"backend": ("native", "cuda"), "request_": ("add",)},
        {"operator": VARIED},
    ),
    "test_requests_of_arrays": (
        {"mode": ("imperative",), "request_": ("add",)},
        {"operator": VARIED, "mode": ("imperative",)},
        {"operator": VARIED, "request_": ("add",)},
    ),
    "test_input_used_twice": (
        {"mode": ("hybridized",)},
        {"operator": VARIED},
    ),
    # MXNet asks for the request that test_requests makes.
    "test_input_used_often": (
        {"backend": ("native",)},
        {"operator": VARIED},
    ),
    # A kernel reads as many elements at once as the dtype and the address allow. The others are MXNet's.
    "test_offset_view": (
        {"dtype": ("float32",)},
        {"backend": ("native", "cuda")},
    ),
    # There is nothing to compute: no kernel runs.
    "test_empty_batch": (
        {"dtype": ("float32",)},
        {"operator": VARIED},
    ),
    # The CUDA kernels of each dtype of labels are compiled for it, and load them with one function.
    "test_label_dtypes": (
        {"backend": ("reference", "native", "builtin")},
        {"backend": ("custom", "cuda"), "label_dtype": ("int32",)},
        {"operator": ("center_loss",)},
    ),
    # region_loss has a second output.
    "test_parts": (
        {"dtype": ("float32",)},
        {"case": FIRST},
    ),
}


def combinations(check: str, operator: str, axes: dict[str, tuple]) -> list[tuple]:
    """Return the combinations of the axes' values that a check runs for, each of them once.

    Parameters
    ----------
    check : str
        The test's name.
    operator : str
    axes : dict
        All values of each axis that the operator has, by the axis's name.

    Returns
    -------
    list of tuple
        A value of each axis, in the order of ``axes``.
    """
    rows = [row for row in DAILY.get(check, ({},)) if operator in row.get("operator", (operator,))]
    places = dict.fromkeys(itertools.chain.from_iterable(_places(row, axes) for row in rows))
    return [tuple(values[place] for values, place in zip(axes.values(), chosen)) for chosen in places]


def _places(row: dict, axes: dict[str, tuple]) -> Iterator[tuple[int, ...]]:
    """Return the combinations of a row, as places in the axes' values. Values that the operator lacks are left out."""
    def taken(axis: str, values: tuple) -> list[int]:
        if row.get(axis) == FIRST:
            return [0]
        return [place for place, value in enumerate(values) if axis not in row or value in row[axis]]

    return itertools.product(*(taken(axis, values) for axis, values in axes.items()))
