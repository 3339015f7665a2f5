"""``softmax_output`` out of MXNet's own operators, and its gradient."""
import itertools

import mxnet as mx

from ...core.backend import full_name
from .._labels.reference import exact, ignored_mask, onehot, row_weights, valid_mask
from .._softmax.reference import log_probabilities, probabilities

_heads = itertools.count()


def normalize(F, attrs, weights, ignored):
    """``weights`` divided by the count that ``normalization`` names."""
    if attrs.normalization == "null":
        return weights
    counted = F.ones_like(weights)
    if attrs.normalization == "batch":
        counted = F.slice_axis(F.Flatten(counted), axis=1, begin=0, end=1)
    elif ignored is not None:
        counted = F.where(ignored, F.zeros_like(counted), counted)
    count = F.broadcast_maximum(F.sum(counted), F.ones_like(F.sum(counted)))
    return F.broadcast_div(weights, count)


def forward(F, attrs, data, label):
    axis = attrs.axis
    output = F.BlockGrad(probabilities(F, data, axis))
    labels = exact(F, label)
    valid, ignored = valid_mask(F, labels, data, axis), ignored_mask(labels, attrs.ignore_label)
    if ignored is not None:   # so that a NaN in an ignored row stays out of the gradient
        data = F.where(F.broadcast_like(F.expand_dims(ignored, axis=axis), output), F.zeros_like(data), data)

    # The loss of every row stands behind the output: make_loss sends its gradient back whatever the head gradient is.
    rows = F.pick(log_probabilities(F, data, axis), F.BlockGrad(label), axis=axis, mode="clip")
    weights = normalize(F, attrs, row_weights(F, rows, valid, ignored) * attrs.grad_scale, ignored)
    # MXNet merges equal nodes, and two merged heads send back one gradient. The mark keeps them apart.
    with mx.AttrScope(__gluonops_head__=f"{full_name(None, 'head')}_{next(_heads)}"):
        loss = F.make_loss(rows * F.BlockGrad(-weights))
    return F.where(F.ones_like(output), output, F.broadcast_like(F.expand_dims(loss, axis=axis), output))


def backward(nd, attrs, shapes, output, label):
    axis = attrs.axis
    labels = exact(nd, label)
    valid, ignored = valid_mask(nd, labels, output, axis), ignored_mask(labels, attrs.ignore_label)
    rows = nd.squeeze(nd.slice_axis(output, axis=axis, begin=0, end=1), axis=axis)
    weights = normalize(nd, attrs, row_weights(nd, rows, valid, ignored) * attrs.grad_scale, ignored)
    error = output - onehot(nd, label, shapes["data"][axis], axis, output.dtype)
    grad = nd.broadcast_mul(error, weights.expand_dims(axis))
    if ignored is not None:
        grad = nd.where(nd.broadcast_like(ignored.expand_dims(axis), grad), nd.zeros_like(grad), grad)
    return {"data": grad}
