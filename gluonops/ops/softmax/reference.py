"""``softmax`` out of MXNet's own operators, and its gradient."""


STEP = 2.0 ** 14   # what float16 can be multiplied with at once, and its inverse divided by


def probabilities(F, data, axis, temperature=1.0):
    """Softmax that sums to one in every dtype.

    MXNet's softmax adds up in the data's own type: in float16 the sum of 4,096 equal terms sticks at 2,048. Its sum
    operator does not, so dividing by the sum repairs the values, and, by the quotient rule, the gradient.
    """
    if temperature < 1 / STEP:   # MXNet's softmax divides by what may be 0 in the data's type
        top = F.BlockGrad(F.max(data, axis=axis, keepdims=True))
        data, temperature = over(F.broadcast_sub(data, top), temperature), 1.0
    raw = F.softmax(data, axis=axis, temperature=temperature)
    return F.broadcast_div(raw, F.sum(raw, axis=axis, keepdims=True))


def over(values, temperature):
    """Values divided by the temperature, in steps that are numbers of every dtype: 0 stays 0."""
    while temperature < 1 / STEP:
        values, temperature = values * STEP, temperature * STEP
    return values / temperature


def forward(F, attrs, data):
    return probabilities(F, data, attrs.axis, attrs.temperature)


def backward(nd, attrs, shapes, output_grad, output):
    along = nd.sum(output_grad * output, axis=attrs.axis, keepdims=True)
    return {"data": over(nd.broadcast_sub(output_grad, along) * output, attrs.temperature)}
