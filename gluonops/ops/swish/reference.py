"""``swish`` and its gradient, computed with MXNet's own operators."""
from __future__ import annotations

from ...core.backend import Array


def forward(F, attrs, data: Array) -> Array:
    return data * F.sigmoid(data * attrs.beta)


def backward(nd, attrs, shapes, output_grad, data) -> dict:
    s = nd.sigmoid(data * attrs.beta)
    return {"data": output_grad * (s + data * (s * (1 - s)) * attrs.beta)}
