"""Darknet's recorded region layers."""
import pathlib
import typing

import numpy as np
from ops._region.oracle import LOGISTIC, split

_GOLDEN = np.load(pathlib.Path(__file__).parents[2] / "golden" / "region.npz")
GOLDEN_CASES = sorted(name[:3] for name in _GOLDEN.files if name.endswith("_cfg"))
_CFG = ("softmax", "rescore", "bias_match", "seen", "thresh", "B", "W", "H", "A", "K", "coord_scale", "object_scale",
        "noobject_scale", "class_scale")


class Golden(typing.NamedTuple):
    """One recorded layer; maps as (B, A, 5+K, H, W)."""
    attrs: dict
    seen: float
    input: np.ndarray
    ground_truth: np.ndarray
    output: np.ndarray
    gradient: np.ndarray   # the input's
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
    gradient[:, :, LOGISTIC] *= (output * (1 - output))[:, :, LOGISTIC]
    return Golden(attrs, cfg["seen"], arrays["input"], arrays["truth"], output, gradient, float(arrays["cost"]))
