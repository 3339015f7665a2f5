"""``swish`` and its gradient, computed with MXNet's own operators."""
from ...backends.emitter import Array


def forward(F, attrs, data: Array) -> Array:
    scaled = data if attrs.beta == 1 else data * attrs.beta
    return data * F.Activation(scaled, act_type="sigmoid")   # oneDNN's is vectorized, unlike MXNet's own


def backward(nd, attrs, shapes, output_grad, data) -> dict:
    s = nd.sigmoid(data * attrs.beta)
    return {"data": output_grad * (s + data * (s * (1 - s)) * attrs.beta)}
