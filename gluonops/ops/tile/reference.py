"""``tile`` out of MXNet's own operators, and its gradient."""
from .contract import counts


def forward(F, attrs, data):
    along = [(attrs.axis, attrs.tiles)]
    if isinstance(attrs.tiles, tuple):
        data = F.tile(data, reps=(1,) * len(attrs.tiles))   # as many dimensions as counts, or more
        along = [(i - len(attrs.tiles), count) for i, count in enumerate(attrs.tiles)]
    elif attrs.tiles == 1:
        return F.identity(data)
    for axis, count in along:   # the gradient of MXNet's tile fails from 3 counts for data of 4 dimensions
        if count > 1:
            data = F.concat(*[data] * count, dim=axis)
    return data


def backward(nd, attrs, shapes, output_grad):
    shape = shapes["data"]
    repeats = counts(attrs, len(shape))
    grad = output_grad
    stride = 1   # elements of data, and the copies already summed, behind an axis
    for size, count in reversed(list(zip((1,) * (len(repeats) - len(shape)) + tuple(shape), repeats))):
        stride *= size
        if count > 1:   # the copies of an element differ in the middle alone
            grad = nd.sum(grad.reshape((-1, count, stride)), axis=1)
    return {"data": grad.reshape(shape)}
