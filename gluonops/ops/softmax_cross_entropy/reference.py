"""``softmax_cross_entropy`` and its gradient, computed with MXNet's own operators."""
from ...backends.emitter import Array
from .._labels.reference import exact, first_class, label_masks, numbers_along, onehot, row_weights, without_ignored
from .._softmax.reference import statistics

SUM_SCALE = 2.0 ** -10   # factor of logits before they are summed, so that the sum fits into float16


def forward(F, attrs, data: Array, label: Array) -> tuple[Array, ...]:
    if attrs.sparse_label:
        return _sparse_forward(F, attrs, data, label)
    return _dense_forward(F, attrs, data, label)


def _sparse_forward(F, attrs, data, label):
    # The label may lack the axis of the classes, or have size 1 there. Everything below has size 1 there.
    axis, smoothing = attrs.axis, attrs.smoothing
    one_class = F.reshape(first_class(F, data, axis), shape=(0, 0, -2))   # it has at least two dimensions
    keepdims_label = F.reshape_like(F.BlockGrad(label), one_class)
    valid, ignored = label_masks(F, exact(F, keepdims_label), data, axis, attrs.ignore_label)
    data = without_ignored(F, data, ignored)   # a NaN in an ignored row must not reach the gradient

    row_max, logits, log_sum = statistics(F, data, axis)
    loss = log_sum - F.pick(logits, F.BlockGrad(label), axis=axis, mode="clip", keepdims=True)
    weights = None
    if attrs.class_weight is not None:
        weights = numbers_along(F, data, attrs.class_weight, axis)
        loss = loss * F.pick(weights, keepdims_label, axis=axis, mode="clip", keepdims=True)
    if smoothing:
        loss = loss * (1 - smoothing) + _uniform_loss(F, logits, log_sum, weights, axis) * smoothing

    loss = loss * row_weights(F, loss, valid, ignored)
    return tuple(F.reshape_like(rows, F.BlockGrad(label)) for rows in (loss, row_max, log_sum))


def _uniform_loss(F, logits, log_sum, weights, axis):
    """Return the mean over the classes of their weighted nll."""
    if weights is None:
        return log_sum - F.mean(logits * SUM_SCALE, axis=axis, keepdims=True) / SUM_SCALE
    return F.mean(F.broadcast_sub(log_sum, logits) * weights * SUM_SCALE, axis=axis, keepdims=True) / SUM_SCALE


def _dense_forward(F, attrs, data, label):
    axis, smoothing = attrs.axis, attrs.smoothing
    row_max, logits, log_sum = statistics(F, data, axis)
    if smoothing:   # every weight is above 0, so 0 is not multiplied by infinity
        classes = F.sum(F.ones_like(F.BlockGrad(data)), axis=axis, keepdims=True)
        label = F.broadcast_add(label * (1 - smoothing), smoothing / classes)
    if attrs.class_weight is not None:
        label = label * numbers_along(F, data, attrs.class_weight, axis)
    loss = F.sum(F.broadcast_sub(log_sum, logits) * label, axis=axis, keepdims=True)
    return tuple(F.squeeze(rows, axis=axis) for rows in (loss, row_max, log_sum))


def backward(nd, attrs, shapes, output_grad, data, label, max, log_sum) -> dict:   # pylint: disable=redefined-builtin
    axis = attrs.axis % data.ndim
    keepdims_shape = data.shape[:axis] + (1,) + data.shape[axis + 1:]
    logits = nd.broadcast_sub(data, max.reshape(keepdims_shape))
    log_probabilities = nd.broadcast_sub(logits, log_sum.reshape(keepdims_shape))
    if attrs.sparse_label:
        return _sparse_backward(nd, attrs, output_grad, log_probabilities, label, keepdims_shape)
    return _dense_backward(nd, attrs, output_grad.reshape(keepdims_shape), log_probabilities, label)


def _dense_backward(nd, attrs, grad_out, log_probabilities, label):
    axis, smoothing = attrs.axis, attrs.smoothing
    uniform = smoothing / label.shape[axis]
    target = label * (1 - smoothing) + uniform
    label_grad = nd.broadcast_mul(log_probabilities, grad_out) * (smoothing - 1)
    if attrs.class_weight is not None:
        weights = numbers_along(nd, label, attrs.class_weight, axis)
        target = target * weights
        label_grad = label_grad * weights
    target_sum = nd.sum(target, axis=axis, keepdims=True)
    grad = nd.broadcast_mul(nd.exp(log_probabilities), target_sum) - target
    return {"data": nd.broadcast_mul(grad, grad_out), "label": label_grad}


def _sparse_backward(nd, attrs, output_grad, log_probabilities, label, keepdims_shape):
    axis, smoothing = attrs.axis % log_probabilities.ndim, attrs.smoothing
    classes, dtype = log_probabilities.shape[axis], log_probabilities.dtype
    row_shape = keepdims_shape[:axis] + keepdims_shape[axis + 1:]
    label, grad_out = label.reshape(keepdims_shape), output_grad.reshape(keepdims_shape)
    uniform = smoothing / classes
    target = onehot(nd, label.reshape(row_shape), classes, attrs.axis, dtype) * (1 - smoothing) + uniform

    valid, ignored = label_masks(nd, exact(nd, label), log_probabilities, attrs.axis, attrs.ignore_label)
    grad_out = grad_out * row_weights(nd, grad_out, valid, ignored)
    probabilities = nd.exp(log_probabilities)
    if attrs.class_weight is not None:
        target = target * numbers_along(nd, target, attrs.class_weight, axis)
        probabilities = nd.broadcast_mul(probabilities, nd.sum(target, axis=axis, keepdims=True))
    return {"data": without_ignored(nd, nd.broadcast_mul(probabilities - target, grad_out), ignored)}
