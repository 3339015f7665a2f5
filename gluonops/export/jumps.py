"""Numbers at which operators jump.

A remainder jumps at the multiples of its divisor, a rounding at the halves, a comparison and a sort where numbers are
equal. Numbers that are drawn from an interval are never there, so a wrong converter of such an operator looks right.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from .graph import Graph
from .operators import traits_of

WHOLE, NEAR = 8, 1   # Whole numbers and halves are up to the first, and many of them up to the second.


def has_jumps(graph: Graph) -> bool:
    """Whether a graph has an operator that jumps. Others need no further inputs to be compared with.

    What moves numbers, and what only has corners there, does not jump.
    """
    return any(traits_of(node).jumps for node in graph.nodes())


def halves(rng: np.random.RandomState, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Whole numbers and halves from -8 to 8, and both zeros; many of them are equal.

    They are exact in every type of floats, and no rounding error is in what is computed of them alone. So a difference
    between two programs at one of them is no rounding error either. Integers are whole numbers, and not negative if the
    type is not.

    Parameters
    ----------
    rng : numpy.random.RandomState
    shape : tuple of int
    dtype : numpy.dtype or str
        A type of floats or integers.

    Returns
    -------
    numpy.ndarray
        Of this shape and type.
    """
    dtype = np.dtype(dtype)
    whole = rng.randint(0 if dtype.kind == "u" else -WHOLE, WHOLE + 1, shape)
    if dtype.kind != "f":
        return whole.astype(dtype)
    near, far = (rng.randint(-2 * bound, 2 * bound + 1, shape) / 2 for bound in (NEAR, WHOLE))
    zeros = rng.choice([0.0, -0.0], shape)
    return np.choose(rng.choice(4, shape, p=(0.3, 0.3, 0.3, 0.1)), [whole, far, near, zeros]).astype(dtype)
