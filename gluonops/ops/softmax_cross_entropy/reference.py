"""``softmax_cross_entropy`` out of MXNet's own operators, and its gradient."""
from .._labels.reference import exact, ignored_mask, onehot, row_weights, valid_mask

SHARE = 2.0 ** -10   # of the logits in their sum, which has to stay below float16's largest number


def forward(F, attrs, data, label):
    axis, smoothing = attrs.axis, attrs.smoothing
    if attrs.sparse_label:
        # The label may lack the axis, or have size 1 there. Inside, everything has size 1 there.
        one_class = F.BlockGrad(F.slice_axis(data, axis=axis, begin=0, end=1))
        keepdims_label = F.reshape_like(F.BlockGrad(label), one_class)
        labels = exact(F, keepdims_label)
        valid, ignored = valid_mask(F, labels, data, axis), ignored_mask(labels, attrs.ignore_label)
        if ignored is not None:   # so that a NaN in an ignored row stays out of the gradient
            data = F.where(F.broadcast_like(ignored, data), F.zeros_like(data), data)

    row_max = F.BlockGrad(F.max(data, axis=axis, keepdims=True))
    logits = F.broadcast_sub(data, row_max)
    log_sum = F.log(F.sum(F.exp(logits), axis=axis, keepdims=True))
    if attrs.sparse_label:
        loss = log_sum - F.pick(logits, keepdims_label, axis=axis, mode="clip", keepdims=True)
        if smoothing:
            mean = F.mean(logits * SHARE, axis=axis, keepdims=True) / SHARE
            uniform_loss = log_sum - mean
            loss = loss * (1 - smoothing) + uniform_loss * smoothing
    else:
        if smoothing:   # every weight is above 0 then, so that no 0 meets an infinity
            classes = F.sum(F.ones_like(F.BlockGrad(data)), axis=axis, keepdims=True)
            label = F.broadcast_add(label * (1 - smoothing), smoothing / classes)
        loss = F.sum(F.broadcast_sub(log_sum, logits) * label, axis=axis, keepdims=True)

    if attrs.sparse_label:
        loss = loss * row_weights(F, loss, valid, ignored)
        return tuple(F.reshape_like(rows, F.BlockGrad(label)) for rows in (loss, row_max, log_sum))
    return tuple(F.squeeze(rows, axis=axis) for rows in (loss, row_max, log_sum))


def backward(nd, attrs, shapes, output_grad, data, label, max, log_sum):   # pylint: disable=redefined-builtin
    axis, smoothing = attrs.axis % data.ndim, attrs.smoothing
    keepdims_shape = data.shape[:axis] + (1,) + data.shape[axis + 1:]
    head = output_grad.reshape(keepdims_shape)
    logits = nd.broadcast_sub(data, max.reshape(keepdims_shape))
    log_probabilities = nd.broadcast_sub(logits, log_sum.reshape(keepdims_shape))
    uniform = smoothing / data.shape[axis]
    if not attrs.sparse_label:
        target = label * (1 - smoothing) + uniform
        target_sum = nd.sum(target, axis=axis, keepdims=True)
        grad = nd.broadcast_mul(nd.exp(log_probabilities), target_sum) - target
        return {"data": nd.broadcast_mul(grad, head),
                "label": nd.broadcast_mul(log_probabilities, head) * (smoothing - 1)}

    row_shape = data.shape[:axis] + data.shape[axis + 1:]
    label = label.reshape(row_shape)
    target = onehot(nd, label, data.shape[axis], attrs.axis, data.dtype) * (1 - smoothing) + uniform
    labels = exact(nd, label)
    valid, ignored = valid_mask(nd, labels, data, attrs.axis), ignored_mask(labels, attrs.ignore_label)
    weights = row_weights(nd, output_grad.reshape(row_shape), valid, ignored).reshape(keepdims_shape)
    grad = nd.broadcast_mul(nd.exp(log_probabilities) - target, head * weights)
    if ignored is not None:
        is_ignored = nd.broadcast_like(ignored.reshape(keepdims_shape), grad)
        grad = nd.where(is_ignored, nd.zeros_like(grad), grad)
    return {"data": grad}
