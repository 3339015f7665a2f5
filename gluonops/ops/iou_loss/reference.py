"""``iou_loss`` and its gradient, computed with MXNet's own operators."""
from ...backends.emitter import Array
from .._boxes.reference import LOSS_EPS, LOSSES, BoxPair, IouLoss, columns_of, row_gradient, sides


def loss_of(F, attrs, data: Array, truth: Array) -> IouLoss:
    """Return the loss, whose value and derivatives are (batch, ..., 1)."""
    box, other = (sides(columns_of(F, boxes), attrs.format) for boxes in (data, F.BlockGrad(truth)))
    return LOSSES[attrs.kind](BoxPair(F, box, other, LOSS_EPS), LOSS_EPS)


def forward(F, attrs, data: Array, truth: Array) -> Array:
    return F.squeeze(loss_of(F, attrs, data, truth).value(), axis=-1)


def backward(nd, attrs, shapes, output_grad, data, truth) -> dict:
    gradient = row_gradient(nd, loss_of(nd, attrs, data, truth).gradient(), attrs.format)
    return {"data": nd.broadcast_mul(gradient, output_grad.expand_dims(-1))}
