"""``sigmoid_focal_loss`` and its gradient, computed with MXNet's own operators."""
from ...backends.emitter import Array
from .._sigmoid.reference import softplus, without_ignored

LEAST = 1e-7   # what has a power below 1 is no smaller; float16 holds it


def forward(F, attrs, data: Array, label: Array) -> Array:
    data, label, counts = without_ignored(F, attrs, data, label)
    loss = softplus(F, -data) * label + softplus(F, data) * (1 - label)
    if attrs.gamma:
        error = F.sigmoid(-data) * label + F.sigmoid(data) * (1 - label)
        loss = loss * (error if attrs.gamma >= 1 else F.maximum(error, LEAST)) ** attrs.gamma
    loss = _weighted(attrs, loss, label)
    return loss if counts is None else loss * counts


def _weighted(attrs, values, label):
    """Return the values times alpha for positives, and 1 - alpha for negatives."""
    if attrs.alpha < 0:
        return values
    return values * (label * attrs.alpha + (1 - label) * (1 - attrs.alpha))


def backward(nd, attrs, shapes, output_grad, data, label) -> dict:
    data, label, counts = without_ignored(nd, attrs, data, label)
    p, q = nd.sigmoid(data), nd.sigmoid(-data)
    loss = softplus(nd, -data) * label + softplus(nd, data) * (1 - label)
    error = q * label + p * (1 - label)
    slope = (1 - label) * p - label * q
    if attrs.gamma:
        # The derivative of the error is (1 - 2 label) p q. It is divided by the error without 0 / 0: where the label
        # is 0 or 1, it takes nothing of p or q. What is nearly 0 must stay so, because the loss may be large.
        by_error = (1 - 2 * label) / (label / nd.maximum(p, label == 0) + (1 - label) / nd.maximum(q, label == 1))
        slope = error ** attrs.gamma * (slope + attrs.gamma * by_error * loss)
    grad = output_grad * _weighted(attrs, slope, label)
    return {"data": grad if counts is None else nd.where(counts, grad, nd.zeros_like(grad))}
