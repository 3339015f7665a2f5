"""lovasz_softmax: Berman et al., definition 1 and equations 6 to 12: the sets of the places with the largest errors."""
import math

import numpy as np
from ops._softmax.oracle import softmax, valid_rows


def steps(errors, in_class):
    """Equation 9: what each place adds to the Jaccard loss of equation 6, in the order of falling errors.

    The wrong places are the first ones of that order. Their union with the class has those of them that lie outside it
    besides the class.
    """
    order = np.argsort(-errors, kind="stable")
    wrong, joined = np.arange(1, len(order) + 1), np.count_nonzero(in_class) + np.cumsum(~in_class[order])
    by_pixel = np.zeros(errors.shape)
    by_pixel[order] = np.diff(wrong / joined, prepend=0.0)
    return by_pixel


def selection(attrs, p, label):
    """Return the loss of (places, classes) probabilities, and its derivative by them."""
    classes = range(p.shape[1])
    counted = [c for c in classes if np.any(label == c)] if attrs.present_only else list(classes) if len(p) else []
    class_weight = attrs.class_weight or (1.0,)
    weights = np.array([class_weight[c if len(class_weight) > 1 else 0] for c in classes])
    total = weights[counted].sum()
    loss, derivative = 0.0, np.zeros(p.shape)
    for c in counted if total else ():
        in_class = label == c
        errors = np.where(in_class, 1 - p[:, c], p[:, c])
        step = steps(errors, in_class) * weights[c] / total
        loss += (errors * step).sum()
        derivative[:, c] = np.where(in_class, -step, step)
    if not np.isin(label, classes).all():
        return np.nan, np.full(p.shape, np.nan)
    return loss, derivative


def losses(attrs, data, label):
    """Return the loss of each sample, and the derivative by the logits of that of its selection."""
    batch, classes = data.shape[:2]
    places = math.prod(data.shape[2:])
    data, label = np.moveaxis(data.reshape(batch, classes, places), 1, 2), label.reshape(batch, places)
    counted = valid_rows(label, attrs.ignore_label)
    p = softmax(np.where(counted[..., None], data, 0), 2)
    of_samples, derivative = np.zeros(batch), np.zeros(p.shape)
    for chosen in [[n] for n in range(batch)] if attrs.per_sample else [list(range(batch))]:
        mask = np.zeros(counted.shape, bool)
        mask[chosen] = counted[chosen]
        of_samples[chosen], by_p = selection(attrs, p[mask], label[mask])
        derivative[mask] = p[mask] * (by_p - (by_p * p[mask]).sum(1, keepdims=True))
    return of_samples, np.moveaxis(derivative, 2, 1)


def forward(attrs, data, label):
    output, derivative = losses(attrs, data, label)
    return {"output": output, "derivative": derivative.reshape(data.shape)}


def backward(attrs, head, data, label):
    _, derivative = losses(attrs, data, label)
    factor = head if attrs.per_sample else np.full(head.shape, head.sum())
    return {"data": (derivative * factor[:, None, None]).reshape(data.shape)}
