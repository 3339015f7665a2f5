"""How far numbers may be from MXNet's: several times what rounding changes."""
from __future__ import annotations

import numpy as np

# A difference is allowed up to this share of the largest number of an output, by its type, and up to so many times what
# rounding changes. Of types that are not named, numbers are equal.
LEAST = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-9}
MULTIPLE = 16
# An output that rounding changes by so much of its largest number jumps from one value to another.
JUMP = 1e-2
# A gradient is compared with this share of the largest gradient at least: it may be a difference of sums whose rounding
# no change of the inputs shows, as behind a batch norm whose head gradients are equal (7.9e-5 of its largest number).
LEAST_SCALE = 0.1
GRADIENT = "the gradient of "   # The name of a gradient begins so.
Arrays = list[np.ndarray]


class Look:
    """What MXNet and an export compute of the same inputs.

    Parameters
    ----------
    expected, computed : list of numpy.ndarray
        MXNet's numbers, and those of the export. Each pair has one shape.
    gradients : range, default none
        The positions of gradients, which share a scale: those of small ones may be rounding errors of the largest.
    least : float, default 0.0
        The share of the largest number that a difference of floats may be, if it is more than their type allows.

    Attributes
    ----------
    scales : list of float
        What differences are divided by: the largest number of each.
    """

    def __init__(self, expected: Arrays, computed: Arrays, gradients: range = range(0), least: float = 0.0):
        self.expected, self.computed, self._least = expected, computed, least
        self.scales = list(map(_largest, expected))
        smallest = LEAST_SCALE * max((self.scales[position] for position in gradients), default=0)
        for position in gradients:
            self.scales[position] = max(self.scales[position], smallest)
        self._differences = list(map(_difference, expected, computed, self.scales))
        self._changes = [0.0] * len(expected)

    def widen(self, others: Arrays) -> None:
        """Allow several times the distance to other numbers, which MXNet computes with other rounding errors."""
        for position, each in enumerate(zip(self.expected, others, self.scales)):
            self._changes[position] = max(self._changes[position], _relative(*each))

    def wrong(self) -> list[int]:
        """The positions of the differences that are too large, or not known because the output jumps."""
        return [position for position in range(len(self.expected))
                if not self.difference(position)[1] <= self.allowed(position) or self.jumps(position)]

    def jumps(self, position: int) -> bool:
        """Whether rounding moves an output from one value to another."""
        return self._changes[position] > (JUMP if self.expected[position].dtype.name in LEAST else 0)

    def allowed(self, position: int) -> float:
        """The largest difference that is allowed, as a share of the scale."""
        least = LEAST.get(self.expected[position].dtype.name, 0.0)   # Whole numbers are equal.
        return max(least, self._least if least else 0.0, MULTIPLE * self._changes[position])

    def difference(self, position: int) -> tuple[float, float]:
        """The largest difference, and the same divided by the scale."""
        return self._differences[position]


def differs(expected: np.ndarray, computed: np.ndarray, other: np.ndarray) -> bool:
    """Whether numbers differ by more than is allowed, where rounding makes the other ones of the expected."""
    if expected.shape != computed.shape:
        return True
    look = Look([expected], [computed])
    look.widen([other])
    return bool(look.wrong())


def distances(expected: np.ndarray, computed: np.ndarray) -> np.ndarray:
    """How far each number is from the expected one; infinitely far, where one of both is not finite alone."""
    expected, computed = (np.asarray(value, np.float64) for value in (expected, computed))
    is_same = (expected == computed) | (np.isnan(expected) & np.isnan(computed))
    with np.errstate(invalid="ignore"):
        apart = np.abs(computed - expected)
    return np.where(is_same, 0, np.where(np.isfinite(apart), apart, np.inf))


def _largest(value: np.ndarray) -> float:
    return float(np.abs(value[np.isfinite(value)]).max(initial=0))


def _difference(expected: np.ndarray, computed: np.ndarray, scale: float) -> tuple[float, float]:
    """Infinities and NaN have to be the same."""
    absolute = float(distances(expected, computed).max(initial=0))
    if not absolute:
        return 0.0, 0.0
    return absolute, absolute / scale if scale else np.inf


def _relative(expected: np.ndarray, computed: np.ndarray, scale: float) -> float:
    return _difference(expected, computed, scale)[1]
