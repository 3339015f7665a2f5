"""swish: Ramachandran et al., section 4, and the derivative."""
from ops._activation.oracle import sigmoid


def forward(attrs, data):
    return {"output": data * sigmoid(attrs.beta * data)}


def backward(attrs, head, data):
    s = sigmoid(attrs.beta * data)
    return {"data": head * (s + attrs.beta * (data * (s * (1 - s))))}
