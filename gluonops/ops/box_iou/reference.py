"""``box_iou`` and its gradient, computed with MXNet's own operators."""
import mxnet as mx

from ...backends.emitter import Array
from .._boxes.reference import TINY_AREA, BoxPair, IouLoss, columns_of, row_gradient, sides


def pair_of(F, attrs, lhs: Array, rhs: Array) -> BoxPair:
    """Return the pairs of boxes, (..., N, M)."""
    if F is mx.sym:   # broadcasting would pair any sets
        one = F.slice_axis(F.concat(F.BlockGrad(lhs), F.BlockGrad(rhs), dim=-2), axis=-2, begin=0, end=1)
        lhs = F.broadcast_add(lhs, F.zeros_like(one))
    rows = columns_of(F, lhs)                                                                  # ..., N, 1
    columns = [F.expand_dims(F.squeeze(column, axis=-1), axis=-2) for column in columns_of(F, rhs)]   # ..., 1, M
    return BoxPair(F, sides(rows, attrs.format), sides(columns, attrs.format), TINY_AREA)


def forward(F, attrs, lhs: Array, rhs: Array) -> Array:
    return pair_of(F, attrs, lhs, rhs).iou


def backward(nd, attrs, shapes, output_grad, lhs, rhs) -> dict:
    pair = pair_of(nd, attrs, lhs, rhs)

    def gradient(pair: BoxPair, axis: int) -> Array:
        """Return the gradient of the first boxes; the others lie along the axis."""
        by = [-nd.sum(output_grad * by_loss, axis=axis).expand_dims(-1) for by_loss in IouLoss(pair).gradient()]
        return row_gradient(nd, by, attrs.format)

    return {"lhs": gradient(pair, -1), "rhs": gradient(pair.exchanged(), -2)}
