"""margin_softmax_cross_entropy: cross-entropy of scaled cosines, with the combined margin for the label's.

Written from ArcFace (equation 4, and the authors' code where the angle passes pi), CosFace (equation 4) and SphereFace
(equation 7).
"""
import numpy as np

from .._softmax.oracle import onehot, softmax, valid_rows

LIMIT = 1 - 2.0 ** -20


def draw(attrs, shapes, rng):
    """Cosines."""
    return {"data": rng.uniform(-0.98, 0.98, shapes["data"])}


def margin(attrs, cosine):
    """Return the label's cosine with its margin, and its derivative."""
    value, slope = cosine, np.ones_like(cosine)
    if (attrs.m1, attrs.m2) != (1, 0):
        value, slope = angular_margin(attrs, np.clip(cosine, -LIMIT, LIMIT))
        if attrs.easy_margin:
            value, slope = np.where(cosine > 0, value, cosine), np.where(cosine > 0, slope, 1)
    return value - attrs.m3, slope


def angular_margin(attrs, cosine):
    theta = np.arccos(cosine)
    u = attrs.m1 * theta + attrs.m2
    n = np.floor(u / np.pi)
    sign = np.where(n % 2 == 0, 1, -1)
    slope = attrs.m1 * np.sin(u) / np.sin(theta)
    if attrs.m1 == 1:
        return (np.where(u < np.pi, np.cos(u), cosine - attrs.m2 * np.sin(attrs.m2)), np.where(u < np.pi, slope, 1))
    return sign * np.cos(u) - 2 * n, sign * slope


def prepare(attrs, data, label):
    """Return the valid rows, one-hot labels, the cosines with the margin, and its derivatives. Ignored rows are 0."""
    valid = valid_rows(label, attrs.ignore_label)[..., None]
    encoded = np.where(valid, onehot(label, data.shape[-1], -1), 0)
    data = np.where(valid, data, 0)
    value, slope = margin(attrs, data)
    is_label = encoded == 1
    return valid, encoded, np.where(is_label, value, data), np.where(is_label, slope, 1)


def class_weights(attrs):
    return np.array(attrs.class_weight or (1.0,))


def forward(attrs, data, label):
    """``max`` and ``log_sum`` are hidden outputs."""
    valid, encoded, cosines, _ = prepare(attrs, data, label)
    largest = cosines.max(-1, keepdims=True)
    exponents = attrs.scale * (cosines - largest)
    log_sum = np.log(np.exp(exponents).sum(-1, keepdims=True))
    loss = ((log_sum - exponents) * encoded * class_weights(attrs)).sum(-1)
    return {"output": loss, "max": largest[..., 0], "log_sum": log_sum[..., 0]}


def backward(attrs, head, data, label):
    valid, encoded, cosines, slope = prepare(attrs, data, label)
    error = np.where(valid, softmax(attrs.scale * cosines, -1) - encoded, 0)
    own_weight = (encoded * class_weights(attrs)).sum(-1, keepdims=True)
    return {"data": head[..., None] * own_weight * attrs.scale * error * slope}
