"""``gelu`` and its gradient, computed with MXNet's own operators."""
import math

import numpy as np

from ...backends.emitter import Array

SLOPE, CUBIC = math.sqrt(2 / math.pi), 0.044715
ERF_SLOPE = float(np.float32(math.sqrt(math.pi))) / math.sqrt(math.pi)
BOUND = 30.0   # beyond it the sigmoid is 0 or 1, and its argument may not be finite


def sigmoid(F, bounded: Array) -> Array:
    """Return (1 + tanh(u)) / 2."""
    return F.sigmoid(bounded * (F.square(bounded) * (2 * SLOPE * CUBIC) + 2 * SLOPE))


def erf(F, x: Array) -> Array:
    """Return MXNet's erf with an exact derivative. MXNet's own rounds the root of pi to float32."""
    value = F.erf(x)
    return value + (value - F.BlockGrad(value)) * (ERF_SLOPE - 1)


def probability(F, data: Array) -> Array:
    """Return the normal distribution function of every element."""
    return (erf(F, data * math.sqrt(0.5)) + 1) / 2


def forward(F, attrs, data: Array) -> Array:
    if attrs.approximation == "tanh":
        return data * sigmoid(F, F.clip(data, -BOUND, BOUND))
    return data * probability(F, data)


def backward(nd, attrs, shapes, output_grad, data) -> dict:
    if attrs.approximation == "tanh":
        bounded = nd.clip(data, -BOUND, BOUND)
        s = sigmoid(nd, bounded)
        inner = nd.square(bounded) * (6 * SLOPE * CUBIC) + 2 * SLOPE
        return {"data": output_grad * (s + bounded * (s * (1 - s)) * inner)}
    density = nd.exp(nd.square(data) / -2) / math.sqrt(2 * math.pi)
    return {"data": output_grad * (probability(nd, data) + data * density)}
