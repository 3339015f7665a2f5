"""``tile`` and its gradient, computed with MXNet's own operators."""
from ...backends.concat import MOST
from ...backends.emitter import Array
from .contract import sizes_and_repeats


def forward(F, attrs, data: Array) -> Array:
    if attrs.tiles == 1:   # a copy that needs the axis
        return F.slice_axis(data, axis=attrs.axis, begin=0, end=None)
    if not isinstance(attrs.tiles, tuple):
        return _repeat(F, data, attrs.axis, attrs.tiles)

    ndim = len(attrs.tiles)
    if ndim:
        data = F.tile(data, reps=(1,) * ndim)   # adds axes in front, if data has fewer than there are counts
    # MXNet's tile cannot do the rest: its gradient fails for 3 counts or more and data of 4 dimensions.
    for i, count in enumerate(attrs.tiles):
        data = _repeat(F, data, i - ndim, count)
    return data


def _repeat(F, data, axis, count):
    """``count`` copies along an axis. If there are many, copies are copied, so that no concatenation is large."""
    if count == 1:
        return data
    if count <= MOST:
        copies = [data] * count
    else:
        part_count, rest = divmod(count, MOST)
        part = _repeat(F, data, axis, part_count)
        copies = [part] * MOST + [data] * rest
    return F.concat(*copies, dim=axis)


def backward(nd, attrs, shapes, output_grad) -> dict:
    shape = shapes["data"]
    grad = output_grad
    stride = 1   # number of elements behind an axis, whose copies are already summed
    for size, repeats in reversed(sizes_and_repeats(attrs, shape)):
        stride *= size
        if repeats > 1:
            grad = nd.sum(grad.reshape((-1, repeats, stride)), axis=1)   # (outer, copies, elements)
    return {"data": grad.reshape(shape)}
