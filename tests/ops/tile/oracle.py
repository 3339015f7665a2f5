"""tile: as numpy.tile, or along one axis."""
import numpy as np


def copies(attrs, ndim):
    """How many copies there are along every axis."""
    if isinstance(attrs.tiles, (tuple, list)):
        return tuple(attrs.tiles)
    counts = [1] * ndim
    counts[attrs.axis] = attrs.tiles
    return tuple(counts)


def forward(attrs, data):
    return {"output": np.tile(data, copies(attrs, data.ndim))}


def backward(attrs, head, data):
    """Number the elements, tile the numbers, and sum what lands on each."""
    numbers = np.arange(data.size).reshape(data.shape)
    numbers = np.tile(numbers, copies(attrs, data.ndim))
    gradient = np.bincount(numbers.ravel(), head.ravel(), data.size)
    return {"data": gradient.reshape(data.shape)}
