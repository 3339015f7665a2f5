"""``region_decode`` and its gradient, computed with MXNet's own operators.

All operators in ``forward`` can be exported to ONNX.
"""
from ...backends.emitter import Array
from .._region.reference import HEIGHT, OBJECT, WIDTH, X, Y, channel, class_channels, grid, split
from .._softmax.reference import probabilities


def forward(F, attrs, data: Array) -> Array:
    maps = split(F, attrs, data)
    x, y, objectness = (F.sigmoid(channel(F, maps, i)) for i in (X, Y, OBJECT))
    w, h = (channel(F, maps, i) for i in (WIDTH, HEIGHT))
    p = _class_probabilities(F, attrs, maps)

    if attrs.layout == "map":
        return F.reshape_like(F.concat(x, y, w, h, objectness, p, dim=2), F.BlockGrad(data))
    columns, rows, width, height, anchor_w, anchor_h = grid(F, attrs, maps)
    x = F.broadcast_div(F.broadcast_add(x, columns), width)
    y = F.broadcast_div(F.broadcast_add(y, rows), height)
    w = _scaled_exponential(F, w, F.broadcast_div(anchor_w, width))
    h = _scaled_exponential(F, h, F.broadcast_div(anchor_h, height))
    return F.transpose(F.concat(x, y, w, h, objectness, p, dim=2), axes=(0, 1, 3, 4, 2))


def _class_probabilities(F, attrs, maps):
    """Return the class probabilities, (batch, anchors, classes, height, width)."""
    logits = class_channels(F, attrs, maps)
    return probabilities(F, logits, 2) if attrs.softmax else F.sigmoid(logits)


def _scaled_exponential(F, logarithm, size):
    """Return ``exp(logarithm) * size``, computed as ``root * size * root``.

    In float16 the product may fit while the exponential does not.
    """
    root = F.exp(logarithm / 2)
    return F.broadcast_mul(root, size) * root


def backward(nd, attrs, shapes, output_grad, data) -> dict:
    maps = split(nd, attrs, data)
    if attrs.layout == "map":
        grad_out = output_grad.reshape(maps.shape)
    else:
        grad_out = nd.transpose(output_grad, (0, 1, 4, 2, 3))

    grads = {i: channel(nd, grad_out, i) for i in (WIDTH, HEIGHT)}
    for i in (X, Y, OBJECT):
        activated = nd.sigmoid(channel(nd, maps, i))
        grads[i] = channel(nd, grad_out, i) * activated * (1 - activated)
    if attrs.layout == "boxes":
        _scale_box_gradients(nd, attrs, maps, grads)

    p = _class_probabilities(nd, attrs, maps)
    class_grad = _class_gradient(nd, attrs, p, class_channels(nd, attrs, grad_out))
    grad = nd.concat(*[grads[i] for i in (X, Y, WIDTH, HEIGHT, OBJECT)], class_grad, dim=2)
    return {"data": grad.reshape(shapes["data"])}


def _scale_box_gradients(nd, attrs, maps, grads):
    """Multiply the gradients of x, y, w and h by the derivatives of the decoded boxes, in place."""
    _, _, width, height, anchor_w, anchor_h = grid(nd, attrs, maps)
    grads[X] = nd.broadcast_div(grads[X], width)
    grads[Y] = nd.broadcast_div(grads[Y], height)
    for i, anchor, size in ((WIDTH, anchor_w, width), (HEIGHT, anchor_h, height)):
        scale = nd.broadcast_div(anchor, size)
        grads[i] = nd.broadcast_mul(grads[i] * nd.exp(channel(nd, maps, i)), scale)


def _class_gradient(nd, attrs, p, grad_out):
    """Return the gradient of the class channels, from the probabilities ``p`` and their head gradient."""
    if attrs.softmax:
        dot = nd.sum(grad_out * p, axis=2, keepdims=True)
        return p * nd.broadcast_sub(grad_out, dot)
    return p * (grad_out * (1 - p))
