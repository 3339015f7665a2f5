"""Softmax in MXNet's own operators.

MXNet's softmax adds up in the data's own type: in float16 the sum of 4,096 equal terms sticks at 2,048. Its sum
operator does not. So dividing by the sum repairs the values, and, by the quotient rule, the gradient.
"""


def probabilities(F, data, axis, temperature=1.0):
    """Softmax that sums to one in every dtype."""
    raw = F.softmax(data, axis=axis, temperature=temperature)
    return F.broadcast_div(raw, F.sum(raw, axis=axis, keepdims=True))


def log_probabilities(F, data, axis):
    """Log-softmax whose exponentials sum to one in every dtype."""
    raw = F.log_softmax(data, axis=axis)
    return F.broadcast_sub(raw, F.log(F.sum(F.exp(raw), axis=axis, keepdims=True)))
