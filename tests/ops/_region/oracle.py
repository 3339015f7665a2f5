"""What the oracles of the region family share: Darknet's region layer in NumPy.

Maps are (batch, anchors, 5 + classes, height, width); boxes are (x, y, w, h) from 0 to 1; anchors are flat.
"""
import numpy as np

LOGISTIC = [0, 1, 4]   # x, y and objectness


def split(data, classes):
    """(batch, anchors * (5 + classes), height, width) as maps."""
    batch, channels, height, width = data.shape
    return data.reshape(batch, channels // (5 + classes), 5 + classes, height, width)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def activate(maps, softmax):
    """What Darknet's layer puts out."""
    out = maps.copy()
    out[:, :, LOGISTIC] = sigmoid(maps[:, :, LOGISTIC])
    if softmax:
        powers = np.exp(maps[:, :, 5:] - maps[:, :, 5:].max(axis=2, keepdims=True))
        out[:, :, 5:] = powers / powers.sum(axis=2, keepdims=True)
    else:
        out[:, :, 5:] = sigmoid(maps[:, :, 5:])
    return out


def boxes(out, anchors):
    """The boxes (batch, anchors, 4, height, width) of activated maps."""
    height, width = out.shape[3:]
    decoded = np.empty_like(out[:, :, :4])
    decoded[:, :, 0] = (np.arange(width) + out[:, :, 0]) / width
    decoded[:, :, 1] = (np.arange(height)[:, None] + out[:, :, 1]) / height
    for anchor in range(out.shape[1]):
        anchor_width, anchor_height = anchors[2 * anchor:2 * anchor + 2]
        decoded[:, anchor, 2] = np.exp(out[:, anchor, 2]) * anchor_width / width
        decoded[:, anchor, 3] = np.exp(out[:, anchor, 3]) * anchor_height / height
    return decoded


def iou(first, second):
    """The intersection over union of two boxes."""
    sides = [min(first[i] + first[i + 2] / 2, second[i] + second[i + 2] / 2)
             - max(first[i] - first[i + 2] / 2, second[i] - second[i + 2] / 2) for i in (0, 1)]
    common = max(sides[0], 0) * max(sides[1], 0)
    return common / (first[2] * first[3] + second[2] * second[3] - common) if common else 0.0
