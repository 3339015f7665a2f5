"""Numbers at which operators jump.

A remainder jumps at the multiples of its divisor, a rounding at the halves, a comparison and a sort where numbers are
equal. Numbers that are drawn from an interval are never there, so a wrong converter of such an operator looks right.
"""
from __future__ import annotations

from typing import Any

import numpy as np

# The next number below a half: a rounding that adds a half to it gives 1.
BELOW_HALF = {np.dtype(kind): float(np.nextafter(np.dtype(kind).type(0.5), np.dtype(kind).type(0)))
              for kind in ("float16", "float32", "float64")}
WHOLE = 8      # Whole numbers and halves are up to this.
TENTHS = 0.6   # Multiples of a number that no float is: the quotient of two such numbers is rounded.


def numbers_at_jumps(rng: np.random.RandomState, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Finite numbers at which operators jump, many of which are equal.

    A third are whole numbers, a third are halves, and the others are multiples of 0.6, both zeros, the neighbours of a
    half, and the bounds of 1 and 6 that activations have. Integers are whole numbers, and not negative if the type is
    not.

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
    below = BELOW_HALF[dtype]
    others = [0.0, -0.0, below, -below, 1.0, -1.0, 6.0, *(TENTHS * count for count in range(-WHOLE, WHOLE + 1))]
    kinds = [whole, rng.randint(-2 * WHOLE, 2 * WHOLE + 1, shape) / 2, rng.choice(others, shape)]
    return np.choose(rng.randint(0, len(kinds), shape), kinds).astype(dtype)
