"""Softmax in MXNet's own operators.

MXNet's softmax adds up in the data's own type: in float16 the sum of 4,096 equal terms sticks at 2,048. Its sum
operator does not. So dividing by the sum repairs the values, and, by the quotient rule, the gradient.
"""
STEP = 2.0 ** 14   # a factor that float16 holds, as it holds its inverse


def probabilities(F, data, axis, temperature=1.0):
    """Softmax that sums to one in every dtype."""
    if temperature < 1 / STEP:   # MXNet's softmax would divide by a number that may be 0 in the data's type
        row_max = F.BlockGrad(F.max(data, axis=axis, keepdims=True))
        data, temperature = divide_by_temperature(F.broadcast_sub(data, row_max), temperature), 1.0
    raw = F.softmax(data, axis=axis, temperature=temperature)
    return F.broadcast_div(raw, F.sum(raw, axis=axis, keepdims=True))


def log_probabilities(F, data, axis):
    """Log-softmax whose exponentials sum to one in every dtype."""
    raw = F.log_softmax(data, axis=axis)
    return F.broadcast_sub(raw, F.log(F.sum(F.exp(raw), axis=axis, keepdims=True)))


def divide_by_temperature(values, temperature):
    """Values divided by the temperature, in steps that every dtype holds. 0 stays 0."""
    while temperature < 1 / STEP:
        values, temperature = values * STEP, temperature * STEP
    return values / temperature
