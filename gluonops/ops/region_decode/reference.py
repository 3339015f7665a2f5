"""``region_decode`` out of MXNet's own operators, and its gradient. The first three functions serve ``region_loss``.

Everything in ``forward`` has a converter to ONNX.
"""
from ..softmax.reference import probabilities

X, Y, WIDTH, HEIGHT, OBJECT, CLASSES = range(6)   # what the channels of an anchor are


def split(F, attrs, data):
    """``data`` as (batch, anchors, 5 + classes, height, width)."""
    return F.reshape(data, shape=(-1, len(attrs.anchors) // 2, 5 + attrs.classes, 0, 0), reverse=True)


def channels(F, maps, begin, end=None):
    """Some of the 5 + classes channels, from ``begin`` to before ``end`` (by default that one alone)."""
    return F.slice_axis(maps, axis=2, begin=begin, end=begin + 1 if end is None else end)


def grid(F, attrs, maps):
    """Constants in the type of ``maps``, to broadcast with it: columns, rows, how many there are, anchors' w and h."""
    plane = F.BlockGrad(channels(F, maps, 0))
    columns = F.reshape(F.contrib.arange_like(plane, axis=4), shape=(1, 1, 1, 1, -1))
    rows = F.reshape(F.contrib.arange_like(plane, axis=3), shape=(1, 1, 1, -1, 1))
    width = F.slice_axis(columns, axis=4, begin=-1, end=None) + 1
    height = F.slice_axis(rows, axis=3, begin=-1, end=None) + 1
    zero = F.zeros_like(width)
    sizes = [F.concat(*[zero + size for size in attrs.anchors[i::2]], dim=1) for i in (0, 1)]
    return columns, rows, width, height, sizes[0], sizes[1]


def class_probabilities(F, attrs, maps):
    logits = channels(F, maps, CLASSES, 5 + attrs.classes)
    return probabilities(F, logits, 2) if attrs.softmax else F.sigmoid(logits)


def forward(F, attrs, data):
    maps = split(F, attrs, data)
    x, y, objectness = (F.sigmoid(channels(F, maps, i)) for i in (X, Y, OBJECT))
    w, h, p = channels(F, maps, WIDTH), channels(F, maps, HEIGHT), class_probabilities(F, attrs, maps)
    if attrs.layout == "map":
        return F.reshape_like(F.concat(x, y, w, h, objectness, p, dim=2), F.BlockGrad(data))
    columns, rows, width, height, anchor_w, anchor_h = grid(F, attrs, maps)
    decoded = F.concat(F.broadcast_div(F.broadcast_add(x, columns), width),
                       F.broadcast_div(F.broadcast_add(y, rows), height),
                       _scaled(F, w, F.broadcast_div(anchor_w, width)),
                       _scaled(F, h, F.broadcast_div(anchor_h, height)), objectness, p, dim=2)
    return F.transpose(decoded, axes=(0, 1, 3, 4, 2))


def _scaled(F, logarithm, size):
    """``exp(logarithm) * size``, which is a float16 where the power alone is not: in two halves."""
    root = F.exp(logarithm / 2)
    return F.broadcast_mul(root, size) * root


def backward(nd, attrs, shapes, output_grad, data):
    maps = split(nd, attrs, data)
    head = output_grad.reshape(maps.shape) if attrs.layout == "map" else nd.transpose(output_grad, (0, 1, 4, 2, 3))
    slopes = {}
    for i in (X, Y, OBJECT):
        activated = nd.sigmoid(channels(nd, maps, i))
        slopes[i] = channels(nd, head, i) * activated * (1 - activated)
    for i in (WIDTH, HEIGHT):
        slopes[i] = channels(nd, head, i)
    if attrs.layout == "boxes":
        _, _, width, height, anchor_w, anchor_h = grid(nd, attrs, maps)
        for i, size in ((X, width), (Y, height)):
            slopes[i] = nd.broadcast_div(slopes[i], size)
        for i, anchor, size in ((WIDTH, anchor_w, width), (HEIGHT, anchor_h, height)):
            slopes[i] = nd.broadcast_mul(slopes[i] * nd.exp(channels(nd, maps, i)), nd.broadcast_div(anchor, size))
    p, head = class_probabilities(nd, attrs, maps), channels(nd, head, CLASSES, 5 + attrs.classes)
    along = nd.broadcast_sub(head, nd.sum(head * p, axis=2, keepdims=True)) if attrs.softmax else head * (1 - p)
    return {"data": nd.concat(*[slopes[i] for i in range(5)], p * along, dim=2).reshape(shapes["data"])}
