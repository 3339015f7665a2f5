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
#
# There are four implementations of an operator: the C++ kernel (``native``), the CUDA kernel (``cuda``), and the two of
# the reference: its forward pass with its own gradient (``reference``), and with MXNet's gradient of it (``builtin``).
# ``custom`` runs the C++ kernel by way of the code that ``reference`` and ``cuda`` use too. So this code is checked for
# VARIED alone, and what an operator brings along is checked for each operator. ``tests/mutants.py`` plants faults that
# these rows have to find.
DAILY = {
    "test_output_and_gradient": (
        # Every case with every implementation. The CUDA kernel runs as float32, which most users have. The reference
        # has its own gradient, where float64 finds a wrong constant. The builtin graph has the reference's forward
        # pass, where float16 finds a number that is too large. It runs after it was written as JSON.
        {"backend": ("cuda",), "dtype": ("float32",), "mode": ("hybridized",)},
        {"backend": ("reference",), "dtype": ("float64",), "mode": ("hybridized",)},
        {"backend": ("builtin",), "dtype": ("float16",), "mode": ("reloaded",)},
        # Every dtype of every case in the C++ kernels, whose vectors and short rows differ from type to type.
        {"backend": ("native",), "mode": ("imperative",)},
        # Every dtype in every backend.
        {"case": FIRST, "mode": ("imperative",)},
        # The attributes reach the kernels of the library from a graph and from a custom operator, too. How the library
        # reads them from a graph's strings is also checked with each operator's texts, in test_native_inference.py.
        {"operator": VARIED, "backend": ("native", "custom"), "dtype": ("float32",), "mode": ("hybridized",)},
        # Every mode in every backend.
        {"operator": VARIED, "case": FIRST, "dtype": ("float32",)},
    ),
    # The table is what is right beside the oracle, which every kernel is compared with in every case.
    "test_hand_computed": (
        {"backend": ("reference", "native")},
        {"operator": VARIED},
    ),
    # Every oracle is the derivative of its forward pass, and every backend is its oracle in float64, to 12 digits.
    "test_finite_differences_of_the_reference": (
        {"operator": VARIED},
    ),
    "test_requests": (
        # Every request for every kernel of our own. What adds has a kernel of its own for each dtype. For the others,
        # MXNet or the code of all custom operators adds or leaves alone.
        {"backend": ("native", "cuda", "custom"), "dtype": ("float32",)},
        {"backend": ("native", "cuda"), "request_": ("add",)},
        {"request_": ("write",), "dtype": ("float32",)},
        {"operator": VARIED},
    ),
    # Whether MXNet asks with arrays or with a bound graph, a kernel gets the requests of test_requests.
    "test_requests_of_arrays": (
        {"backend": ("native", "custom"), "mode": ("imperative",), "request_": ("add",)},
        {"operator": VARIED, "mode": ("imperative",)},
        {"operator": VARIED, "request_": ("add",)},
    ),
    # MXNet adds up what two nodes have written. A builtin graph has two copies of an operator's nodes.
    "test_input_used_twice": (
        {"backend": ("native", "builtin"), "mode": ("hybridized",)},
        {"operator": VARIED},
    ),
    # MXNet asks for the request that test_requests makes.
    "test_input_used_often": (
        {"backend": ("native",)},
        {"operator": VARIED},
    ),
    # A kernel reads as many elements at once as the dtype and the address allow. The others are MXNet's.
    "test_offset_view": (
        {"backend": ("native", "cuda")},
        {"operator": VARIED, "dtype": ("float32",)},
    ),
    # There is nothing to compute: no kernel runs, and neither does the reference.
    "test_empty_batch": (
        {"backend": ("native", "custom", "builtin"), "dtype": ("float32",)},
        {"operator": VARIED},
    ),
    # A new shape makes a new custom operator.
    "test_shapes_change_from_call_to_call": (
        {"backend": ("native", "builtin")},
        {"operator": VARIED},
    ),
    "test_module": (
        {"backend": ("native", "builtin")},
        {"operator": VARIED},
    ),
    # The contract refuses for all custom operators, the library reads what was generated from the contract.
    "test_refused_imperative": (
        {"backend": ("native", "custom", "builtin")},
        {"operator": VARIED},
    ),
    # One function reads the labels for all CUDA kernels but center_loss's, and another one for all references. The
    # kernels of each dtype of labels are compiled for it. Data of float16 and float64 beside labels of float32 show
    # that a kernel does not take the one for the other.
    "test_label_dtypes": (
        {"backend": ("native",)},
        {"backend": ("reference", "builtin", "custom"), "label_dtype": ("int32",)},
        {"operator": VARIED, "backend": ("reference", "native", "builtin")},
        {"operator": VARIED, "label_dtype": ("int32",)},
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
