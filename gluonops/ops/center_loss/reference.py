"""``center_loss`` and its gradient, computed with MXNet's own operators."""
from ...backends.emitter import Array
from ...backends.pins import same_shape
from .._labels.reference import exact, row_weights, valid_mask


def valid_labels(F, label: Array, centers: Array) -> tuple[Array, Array]:
    """Return the valid mask (float64, 1 or 0), and the labels as float64 with 0 in place of invalid ones.

    Both are (B,).
    """
    label = exact(F, label)
    valid = valid_mask(F, label, centers, 0)
    return valid, F.where(valid, label, F.zeros_like(label))


def forward(F, attrs, data: Array, label: Array, centers: Array) -> Array:
    valid, label = valid_labels(F, label, centers)
    own_center = F.take(centers, label, axis=0, mode="clip")
    own_center = same_shape(F, own_center, data)   # broadcasting would take a single sample for all labels
    # With an invalid label, loss and gradient of the sample are NaN. The gradient of the centres gets nothing from it.
    own_center = F.where(valid, own_center, F.BlockGrad(F.zeros_like(own_center)))
    weights = row_weights(F, F.sum(F.BlockGrad(own_center), axis=1), valid, None)
    difference = F.broadcast_mul(data, F.expand_dims(weights, axis=1)) - own_center
    return F.sum(F.square(difference), axis=1) / 2


def backward(nd, attrs, shapes, output_grad, data, label, centers) -> dict:
    valid, label = valid_labels(nd, label, centers)
    difference = data - nd.take(centers, label, axis=0, mode="clip")

    weights = row_weights(nd, output_grad, valid, None)
    data_grad = nd.broadcast_mul(difference, (output_grad * weights).expand_dims(1))

    weighted = nd.broadcast_mul(difference, -output_grad.expand_dims(1))
    sample_grads = nd.where(valid, weighted, nd.zeros_like(difference))   # each sample's share of its centre's gradient
    # The gradient of gather_nd sums the rows of a class, one after the other: float32 would lose digits of a sum of
    # many. scatter_nd would keep only the last row.
    centers_grad = nd._internal._backward_gather_nd(sample_grads.astype("float64"), label.expand_dims(0),
                                                    shape=shapes["centers"])
    return {"data": data_grad, "centers": centers_grad.astype(data.dtype)}
