"""``region_decode`` out of MXNet's own operators, and its gradient.

Everything in ``forward`` has a converter to ONNX.
"""
from .._region.reference import (
    HEIGHT,
    OBJECT,
    WIDTH,
    X,
    Y,
    channel,
    class_channels,
    class_probabilities,
    decode_boxes,
    grid,
    split,
)


def forward(F, attrs, data):
    maps = split(F, attrs, data)
    x, y, objectness = (F.sigmoid(channel(F, maps, i)) for i in (X, Y, OBJECT))
    w, h = channel(F, maps, WIDTH), channel(F, maps, HEIGHT)
    p = class_probabilities(F, attrs, maps)
    if attrs.layout == "map":
        return F.reshape_like(F.concat(x, y, w, h, objectness, p, dim=2), F.BlockGrad(data))
    boxes = decode_boxes(F, grid(F, attrs, maps), x, y, w, h)
    return F.transpose(F.concat(*boxes, objectness, p, dim=2), axes=(0, 1, 3, 4, 2))


def backward(nd, attrs, shapes, output_grad, data):
    maps = split(nd, attrs, data)
    head = output_grad.reshape(maps.shape) if attrs.layout == "map" else nd.transpose(output_grad, (0, 1, 4, 2, 3))
    grads = {i: channel(nd, head, i) for i in (WIDTH, HEIGHT)}
    for i in (X, Y, OBJECT):
        activated = nd.sigmoid(channel(nd, maps, i))
        grads[i] = channel(nd, head, i) * activated * (1 - activated)
    if attrs.layout == "boxes":
        _, _, width, height, anchor_w, anchor_h = grid(nd, attrs, maps)
        grads[X] = nd.broadcast_div(grads[X], width)
        grads[Y] = nd.broadcast_div(grads[Y], height)
        for i, anchor, size in ((WIDTH, anchor_w, width), (HEIGHT, anchor_h, height)):
            scale = nd.broadcast_div(anchor, size)
            grads[i] = nd.broadcast_mul(grads[i] * nd.exp(channel(nd, maps, i)), scale)
    class_grad = _class_gradient(nd, attrs, class_probabilities(nd, attrs, maps), class_channels(nd, attrs, head))
    grad = nd.concat(*[grads[i] for i in (X, Y, WIDTH, HEIGHT, OBJECT)], class_grad, dim=2)
    return {"data": grad.reshape(shapes["data"])}


def _class_gradient(nd, attrs, p, head):
    if attrs.softmax:
        dot = nd.sum(head * p, axis=2, keepdims=True)
        return p * nd.broadcast_sub(head, dot)
    return p * (head * (1 - p))
