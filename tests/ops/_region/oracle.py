"""Parts shared by the oracles of the region family: Darknet's region layer in NumPy.

Maps are (batch, anchors, 5 + classes, height, width). Boxes are (x, y, w, h) from 0 to 1. Anchors are (w0, h0, w1, h1,
...) in cells.
"""
import numpy as np

LOGISTIC = [0, 1, 4]   # channels with a sigmoid: x, y and objectness


def split(data, classes):
    """``data``, (batch, anchors * (5 + classes), height, width), as maps."""
    batch, channels, height, width = data.shape
    return data.reshape(batch, channels // (5 + classes), 5 + classes, height, width)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def activate(maps, softmax):
    """Return the output of Darknet's layer, as maps."""
    out = maps.copy()
    out[:, :, LOGISTIC] = sigmoid(maps[:, :, LOGISTIC])
    logits = maps[:, :, 5:]
    if softmax:
        powers = np.exp(logits - logits.max(axis=2, keepdims=True))
        out[:, :, 5:] = powers / powers.sum(axis=2, keepdims=True)
    else:
        out[:, :, 5:] = sigmoid(logits)
    return out


def boxes(out, anchors):
    """Return the boxes of activated maps, (batch, anchors, 4, height, width)."""
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
    """Return the intersection over union of two boxes. It is 0 if they do not overlap."""
    intersection = _overlap(first, second, 0) * _overlap(first, second, 1)
    if not intersection:
        return 0.0
    union = first[2] * first[3] + second[2] * second[3] - intersection
    return intersection / union


def giou(first, second):
    """Return the generalized intersection over union of two boxes. Complex boxes are compared by their real part."""
    overlaps, hulls = zip(*(_overlap_and_hull(first, second, axis) for axis in (0, 1)))
    intersection = 0
    if all(overlap.real > 0 for overlap in overlaps):
        intersection = overlaps[0] * overlaps[1]
    hull = hulls[0] * hulls[1]
    union = first[2] * first[3] + second[2] * second[3] - intersection
    return intersection / union - (hull - union) / hull


def _overlap_and_hull(first, second, axis):
    """Along an axis (0 or 1): length of the overlap, and of the smallest interval that contains both boxes."""
    lows = [box[axis] - box[axis + 2] / 2 for box in (first, second)]
    highs = [box[axis] + box[axis + 2] / 2 for box in (first, second)]
    overlap = min(highs, key=np.real) - max(lows, key=np.real)
    hull = max(highs, key=np.real) - min(lows, key=np.real)
    return overlap, hull


def _overlap(first, second, axis):
    """Length of the overlap along an axis (0 or 1), 0 if there is none."""
    low = max(box[axis] - box[axis + 2] / 2 for box in (first, second))
    high = min(box[axis] + box[axis + 2] / 2 for box in (first, second))
    return max(high - low, 0)
