"""What every operator computes, in NumPy from its definition: all outputs and gradients by name.

``FORMULAS[op](attrs, given)``: ``attrs`` has every attribute, ``given`` the inputs and ``output_grad`` in float64
(integers as they are). Without a head gradient, where the operator reads one, there is no gradient in the result.
What is more than a line is the oracle of the operator's own suite.
"""
import pathlib
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "ops"))
import region_cases as region  # noqa: E402
from softmax_oracle import onehot, softmax, surprise  # noqa: E402


def absolute(attrs, given):
    found = {"output": np.abs(given["data"])}
    if "output_grad" in given:
        found["data_grad"] = given["output_grad"] * np.sign(given["data"])
    return found


def reorg(attrs, given):
    """The gradient of an element goes back to where it came from: number the elements, and move the numbers."""
    data = given["data"]
    origin = reorganised(attrs, np.arange(data.size).reshape(data.shape))
    found = {"output": data.ravel()[origin]}
    if "output_grad" in given:
        gradient = np.empty(data.size)
        gradient[origin.ravel()] = given["output_grad"].ravel()
        found["data_grad"] = gradient.reshape(data.shape)
    return found


def reorganised(attrs, data):
    """Blocks of stride x stride into channels; reverse: the way back, where darknet's is DCR's."""
    s, (b, c, h, w) = attrs.stride, data.shape
    if attrs.reverse:
        larger = np.arange(data.size).reshape(b, c // (s * s), h * s, w * s)
        found = np.empty(data.size, data.dtype)
        found[moved_blocks("CRD" if attrs.mode == "CRD" else "DCR", s, larger).ravel()] = data.ravel()
        return found.reshape(larger.shape)
    smaller = b, c * s * s, h // s, w // s
    if attrs.mode == "darknet":   # DCR of the same memory, read as fewer channels of a larger image
        return moved_blocks("DCR", s, data.reshape(b, c // (s * s), h * s, w * s)).reshape(smaller)
    return moved_blocks(attrs.mode, s, data).reshape(smaller)


def moved_blocks(mode, s, data):
    b, c, h, w = data.shape
    order = (0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4)
    return np.ascontiguousarray(data.reshape(b, c, h // s, s, w // s, s).transpose(order))


def tile(attrs, given):
    """Each element's gradient is the sum over its copies."""
    data, counts = given["data"], attrs.tiles
    if not isinstance(counts, (tuple, list)):
        counts = [counts if i == attrs.axis % data.ndim else 1 for i in range(data.ndim)]
    counts = [1] * (data.ndim - len(counts)) + list(counts)
    found = {"output": np.tile(data, counts)}
    if "output_grad" in given:
        sizes = [1] * (len(counts) - data.ndim) + list(data.shape)
        pairs = [n for pair in zip(counts, sizes) for n in pair]   # copies and elements of each dimension
        found["data_grad"] = given["output_grad"].reshape(pairs).sum(tuple(range(0, len(pairs), 2))).reshape(data.shape)
    return found


def softmax_(attrs, given):
    output = softmax(given["data"], attrs.axis, attrs.temperature)
    head = given["output_grad"]
    return {"output": output, "data_grad": output * (
        head - (head * output).sum(attrs.axis, keepdims=True)) / attrs.temperature}


def counted(attrs, label):
    """1 for the rows that count, 0 for those whose label is ignored."""
    return np.ones(label.shape) if attrs.ignore_label is None else (label != attrs.ignore_label).astype("float64")


def softmax_output(attrs, given):
    data, label = given["data"], given["label"]
    output, counts = softmax(data, attrs.axis), counted(attrs, label)
    divisor = {"null": 1, "batch": label.shape[0], "valid": max(1, counts.sum())}[attrs.normalization]
    gradient = output - onehot(label, data.shape[attrs.axis], attrs.axis)
    return {"output": output,
            "data_grad": gradient * np.expand_dims(counts * attrs.grad_scale / divisor, attrs.axis)}


def softmax_cross_entropy(attrs, given):
    """For the hidden outputs ``max`` and ``log_sum`` an ignored row counts as a row of zeros."""
    data, label, axis = given["data"], given["label"], attrs.axis % given["data"].ndim
    classes, rows = data.shape[axis], [n for i, n in enumerate(data.shape) if i != axis]
    shape, ignored = label.shape if attrs.sparse_label else rows, np.zeros(rows, bool)
    if attrs.sparse_label:
        label = label.reshape(rows)   # it may have kept the axis, with one class
        ignored = counted(attrs, label) == 0
        label = onehot(label, classes, axis)
    data = np.where(np.expand_dims(ignored, axis), 0, data)
    target = label * (1 - attrs.smoothing) + attrs.smoothing / classes
    target = np.where(np.expand_dims(ignored, axis), 0, target)
    top, surprises = data.max(axis), surprise(data, axis)
    head = np.expand_dims(given["output_grad"].reshape(rows), axis)

    found = {"output": (surprises * target).sum(axis), "max": top,
             "log_sum": np.log(np.exp(data - np.expand_dims(top, axis)).sum(axis))}
    found = {name: array.reshape(shape) for name, array in found.items()}
    found["data_grad"] = head * (softmax(data, axis) * target.sum(axis, keepdims=True) - target)
    if not attrs.sparse_label:
        found["label_grad"] = head * (1 - attrs.smoothing) * surprises
    return found


def center_loss(attrs, given):
    """Half the squared distance to the centre; a centre is pushed by the samples of its class."""
    centers, label = given["centers"], given["label"].astype("int64")
    away = given["data"] - centers[label]
    pull = away * given["output_grad"][:, None]
    return {"output": (away ** 2).sum(1) / 2, "data_grad": pull,
            "centers_grad": np.array([-pull[label == k].sum(0) for k in range(len(centers))])}


def region_decode(attrs, given):
    return {"output": region.decode(attrs, given["data"]),
            "data_grad": region.decode_gradient(attrs, given["output_grad"], given["data"])}


def region_loss(attrs, given):
    data, head = given["data"], given["output_grad"]
    out, asked = region.region(attrs, data, given["truth"], given["seen"])
    parts = region.loss_parts(attrs, out, asked)
    gradient = region.loss_gradient(attrs, out, asked).reshape(data.shape)
    return {"output": parts[:, :4].sum(1), "parts": parts, "gradient": gradient,
            "data_grad": gradient * head[:, None, None, None]}


FORMULAS = {"abs": absolute, "reorg": reorg, "tile": tile, "softmax": softmax_, "softmax_output": softmax_output,
            "softmax_cross_entropy": softmax_cross_entropy, "center_loss": center_loss,
            "region_decode": region_decode, "region_loss": region_loss}
