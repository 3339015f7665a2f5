"""Which combinations of the operators' checks run every day. ``--every-mode`` runs all of them instead.

A check of :class:`op_suite.OpSuite` takes values of some axes: cases, dtypes, requests, backends, modes. A check that
is not in :data:`DAILY` runs every combination of them.
"""
from __future__ import annotations

import itertools
from collections.abc import Iterator

FIRST = "the first case"   # It is small and typical.

# The rows of each check. A row names the values of some axes, and runs them with every value of the axes that it leaves
# out: ``{"dtype": ("float32",)}`` runs each case in each backend and mode as float32.
DAILY = {
    "test_output_and_gradient": (
        # Every case in every backend. Three backends have kernels of their own for float32, which most users have. The
        # other two compute with MXNet's operators: float64 finds a wrong constant, float16 a number that is too large.
        {"backend": ("custom", "native", "cuda"), "dtype": ("float32",), "mode": ("hybridized",)},
        {"backend": ("reference", "builtin"), "dtype": ("float16", "float64"), "mode": ("hybridized",)},
        # Every dtype of every case in the C++ kernels, whose vectors and short rows differ from type to type.
        {"backend": ("native",), "mode": ("imperative",)},
        # Every case as a graph that was written as JSON and read again.
        {"backend": ("builtin",), "dtype": ("float32",), "mode": ("reloaded",)},
        # Every dtype and every mode in every backend.
        {"case": FIRST, "mode": ("imperative",)},
        {"case": FIRST, "dtype": ("float32",)},
    ),
    # Every request with every dtype in every backend.
    "test_requests": ({},),
    "test_requests_of_arrays": (
        {"mode": ("imperative",)},
        {"request_": ("add",)},
    ),
    # region_loss has a second output.
    "test_parts": (
        {"dtype": ("float32",)},
        {"case": FIRST},
    ),
}


def combinations(check: str, axes: dict[str, tuple]) -> list[tuple]:
    """The combinations of the axes' values that a check runs for, each of them once.

    Parameters
    ----------
    check : str
        The test's name.
    axes : dict
        All values of each axis that the operator has, by the axis's name.

    Returns
    -------
    list of tuple
        A value of each axis, in the order of ``axes``.
    """
    places = dict.fromkeys(itertools.chain.from_iterable(_places(row, axes) for row in DAILY.get(check, ({},))))
    return [tuple(values[place] for values, place in zip(axes.values(), chosen)) for chosen in places]


def _places(row: dict, axes: dict[str, tuple]) -> Iterator[tuple[int, ...]]:
    """The combinations of a row, as places in the axes' values. Values that the operator lacks are left out."""
    def taken(axis: str, values: tuple) -> list[int]:
        if row.get(axis) == FIRST:
            return [0]
        return [place for place, value in enumerate(values) if axis not in row or value in row[axis]]

    return itertools.product(*(taken(axis, values) for axis, values in axes.items()))
