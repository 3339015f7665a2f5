"""softmax_cross_entropy: of rows of classes."""
import types

import numpy as np

from ..cases import Row, Target
from .softmax import ROWS, SIZES

TYPICAL = ROWS
SMALL = [Row((9, 33))]
VARIANTS = [
    Row((2, 1031, 5), {"axis": 1}),
    Row((2, 21, 6), {"axis": 1}),   # columns
    Row((2, 5, 3), {"axis": 1}, {"label": (2, 1, 3)}),
    Row((9, 33), {"smoothing": 0.1}),
    Row((2, 5, 7), {"axis": 1, "ignore_label": 255, "smoothing": 0.25}),
    Row((9, 33), {"ignore_label": -1}),
    Row((9, 33), {"sparse_label": False}),
    Row((2, 5, 3), {"sparse_label": False, "axis": 1, "smoothing": 0.1}),
    Row((2, 33001), {"sparse_label": False, "smoothing": 0.2}),
    Row((2, 33001), {"smoothing": 0.1}),
    Row((6, 1000), {"ignore_label": 3}),
    Row((9, 5), {"class_weight": (0.5, 2.0, 0.0, 1.0, 0.25), "smoothing": 0.1}),
    Row((2, 5, 8200), {"axis": 1, "ignore_label": 3}),
]
LARGE = SIZES
TARGETS = [
    Target("both", "copy", 0.85),
    Target("forward", "torch", 1),
    Target("both", "torch", 1),
    Target("both", "liger", 1),
]
LIGER = True


def draw(attrs: types.SimpleNamespace, shapes: dict, rng: np.random.RandomState) -> dict[str, np.ndarray]:
    """A dense label is a distribution: a sum of many numbers of either sign says little."""
    if attrs.sparse_label:
        return {}
    weights = rng.rand(*shapes["label"])
    return {"label": weights / weights.sum(attrs.axis, keepdims=True)}


def independent(attrs: dict, ndim: int) -> bool:
    return attrs["axis"] % ndim != 0
