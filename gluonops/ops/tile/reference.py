"""``tile`` out of MXNet's own operators, and its gradient."""
from .contract import counts


def forward(F, attrs, data):
    if isinstance(attrs.tiles, tuple):
        return F.tile(data, reps=attrs.tiles)
    return F.concat(*[data] * attrs.tiles, dim=attrs.axis) if attrs.tiles > 1 else F.identity(data)


def backward(nd, attrs, shapes, output_grad):
    shape = shapes["data"]
    repeats = counts(attrs, len(shape))
    sizes = (1,) * (len(repeats) - len(shape)) + tuple(shape)
    # Each output axis seen as (count, size): the copies of an element differ in the counts alone.
    split = [length for pair in zip(repeats, sizes) for length in pair]
    copies = [2 * i for i, count in enumerate(repeats) if count > 1]
    grad = output_grad.reshape(split)
    for axis in reversed(copies):
        grad = nd.sum(grad, axis=axis)
    return {"data": grad.reshape(shape)}
