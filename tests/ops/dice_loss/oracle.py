"""dice_loss: Milletari et al., section 3, of the softmax of each sample, and the derivative."""
import numpy as np
from ops._softmax.oracle import nll, onehot, softmax, valid_rows


def parts(attrs, data, label):
    """Return the probabilities and the label's ones, both 0 at ignored places; and the places that count."""
    counted = valid_rows(label, attrs.ignore_label)
    kept = np.expand_dims(counted, 1)
    classes = np.where(counted, label, 0)
    p = np.where(kept, softmax(np.where(kept, data, 0), 1), 0)
    target = np.where(kept, onehot(classes, data.shape[1], 1), 0)
    return p, target, kept


def sums(attrs, p, target):
    places = tuple(range(2, p.ndim))
    powers = p ** 2 if attrs.squared else p
    return (p * target).sum(places), (powers + target).sum(places)


def forward(attrs, data, label):
    p, target, kept = parts(attrs, data, label)
    intersection, total = sums(attrs, p, target)
    logits = np.where(kept, data, 0)
    row_max = logits.max(1)
    return {"output": 1 - (2 * intersection + attrs.smooth) / (total + attrs.smooth), "intersection": intersection,
            "total": total, "max": row_max, "log_sum": nll(logits, 1)[:, 0] + logits[:, 0] - row_max}


def backward(attrs, head, data, label):
    p, target, kept = parts(attrs, data, label)
    intersection, total = sums(attrs, p, target)
    head, intersection, total = (values.reshape(*values.shape, *[1] * (p.ndim - 2))
                                 for values in (head, intersection, total))
    by_intersection = -2 * head / (total + attrs.smooth)
    by_total = head * (2 * intersection + attrs.smooth) / (total + attrs.smooth) ** 2
    by_p = by_intersection * target + by_total * (2 * p if attrs.squared else 1)
    return {"data": np.where(kept, p * (by_p - (by_p * p).sum(1, keepdims=True)), 0)}
