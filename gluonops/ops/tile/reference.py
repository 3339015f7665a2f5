"""``tile`` out of MXNet's own operators, and its gradient."""
from .contract import counts

AT_ONCE = 64   # copies that one concatenation takes


def forward(F, attrs, data):
    along = [(attrs.axis, attrs.tiles)]
    if isinstance(attrs.tiles, tuple):
        along = [(i - len(attrs.tiles), count) for i, count in enumerate(attrs.tiles)]
        if along:
            data = F.tile(data, reps=(1,) * len(along))   # as many dimensions as counts, or more
    for axis, count in along:   # the gradient of MXNet's tile fails from 3 counts for data of 4 dimensions
        data = _repeated(F, data, axis, count)
    return data


def _repeated(F, data, axis, count):
    """``count`` copies along an axis: copies of copies, where there are many."""
    if count == 1:
        return data
    if count <= AT_ONCE:
        return F.concat(*[data] * count, dim=axis)
    share, rest = divmod(count, AT_ONCE)
    return F.concat(*[_repeated(F, data, axis, share)] * AT_ONCE, *[data] * rest, dim=axis)


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
