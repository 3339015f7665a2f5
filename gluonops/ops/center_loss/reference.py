"""``center_loss`` out of MXNet's own operators, and its gradient."""
from ..softmax_output.reference import row_weights


def classified(F, label, centers):
    """Which labels are a class (float64, 1 or 0), and the labels with 0 in place of the others."""
    label = F.cast(F.BlockGrad(label), dtype="float64")   # holds every label exactly
    classes = F.cast(F.slice_axis(F.shape_array(F.BlockGrad(centers)), axis=0, begin=0, end=1), dtype="float64")
    valid = F.broadcast_lesser(label, classes) * (label >= 0) * (F.floor(label) == label)
    return valid, F.where(valid, label, F.zeros_like(label))


def forward(F, attrs, data, label, centers):
    valid, label = classified(F, label, centers)
    own = F.take(centers, label, axis=0, mode="clip")
    # A sample of no class is NaN, and so is its gradient; its part in the centres' gradient is cut off.
    own = F.where(valid, own, F.BlockGrad(F.zeros_like(own)))
    weights = row_weights(F, F.sum(F.BlockGrad(own), axis=1), valid, None)
    return F.sum(F.square(F.broadcast_mul(data, F.expand_dims(weights, axis=1)) - own), axis=1) / 2


def backward(nd, attrs, shapes, output_grad, data, label, centers):
    valid, label = classified(nd, label, centers)
    distance = data - nd.take(centers, label, axis=0, mode="clip")
    weights = row_weights(nd, output_grad, valid, None)
    pull = nd.where(valid, nd.broadcast_mul(distance, -output_grad.expand_dims(1)), nd.zeros_like(distance))
    # The gradient of gather_nd adds up what falls on one row; scatter_nd itself keeps the last.
    return {"data": nd.broadcast_mul(distance, (output_grad * weights).expand_dims(1)),
            "centers": nd._internal._backward_gather_nd(pull, label.expand_dims(0), shape=shapes["centers"])}
