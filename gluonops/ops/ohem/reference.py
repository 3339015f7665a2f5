"""``ohem`` and its gradient, computed with MXNet's own operators."""
from ...backends.emitter import Array
from .._order.reference import descending

LOWEST = -1.7976931348623157e308


def forward(F, attrs, data: Array) -> Array:
    losses = F.cast(F.BlockGrad(data), dtype="float64")
    losses = F.Flatten(losses) if attrs.per_sample else F.reshape(losses, shape=(1, -1))
    infinity = F.ones_like(losses) * float("inf")
    losses = F.where(losses != losses, infinity, losses)
    counts = losses != 0
    _, rank, _ = descending(F, F.where(counts, F.maximum(losses, LOWEST), -infinity))

    count = F.sum(counts, axis=1, keepdims=True)
    number = F.ceil(count * attrs.ratio) if attrs.keep is None else F.ones_like(count) * attrs.keep
    if attrs.threshold is not None:
        number = F.maximum(number, F.sum(counts * (losses > attrs.threshold), axis=1, keepdims=True))
    is_kept = F.reshape_like(F.broadcast_lesser(rank, number) * counts, F.BlockGrad(data))
    return F.where(is_kept, data, F.zeros_like(F.BlockGrad(data)))


def backward(nd, attrs, shapes, output_grad, output) -> dict:
    return {"data": nd.where(output != 0, output_grad, nd.zeros_like(output_grad))}
