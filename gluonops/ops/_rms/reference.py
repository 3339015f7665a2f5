"""Rows divided by the root of their squares, computed with MXNet's own operators."""
import math
from collections.abc import Callable

from ...backends.emitter import Array


def along_axis(F, data: Array, scale: Array, axis: int) -> Array:
    """Return ``data`` times a vector along ``axis``."""
    if axis == -1:
        return F.broadcast_mul(data, scale)
    last = F.swapaxes(data, dim1=axis, dim2=-1)
    return F.swapaxes(F.broadcast_mul(last, scale), dim1=axis, dim2=-1)


def functions(mean_or_sum: str) -> tuple[Callable, Callable]:
    """Return ``forward`` and ``backward`` of the operator that divides by the root of the mean, or sum, of squares."""

    def forward(F, attrs, data: Array, scale: Array) -> tuple[Array, Array]:
        """Return the output, and the reciprocal of the root.

        The squares are those of numbers up to 1, because a graph of unknown types may compute in float16. A row is
        divided by its largest element first, which is not differentiated: the result does not depend on it.
        """
        root_of_eps = math.sqrt(attrs.eps)
        largest = F.max(F.abs(F.BlockGrad(data)), axis=attrs.axis, keepdims=True)
        largest = F.maximum(largest, root_of_eps)
        small = F.broadcast_div(data, largest)
        squares = getattr(F, mean_or_sum)(F.square(small), axis=attrs.axis, keepdims=True)
        root = F.sqrt(squares + F.square(root_of_eps / largest))
        output = along_axis(F, F.broadcast_div(small, root), scale, attrs.axis)
        return output, 1 / (root * largest)

    def backward(nd, attrs, shapes, output_grad, data, scale, rstd) -> dict:
        x_hat = nd.broadcast_mul(data, rstd)
        grad_x_hat = along_axis(nd, output_grad, scale, attrs.axis)
        by_scale = nd.sum(output_grad * x_hat, axis=attrs.axis, exclude=True)
        if data.shape[attrs.axis] == 1:   # the difference below cancels: 1 - x_hat^2 is eps * rstd^2
            return {"data": grad_x_hat * (attrs.eps * rstd * rstd * rstd), "scale": by_scale}
        share = getattr(nd, mean_or_sum)(grad_x_hat * x_hat, axis=attrs.axis, keepdims=True)
        return {"data": nd.broadcast_mul(grad_x_hat - nd.broadcast_mul(x_hat, share), rstd), "scale": by_scale}

    return forward, backward
