"""softmax: with a temperature, over one axis."""
from .._softmax.oracle import softmax


def forward(attrs, data):
    return {"output": softmax(data, attrs.axis, attrs.temperature)}


def backward(attrs, head, data):
    output = softmax(data, attrs.axis, attrs.temperature)
    inner = (head * output).sum(attrs.axis, keepdims=True)
    return {"data": (head - inner) * output / attrs.temperature}
