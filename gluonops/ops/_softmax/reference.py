"""Softmax, computed with MXNet's own operators.

MXNet's softmax accumulates in the data's dtype. In float16 the sum of 4,096 equal terms stops at 2,048. MXNet's sum
operator accumulates in float32. Dividing by this sum corrects the values. By the quotient rule it also corrects the
gradient.
"""
from ...backends.emitter import Array

STEP = 2.0 ** 14   # float16 holds this factor and its inverse


def probabilities(F, data: Array, axis: int, temperature: float = 1.0) -> Array:
    """Return a softmax whose rows sum to 1 in every dtype."""
    if temperature < 1 / STEP:   # such a divisor may round to 0 in the data's dtype
        row_max = F.BlockGrad(F.max(data, axis=axis, keepdims=True))
        data = divide_by_temperature(F.broadcast_sub(data, row_max), temperature)
        temperature = 1.0
    raw = F.softmax(data, axis=axis, temperature=temperature)
    return F.broadcast_div(raw, F.sum(raw, axis=axis, keepdims=True))


def log_probabilities(F, data: Array, axis: int) -> Array:
    """Return a log-softmax whose exponentials sum to 1 in every dtype."""
    raw = F.log_softmax(data, axis=axis)
    return F.broadcast_sub(raw, F.log(F.sum(F.exp(raw), axis=axis, keepdims=True)))


def divide_by_temperature(values: Array, temperature: float) -> Array:
    """Return ``values / temperature``, in steps whose factors every dtype can represent. 0 stays 0."""
    while temperature < 1 / STEP:
        values = values * STEP
        temperature = temperature * STEP
    return values / temperature


def statistics(F, data: Array, axis: int) -> tuple[Array, Array, Array]:
    """Return the maximum of each row, the logits minus it, and the logarithm of the sum of their exponentials."""
    row_max = F.BlockGrad(F.max(data, axis=axis, keepdims=True))
    logits = F.broadcast_sub(data, row_max)
    log_sum = F.log(F.sum(F.exp(logits), axis=axis, keepdims=True))
    return row_max, logits, log_sum
