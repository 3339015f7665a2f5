"""YOLOv2's map in MXNet's own operators.

Everything here has a converter to ONNX.
"""
from .._softmax.reference import probabilities

X, Y, WIDTH, HEIGHT, OBJECT, CLASSES = range(6)   # the channels of an anchor


def split(F, attrs, data):
    """``data`` as (batch, anchors, 5 + classes, height, width)."""
    return F.reshape(data, shape=(-1, len(attrs.anchors) // 2, 5 + attrs.classes, 0, 0), reverse=True)


def channel(F, maps, index):
    """One of the 5 + classes channels, (batch, anchors, 1, height, width)."""
    return F.slice_axis(maps, axis=2, begin=index, end=index + 1)


def class_channels(F, attrs, maps):
    """The channels of the classes, (batch, anchors, classes, height, width)."""
    return F.slice_axis(maps, axis=2, begin=CLASSES, end=CLASSES + attrs.classes)


def grid(F, attrs, maps):
    """Constants in the type of ``maps`` that broadcast with it.

    Returns
    -------
    columns, rows : NDArray or Symbol
        The index of every column and row.
    width, height : NDArray or Symbol
        How many columns and rows there are.
    anchor_w, anchor_h : NDArray or Symbol
        The sizes of the anchors, in cells.
    """
    plane = F.BlockGrad(channel(F, maps, X))
    columns = F.reshape(F.contrib.arange_like(plane, axis=4), shape=(1, 1, 1, 1, -1))
    rows = F.reshape(F.contrib.arange_like(plane, axis=3), shape=(1, 1, 1, -1, 1))
    width = F.slice_axis(columns, axis=4, begin=-1, end=None) + 1
    height = F.slice_axis(rows, axis=3, begin=-1, end=None) + 1
    zero = F.zeros_like(width)
    anchor_w = F.concat(*[zero + size for size in attrs.anchors[0::2]], dim=1)
    anchor_h = F.concat(*[zero + size for size in attrs.anchors[1::2]], dim=1)
    return columns, rows, width, height, anchor_w, anchor_h


def decode_boxes(F, grid_constants, x, y, w, h):
    """Boxes as fractions of the image: x and y after the sigmoid, w and h raw."""
    columns, rows, width, height, anchor_w, anchor_h = grid_constants
    return (F.broadcast_div(F.broadcast_add(x, columns), width),
            F.broadcast_div(F.broadcast_add(y, rows), height),
            scaled_exponential(F, w, F.broadcast_div(anchor_w, width)),
            scaled_exponential(F, h, F.broadcast_div(anchor_h, height)))


def scaled_exponential(F, logarithm, size):
    """``exp(logarithm) * size`` in two halves: float16 may hold the product and not the exponential."""
    root = F.exp(logarithm / 2)
    return F.broadcast_mul(root, size) * root


def class_probabilities(F, attrs, maps):
    """The class probabilities, (batch, anchors, classes, height, width)."""
    logits = class_channels(F, attrs, maps)
    return probabilities(F, logits, 2) if attrs.softmax else F.sigmoid(logits)


def class_nll(F, attrs, maps, targets):
    """The negative log-likelihood of every anchor and cell, (batch, anchors, 1, height, width).

    ``targets`` are the target probabilities, (batch, anchors, classes, height, width).
    """
    logits = class_channels(F, attrs, maps)
    if attrs.softmax:
        largest = F.BlockGrad(F.max(logits, axis=2, keepdims=True))
        sum_of_exponentials = F.sum(F.exp(F.broadcast_sub(logits, largest)), axis=2, keepdims=True)
        log_sum = F.log(sum_of_exponentials) + largest
        return F.sum(F.broadcast_sub(log_sum, logits) * targets, axis=2, keepdims=True)
    positive = F.BlockGrad(F.relu(logits))
    log_sum = F.log(F.exp(-positive) + F.exp(logits - positive)) + positive   # log(exp(0) + exp(logit))
    return F.sum(log_sum - logits * targets, axis=2, keepdims=True)
