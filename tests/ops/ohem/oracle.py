"""ohem: Shrivastava et al., section 4: the losses in their order, of which the first are kept; ties by their place."""
import math

import numpy as np


def selection(attrs, losses):
    """Return which losses of a vector are kept."""
    hardness = np.where(np.isnan(losses), np.inf, losses)
    places = np.flatnonzero(losses != 0)
    order = places[np.argsort(-hardness[places], kind="stable")]
    number = math.ceil(attrs.ratio * len(places)) if attrs.keep is None else attrs.keep
    if attrs.threshold is not None:
        number = max(number, np.count_nonzero(hardness[places] > attrs.threshold))
    kept = np.zeros(losses.shape, bool)
    kept[order[:number]] = True
    return kept


def mask(attrs, data):
    """Return which losses are kept, in the shape of the data."""
    rows = data.reshape(len(data), -1) if attrs.per_sample and data.size else data.reshape(1, -1)
    return np.stack([selection(attrs, row) for row in rows]).reshape(data.shape)


def forward(attrs, data):
    return {"output": np.where(mask(attrs, data), data, 0)}


def backward(attrs, head, data):
    return {"data": np.where(mask(attrs, data), head, 0)}
