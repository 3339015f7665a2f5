"""``softmax_focal_loss`` and its gradient, computed with MXNet's own operators."""
from ...backends.emitter import Array
from .._labels.reference import exact, first_class, label_masks, number_of_label, onehot, row_weights, without_ignored
from .._softmax.reference import statistics

LEAST_ERROR = 1e-7   # 1 - p is no smaller, because a power below 1 has no finite derivative at 0


def forward(F, attrs, data: Array, label: Array) -> tuple[Array, ...]:
    # The label may lack the axis of the classes, or have size 1 there. Everything below has size 1 there.
    axis = attrs.axis
    one_class = F.reshape(first_class(F, data, axis), shape=(0, 0, -2))   # it has at least two dimensions
    keepdims_label = F.reshape_like(F.BlockGrad(label), one_class)
    valid, ignored = label_masks(F, exact(F, keepdims_label), data, axis, attrs.ignore_label)
    data = without_ignored(F, data, ignored)   # a NaN in an ignored row must not reach the gradient

    row_max, logits, log_sum = statistics(F, data, axis)
    nll = log_sum - F.pick(logits, F.BlockGrad(label), axis=axis, mode="clip", keepdims=True)
    loss = nll if attrs.gamma == 0 else _error(F, attrs.gamma, nll) ** attrs.gamma * nll
    if attrs.alpha is not None:
        loss = loss * number_of_label(F, data, attrs.alpha, axis, keepdims_label)
    loss = loss * row_weights(F, loss, valid, ignored)
    return tuple(F.reshape_like(rows, F.BlockGrad(label)) for rows in (loss, row_max, log_sum))


def _error(F, gamma, nll):
    """1 - p. It is constant where p is 0: its derivative is 0 there, and the nll is infinite."""
    p = F.BlockGrad(F.exp(-nll))
    error = F.where(p > 0, -F.expm1(-nll), F.ones_like(p))
    return error if gamma >= 1 else F.maximum(error, LEAST_ERROR)


def backward(nd, attrs, shapes, output_grad, data, label, max, log_sum) -> dict:   # pylint: disable=redefined-builtin
    axis = attrs.axis % data.ndim
    row_shape = data.shape[:axis] + data.shape[axis + 1:]
    keepdims_shape = data.shape[:axis] + (1,) + data.shape[axis + 1:]
    label, grad_out = label.reshape(keepdims_shape), output_grad.reshape(keepdims_shape)
    log_p = nd.broadcast_sub(nd.broadcast_sub(data, max.reshape(keepdims_shape)), log_sum.reshape(keepdims_shape))
    valid, ignored = label_masks(nd, exact(nd, label), data, attrs.axis, attrs.ignore_label)

    slope = _slope(nd, attrs.gamma, -nd.pick(log_p, label, axis=axis, mode="clip", keepdims=True))
    if attrs.alpha is not None:
        slope = slope * number_of_label(nd, data, attrs.alpha, axis, label)
    grad_out = grad_out * row_weights(nd, grad_out, valid, ignored) * slope
    error = nd.exp(log_p) - onehot(nd, label.reshape(row_shape), data.shape[axis], attrs.axis, log_p.dtype)
    return {"data": without_ignored(nd, nd.broadcast_mul(error, grad_out), ignored)}


def _slope(nd, gamma, nll):
    """Return the derivative of (1 - p)^gamma * nll by the nll. Near 0 the error 1 - p is the nll."""
    p, error, zero = nd.exp(-nll), -nd.expm1(-nll), nd.zeros_like(nll)
    ratio = nd.where(error == 0, zero + 1, nd.where(p == 0, zero, nll / error))
    return error ** gamma * (1 + gamma * p * ratio)
