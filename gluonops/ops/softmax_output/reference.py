"""``softmax_output`` and its gradient, computed with MXNet's own operators."""
from __future__ import annotations

import itertools

import mxnet as mx

from ...backends.emitter import Array, full_name
from .._labels.reference import exact, first_class, label_masks, onehot, row_weights, without_ignored
from .._softmax.reference import log_probabilities, probabilities

_loss_heads = itertools.count()


def normalize(F, attrs, weights: Array, ignored: Array | None) -> Array:
    """``weights``, one per row, divided by the count that the attribute ``normalization`` selects."""
    if attrs.normalization == "null":
        return weights
    counted = F.ones_like(weights)
    if attrs.normalization == "batch":
        counted = F.slice_axis(F.Flatten(counted), axis=1, begin=0, end=1)
    elif ignored is not None:
        counted = F.where(ignored, F.zeros_like(counted), counted)
    count = F.broadcast_maximum(F.sum(counted), F.ones_like(F.sum(counted)))
    return F.broadcast_div(weights, count)


def forward(F, attrs, data: Array, label: Array) -> Array:
    axis = attrs.axis
    output = F.BlockGrad(probabilities(F, data, axis))
    labels = exact(F, label, F.squeeze(first_class(F, data, axis), axis=axis))
    valid, ignored = label_masks(F, labels, data, axis, attrs.ignore_label)
    if ignored is not None:   # a NaN in an ignored row must not reach the gradient
        is_ignored = F.broadcast_like(F.expand_dims(ignored, axis=axis), output)
        data = F.where(is_ignored, F.zeros_like(data), data)

    # A loss per row is a second input of the output's node. make_loss returns its gradient for any head gradient.
    rows = F.pick(log_probabilities(F, data, axis), F.BlockGrad(label), axis=axis, mode="clip")
    weights = row_weights(F, rows, valid, ignored) * attrs.grad_scale
    weights = normalize(F, attrs, weights, ignored)
    # MXNet merges equal nodes. Two merged heads would return a single gradient, so each head gets a mark of its own.
    with mx.AttrScope(__gluonops_head__=f"{full_name(None, 'head')}_{next(_loss_heads)}"):
        loss = F.make_loss(rows * F.BlockGrad(-weights))
    return F.where(F.ones_like(output), output, F.broadcast_like(F.expand_dims(loss, axis=axis), output))


def backward(nd, attrs, shapes, output, label) -> dict:
    axis = attrs.axis
    valid, ignored = label_masks(nd, exact(nd, label), output, axis, attrs.ignore_label)
    rows = nd.squeeze(nd.slice_axis(output, axis=axis, begin=0, end=1), axis=axis)
    weights = row_weights(nd, rows, valid, ignored) * attrs.grad_scale
    weights = normalize(nd, attrs, weights, ignored)

    error = output - onehot(nd, label, shapes["data"][axis], axis, output.dtype)
    grad = nd.broadcast_mul(error, weights.expand_dims(axis))
    return {"data": without_ignored(nd, grad, None if ignored is None else ignored.expand_dims(axis))}
