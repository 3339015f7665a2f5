"""``swiglu`` and its gradient, computed with MXNet's own operators."""
from ...backends.emitter import Array


def forward(F, attrs, data: Array) -> Array:
    gate, value = F.split(data, num_outputs=2, axis=attrs.axis)
    return gate * F.sigmoid(gate) * value


def backward(nd, attrs, shapes, output_grad, data) -> dict:
    gate, value = nd.split(data, num_outputs=2, axis=attrs.axis)
    s = nd.sigmoid(gate)
    by_gate = output_grad * value * (s + gate * (s * (1 - s)))
    by_value = output_grad * (gate * s)
    by_halves = nd.stack(by_gate, by_value, axis=attrs.axis % len(data.shape))   # oneDNN's concat takes six dimensions
    return {"data": nd.reshape_like(by_halves, data)}
