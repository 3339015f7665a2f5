"""sigmoid_focal_loss: Lin et al. (2017), equation 5, as torchvision.ops.sigmoid_focal_loss writes it."""
import numpy as np

from .._sigmoid.oracle import counted, cross_entropy, draw_labels, sigmoid


def draw(attrs, shapes, rng):
    return {"label": draw_labels(attrs, shapes["label"], rng)}


def terms(attrs, data, label):
    x, y, counts = counted(attrs, data, label)
    alpha = attrs.alpha * y + (1 - attrs.alpha) * (1 - y) if attrs.alpha >= 0 else 1
    return x, y, counts, alpha, y * sigmoid(-x) + (1 - y) * sigmoid(x)


def forward(attrs, data, label):
    x, y, counts, alpha, error = terms(attrs, data, label)
    return {"output": np.where(counts, alpha * error ** attrs.gamma * cross_entropy(x, y), 0)}


def backward(attrs, head, data, label):
    """The product rule; the derivative of the error is (1 - 2 y) p (1 - p)."""
    x, y, counts, alpha, error = terms(attrs, data, label)
    p, q = sigmoid(x), sigmoid(-x)
    power = np.where(error > 0, error, 1) ** (attrs.gamma - 1) * (error > 0)
    by_error = attrs.gamma * power * cross_entropy(x, y)
    slope = error ** attrs.gamma * (p * (1 - y) - q * y) + by_error * (1 - 2 * y) * p * q
    return {"data": np.where(counts, head * alpha * slope, 0)}
