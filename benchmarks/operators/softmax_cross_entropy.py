"""softmax_cross_entropy: of rows of classes, with class indices."""
import types

import numpy as np

from ..harness.cases import Row, Target, unless_along_first
from .softmax import AXIS_1, ROWS, SIZES, minus_one_hot

CPU = [Row((8192, 1000)), Row((256, 32000))]
COMMITS = [*AXIS_1, Row((1024, 1000), {"smoothing": 0.1}), Row((1024, 1000), dtype="float16")]
TARGETS = [
    Target("both", "copy", 0.4),
    Target("both", "torch", 2),
    Target("both", "SoftmaxOutput", 10),
    Target("both", "numpy", 20),
]

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
GPU = SIZES
GPU_TARGETS = [
    Target("both", "copy", 0.85),
    Target("forward", "torch", 1),
    Target("both", "torch", 1),
    Target("both", "liger", 1),
]
independent = unless_along_first
LIGER = True


def draw(attrs: types.SimpleNamespace, shapes: dict, rng: np.random.RandomState) -> dict[str, np.ndarray]:
    """A dense label is a distribution: a sum of many numbers of either sign says little."""
    if attrs.sparse_label:
        return {}
    weights = rng.rand(*shapes["label"])
    return {"label": weights / weights.sum(attrs.axis, keepdims=True)}


def in_torch(attrs, ndim):
    unusual = not attrs["sparse_label"] or attrs["smoothing"] or attrs["class_weight"]
    if unusual or attrs["ignore_label"] is not None or attrs["axis"] % ndim != 1:   # torch's classes are at axis 1
        return None
    return lambda torch, data, label: torch.nn.functional.cross_entropy(data, label, reduction="none")


def in_mxnet(attrs, shape):
    """What Module trains with; it puts out probabilities, so only its gradient is that of the loss."""
    return {"SoftmaxOutput": lambda F, data, label: F.SoftmaxOutput(data, label)}


def in_numpy(attrs):
    def forward(data, label):
        shifted = data - data.max(axis=-1, keepdims=True)
        return np.log(np.exp(shifted).sum(axis=-1)) - shifted[np.arange(len(label)), label.astype(int)]

    return forward, lambda head, data, label: minus_one_hot(data, label) * head[:, None]
