"""``softmax_cross_entropy`` out of MXNet's own operators, and its gradient."""
from ..softmax_output.reference import judge, onehot, row_weights

SHARE = 2.0 ** -10   # of the logits in their sum, which has to stay below float16's largest number


def forward(F, attrs, data, label):
    axis, e = attrs.axis, attrs.smoothing
    if attrs.sparse_label:
        # Labels may lack the axis or have one class there; inside, everything keeps it.
        kept = F.reshape_like(F.BlockGrad(label), F.BlockGrad(F.slice_axis(data, axis=axis, begin=0, end=1)))
        valid, ignored = judge(F, attrs, data, kept)
        if ignored is not None:   # so that a NaN in an ignored row stays out of the gradient
            data = F.where(F.broadcast_like(ignored, data), F.zeros_like(data), data)
    top = F.BlockGrad(F.max(data, axis=axis, keepdims=True))
    logits = F.broadcast_sub(data, top)
    log_sum = F.log(F.sum(F.exp(logits), axis=axis, keepdims=True))
    if attrs.sparse_label:
        loss = log_sum - F.pick(logits, kept, axis=axis, mode="clip", keepdims=True)
        if e:
            mean = F.mean(logits * SHARE, axis=axis, keepdims=True) / SHARE
            loss = loss * (1 - e) + (log_sum - mean) * e
    else:
        if e:   # above 0 everywhere, so that 0 meets no infinity
            classes = F.sum(F.ones_like(F.BlockGrad(data)), axis=axis, keepdims=True)
            label = F.broadcast_add(label * (1 - e), e / classes)
        loss = F.sum(F.broadcast_sub(log_sum, logits) * label, axis=axis, keepdims=True)
    if attrs.sparse_label:
        loss = loss * row_weights(F, loss, valid, ignored)
        return tuple(F.reshape_like(rows, F.BlockGrad(label)) for rows in (loss, top, log_sum))
    return tuple(F.squeeze(rows, axis=axis) for rows in (loss, top, log_sum))


def backward(nd, attrs, shapes, output_grad, data, label, max, log_sum):   # pylint: disable=redefined-builtin
    axis, e = attrs.axis % data.ndim, attrs.smoothing
    rows = data.shape[:axis] + data.shape[axis + 1:]
    kept = data.shape[:axis] + (1,) + data.shape[axis + 1:]
    head, log_sum = output_grad.reshape(kept), log_sum.reshape(kept)
    log_probabilities = nd.broadcast_sub(nd.broadcast_sub(data, max.reshape(kept)), log_sum)
    if not attrs.sparse_label:
        target = label * (1 - e) + e / data.shape[axis]
        mass = nd.sum(target, axis=axis, keepdims=True)
        grad = nd.broadcast_mul(nd.exp(log_probabilities), mass) - target
        return {"data": nd.broadcast_mul(grad, head),
                "label": nd.broadcast_mul(log_probabilities, head) * (e - 1)}
    label = label.reshape(rows)
    target = onehot(nd, attrs, shapes, label, data.dtype) * (1 - e) + e / data.shape[axis]
    valid, ignored = judge(nd, attrs, data, label)
    weights = row_weights(nd, output_grad.reshape(rows), valid, ignored).reshape(kept)
    grad = nd.broadcast_mul(nd.exp(log_probabilities) - target, head * weights)
    if ignored is not None:
        grad = nd.where(nd.broadcast_like(ignored.reshape(kept), grad), nd.zeros_like(grad), grad)
    return {"data": grad}
