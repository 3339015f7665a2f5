"""``sigmoid_cross_entropy`` and its gradient, computed with MXNet's own operators."""
from ...backends.emitter import Array
from .._labels.reference import numbers_along
from .._sigmoid.reference import softplus, without_ignored


def forward(F, attrs, data: Array, label: Array) -> Array:
    data, label, counts = without_ignored(F, attrs, data, label)
    positive = softplus(F, -data) * label
    if attrs.pos_weight is not None:
        positive = positive * numbers_along(F, data, attrs.pos_weight, attrs.axis)
    loss = positive + softplus(F, data) * (1 - label)
    return loss if counts is None else loss * counts


def backward(nd, attrs, shapes, output_grad, data, label) -> dict:
    data, label, counts = without_ignored(nd, attrs, data, label)
    positive = label * nd.sigmoid(-data)
    if attrs.pos_weight is not None:
        positive = positive * numbers_along(nd, data, attrs.pos_weight, attrs.axis)
    grad = output_grad * ((1 - label) * nd.sigmoid(data) - positive)
    return {"data": grad if counts is None else nd.where(counts, grad, nd.zeros_like(grad))}
