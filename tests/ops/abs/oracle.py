"""abs: the magnitude of every element."""
import numpy as np


def forward(attrs, data):
    return {"output": np.abs(data)}


def backward(attrs, head, data):
    return {"data": head * (1.0 * (data > 0) - (data < 0))}   # 0 for NaN, as MXNet's
