"""mish: Misra's formula, equation 1, and its derivative."""
import numpy as np
from ops._activation.oracle import sigmoid


def forward(attrs, data):
    return {"output": data * np.tanh(np.logaddexp(0, data))}


def backward(attrs, head, data):
    tanh = np.tanh(np.logaddexp(0, data))
    return {"data": head * (tanh + data * ((1 - tanh ** 2) * sigmoid(data)))}
