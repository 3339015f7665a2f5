"""``softmax_output`` out of MXNet's own operators, and its gradient.

The label arithmetic is done in float64, which holds every label exactly; what it decides enters the data's dtype
through ``where``. The functions above ``forward`` serve ``softmax_cross_entropy`` too.
"""
import itertools
import math

import mxnet as mx

from ...core.backend import full_name
from ..softmax.reference import probabilities

_heads = itertools.count()


def judge(F, attrs, data, label):
    """What the labels say about their rows.

    Returns
    -------
    valid, ignored : NDArray or Symbol
        float64, 1 or 0, the shape of ``label``: it is a class; it is to be ignored (None where nothing is).
    """
    label = F.cast(F.BlockGrad(label), dtype="float64")
    axis = attrs.axis
    classes = F.slice_axis(F.shape_array(F.BlockGrad(data)), axis=0, begin=axis, end=axis + 1 if axis != -1 else None)
    below = F.broadcast_lesser(label, F.cast(classes, dtype="float64"))
    valid = below * (label >= 0) * (F.floor(label) == label)
    return valid, None if attrs.ignore_label is None else label == attrs.ignore_label


def row_weights(F, rows, valid, ignored):
    """1 for a row that counts, 0 for an ignored one, NaN for a label that is no class; dtype and shape of ``rows``."""
    zero = F.zeros_like(F.BlockGrad(rows))
    weights = F.where(valid, zero + 1, zero * float("nan"))
    return weights if ignored is None else F.where(ignored, zero, weights)


def divided(F, attrs, weights, ignored):
    """``weights`` over n, the count that ``normalization`` names."""
    ones = F.ones_like(weights)
    if attrs.normalization == "null":
        return weights
    if attrs.normalization == "batch":
        ones = F.slice_axis(F.Flatten(ones), axis=1, begin=0, end=1)
    elif ignored is not None:
        ones = F.where(ignored, F.zeros_like(ones), ones)
    return F.broadcast_div(weights, F.broadcast_maximum(F.sum(ones), F.ones_like(F.sum(ones))))


def onehot(nd, attrs, shapes, label, dtype):
    """1 at the label's class, in the layout of ``data``; a row of zeros for a label that is no class."""
    shape = shapes["data"]
    axis = attrs.axis % len(shape)
    rows = label.astype("float64").reshape((math.prod(shape[:axis]), -1))   # MXNet transposes 6 dimensions at most
    return nd.one_hot(rows, shape[axis], dtype=dtype).swapaxes(1, 2).reshape(shape)


def forward(F, attrs, data, label):
    axis = attrs.axis
    output = F.BlockGrad(probabilities(F, data, axis))
    valid, ignored = judge(F, attrs, data, label)
    if ignored is not None:   # so that a NaN in an ignored row stays out of the gradient
        data = F.where(F.broadcast_like(F.expand_dims(ignored, axis=axis), output), F.zeros_like(data), data)
    # The loss, row by row, stands behind the output: make_loss sends its gradient back whatever comes in.
    rows = F.pick(_log_probabilities(F, data, axis), F.BlockGrad(label), axis=axis, mode="clip")
    weights = divided(F, attrs, row_weights(F, rows, valid, ignored) * attrs.grad_scale, ignored)
    # MXNet merges equal nodes, and two heads merged send back one gradient: the mark keeps them apart.
    with mx.AttrScope(__gluonops_head__=f"{full_name(None, 'head')}_{next(_heads)}"):
        loss = F.make_loss(rows * F.BlockGrad(-weights))
    return F.where(F.ones_like(output), output, F.broadcast_like(F.expand_dims(loss, axis=axis), output))


def _log_probabilities(F, data, axis):
    """Log-softmax, repaired like :func:`gluonops.ops.softmax.reference.probabilities`."""
    raw = F.log_softmax(data, axis=axis)
    return F.broadcast_sub(raw, F.log(F.sum(F.exp(raw), axis=axis, keepdims=True)))


def backward(nd, attrs, shapes, output, label):
    axis = attrs.axis
    valid, ignored = judge(nd, attrs, output, label)
    rows = nd.squeeze(nd.slice_axis(output, axis=axis, begin=0, end=1), axis=axis)
    weights = divided(nd, attrs, row_weights(nd, rows, valid, ignored) * attrs.grad_scale, ignored)
    grad = nd.broadcast_mul(output - onehot(nd, attrs, shapes, label, output.dtype), weights.expand_dims(axis))
    if ignored is not None:
        grad = nd.where(nd.broadcast_like(ignored.expand_dims(axis), grad), nd.zeros_like(grad), grad)
    return {"data": grad}
