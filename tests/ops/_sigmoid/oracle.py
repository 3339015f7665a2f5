"""Parts shared by the oracles of the sigmoid's losses."""
import numpy as np


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def cross_entropy(x, y, pos_weight=1.0):
    """-(w y log(p) + (1 - y) log(1 - p))"""
    return pos_weight * y * softplus(-x) + (1 - y) * softplus(x)


def counted(attrs, data, label):
    """Return the data and the label, 0 where the label is ignored, and which count."""
    counts = np.ones(label.shape, bool) if attrs.ignore_label is None else label != attrs.ignore_label
    return np.where(counts, data, 0), np.where(counts, label, 0), counts


def draw_labels(attrs, shape, rng):
    """Zeros, ones, probabilities between, and ignored labels."""
    label = np.where(rng.rand(*shape) < 0.5, rng.randint(0, 2, shape), rng.rand(*shape))
    if attrs.ignore_label is not None:
        label = np.where(rng.rand(*shape) < 0.2, attrs.ignore_label, label)
    return label
