"""sigmoid_cross_entropy: torch.nn.functional.binary_cross_entropy_with_logits, without a reduction."""
import numpy as np

from .._sigmoid.oracle import counted, cross_entropy, draw_labels, sigmoid


def draw(attrs, shapes, rng):
    return {"label": draw_labels(attrs, shapes["label"], rng)}


def weight_of(attrs, data):
    shape = [1] * data.ndim
    shape[attrs.axis] = -1
    return np.reshape(1.0 if attrs.pos_weight is None else attrs.pos_weight, shape)


def forward(attrs, data, label):
    x, y, counts = counted(attrs, data, label)
    return {"output": np.where(counts, cross_entropy(x, y, weight_of(attrs, data)), 0)}


def backward(attrs, head, data, label):
    x, y, counts = counted(attrs, data, label)
    slope = (1 - y) * sigmoid(x) - weight_of(attrs, data) * y * sigmoid(-x)
    return {"data": np.where(counts, head * slope, 0)}
