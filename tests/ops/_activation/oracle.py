"""What the oracles of the activations share."""
import numpy as np


def sigmoid(x):
    """1 / (1 + exp(-x)), whose digits do not get lost for small results."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)
