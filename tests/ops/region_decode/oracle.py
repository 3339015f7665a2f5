"""region_decode: the boxes, objectness and classes of a region layer."""
import numpy as np

from .._region.oracle import LOGISTIC, activate, boxes, sigmoid, split


def forward(attrs, data):
    out = activate(split(data, attrs.classes), attrs.softmax)
    if attrs.layout == "map":
        return {"output": out.reshape(data.shape)}
    decoded = np.concatenate([boxes(out, attrs.anchors), out[:, :, 4:]], axis=2)
    return {"output": decoded.transpose(0, 1, 3, 4, 2)}


def backward(attrs, head, data):
    maps = split(data, attrs.classes)
    out = activate(maps, attrs.softmax)
    height, width = data.shape[2:]
    if attrs.layout == "map":
        gradient = head.reshape(maps.shape).copy()
    else:
        gradient = head.transpose(0, 1, 4, 2, 3).copy()

    logistic = list(LOGISTIC)
    if attrs.softmax:
        gradient[:, :, 5:] -= (gradient * out)[:, :, 5:].sum(axis=2, keepdims=True)
        gradient[:, :, 5:] *= out[:, :, 5:]
    else:
        logistic += range(5, 5 + attrs.classes)
    slope = sigmoid(maps) * (1 - sigmoid(maps))
    for channel in logistic:
        gradient[:, :, channel] *= slope[:, :, channel]

    if attrs.layout == "boxes":
        gradient[:, :, 0] /= width
        gradient[:, :, 1] /= height
        gradient[:, :, 2:4] *= boxes(out, attrs.anchors)[:, :, 2:4]
    return {"data": gradient.reshape(data.shape)}
