"""Orders of numbers, computed with MXNet's own operators."""
from ...backends.emitter import Array


def descending(F, keys: Array) -> tuple[Array, Array, Array]:
    """Return the order of each row's numbers from the highest to the lowest. Of equal numbers the first comes first.

    MXNet's sorts do not keep the order of equal numbers, so these are sorted once more, by their positions.

    ``keys`` are (rows, n), float64, without a NaN. Three tensors in float64 are returned:

    - ``order``, (rows, n): the number that comes at each position of the order.
    - ``rank``, (rows, n): the position in the order at which each number comes.
    - ``first``, (rows, 1): the position of each row's first number in the whole tensor.
    """
    keys = F.BlockGrad(keys)
    position = F.contrib.arange_like(keys)
    first = F.slice_axis(position, axis=1, begin=0, end=1)
    length = F.cast(F.slice_axis(F.shape_array(keys), axis=0, begin=1, end=2), dtype="float64")

    unstable = F.argsort(keys, axis=1, is_ascend=False, dtype="float64")
    values = take(F, keys, unstable, first)
    before = F.maximum(F.broadcast_sub(position, first) - 1, 0)
    is_lower = values != take(F, values, before, first)
    groups = F.broadcast_mul(F.cumsum(is_lower, axis=1), length)   # each number's group of equal numbers
    order = F.sort(groups + unstable, axis=1) - groups
    rank = F.argsort(order, axis=1, is_ascend=True, dtype="float64")
    return order, rank, first


def take(F, values: Array, positions: Array, first: Array) -> Array:
    """Return the numbers at positions of their rows, (rows, n), in float64. ``first`` is that of :func:`descending`."""
    return F.take(F.reshape(values, shape=(-1,)), F.broadcast_add(positions, first))
