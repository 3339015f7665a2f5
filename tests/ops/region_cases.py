"""Darknet's recorded region layers, and the page's formulas in NumPy."""
import pathlib
import typing

import numpy as np

_GOLDEN = np.load(pathlib.Path(__file__).parents[1] / "golden" / "region.npz")
GOLDEN_CASES = sorted(name[:3] for name in _GOLDEN.files if name.endswith("_cfg"))
_CFG = ("softmax", "rescore", "bias_match", "seen", "thresh", "B", "W", "H", "A", "K", "coord_scale", "object_scale",
        "noobject_scale", "class_scale")


class Golden(typing.NamedTuple):
    """One recorded layer; maps as (B, A, 5+K, H, W)."""
    attrs: dict
    seen: float
    input: np.ndarray
    truth: np.ndarray
    output: np.ndarray
    gradient: np.ndarray   # with respect to the input
    cost: float


def golden(case):
    arrays = {name: _GOLDEN[f"{case}_{name}"] for name in ("anchors", "input", "truth", "output", "delta", "cost")}
    cfg = dict(zip(_CFG, _GOLDEN[f"{case}_cfg"].tolist()))
    attrs = {"anchors": tuple(arrays["anchors"].ravel().tolist()), "classes": int(cfg["K"])}
    for name in ("softmax", "rescore", "bias_match"):
        attrs[name] = bool(cfg[name])
    attrs.update((name, cfg[name]) for name in _CFG if name.endswith("_scale") or name == "thresh")
    output = split(arrays["output"].astype("float64"), attrs["classes"])
    gradient = -split(arrays["delta"].astype("float64"), attrs["classes"])
    gradient[:, :, [0, 1, 4]] *= (output * (1 - output))[:, :, [0, 1, 4]]
    return Golden(attrs, cfg["seen"], arrays["input"], arrays["truth"], output, gradient, float(arrays["cost"]))


def split(data, classes):
    """(B, A*(5+K), H, W) -> (B, A, 5+K, H, W)."""
    batch, channels, height, width = data.shape
    return data.reshape(batch, channels // (5 + classes), 5 + classes, height, width)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def activate(maps, softmax):
    """Darknet's layer output, from (B, A, 5+K, H, W)."""
    out = maps.copy()
    out[:, :, [0, 1, 4]] = sigmoid(maps[:, :, [0, 1, 4]])
    if softmax:
        powers = np.exp(maps[:, :, 5:] - maps[:, :, 5:].max(axis=2, keepdims=True))
        out[:, :, 5:] = powers / powers.sum(axis=2, keepdims=True)
    else:
        out[:, :, 5:] = sigmoid(maps[:, :, 5:])
    return out


def boxes(out, anchors):
    """(B, A, 4, H, W) boxes from (B, A, 5+K, H, W) activations; anchors flat."""
    height, width = out.shape[3:]
    found = np.empty_like(out[:, :, :4])
    found[:, :, 0] = (np.arange(width) + out[:, :, 0]) / width
    found[:, :, 1] = (np.arange(height)[:, None] + out[:, :, 1]) / height
    for a in range(out.shape[1]):
        found[:, a, 2] = np.exp(out[:, a, 2]) * anchors[2 * a] / width
        found[:, a, 3] = np.exp(out[:, a, 3]) * anchors[2 * a + 1] / height
    return found
