"""``center_loss`` out of MXNet's own operators, and its gradient."""
from .._labels.reference import exact, row_weights, valid_mask


def classified(F, label, centers):
    """Which labels are a class (float64, 1 or 0), and the labels with 0 in place of the others."""
    label = exact(F, label)
    valid = valid_mask(F, label, centers, 0)
    return valid, F.where(valid, label, F.zeros_like(label))


def forward(F, attrs, data, label, centers):
    valid, label = classified(F, label, centers)
    own_center = F.take(centers, label, axis=0, mode="clip")
    # A sample of no class is NaN, and so is its gradient. It adds nothing to the gradient of the centres.
    own_center = F.where(valid, own_center, F.BlockGrad(F.zeros_like(own_center)))
    weights = row_weights(F, F.sum(F.BlockGrad(own_center), axis=1), valid, None)
    difference = F.broadcast_mul(data, F.expand_dims(weights, axis=1)) - own_center
    return F.sum(F.square(difference), axis=1) / 2


def backward(nd, attrs, shapes, output_grad, data, label, centers):
    valid, label = classified(nd, label, centers)
    difference = data - nd.take(centers, label, axis=0, mode="clip")
    weights = row_weights(nd, output_grad, valid, None)
    weighted = nd.broadcast_mul(difference, -output_grad.expand_dims(1))
    center_grads = nd.where(valid, weighted, nd.zeros_like(difference))   # of every sample
    # The gradient of gather_nd adds up the rows of one class; scatter_nd itself keeps the last.
    return {"data": nd.broadcast_mul(difference, (output_grad * weights).expand_dims(1)),
            "centers": nd._internal._backward_gather_nd(center_grads, label.expand_dims(0), shape=shapes["centers"])}
