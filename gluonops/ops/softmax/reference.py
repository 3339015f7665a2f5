"""``softmax`` out of MXNet's own operators, and its gradient."""


def probabilities(F, data, axis, temperature=1.0):
    """Softmax that sums to one in every dtype.

    MXNet's softmax adds up in the data's own type: in float16 the sum of 4,096 equal terms sticks at 2,048. Its sum
    operator does not, so dividing by the sum repairs the values, and, by the quotient rule, the gradient.
    """
    raw = F.softmax(data, axis=axis, temperature=temperature)
    return F.broadcast_div(raw, F.sum(raw, axis=axis, keepdims=True))


def forward(F, attrs, data):
    return probabilities(F, data, attrs.axis, attrs.temperature)


def backward(nd, attrs, shapes, output_grad, output):
    along = nd.sum(output_grad * output, axis=attrs.axis, keepdims=True)
    return {"data": nd.broadcast_sub(output_grad, along) * output / attrs.temperature}
