"""The recorded yolo layers of both programs."""
import pathlib
import typing

import numpy as np

_GOLDEN = np.load(pathlib.Path(__file__).parents[2] / "golden" / "yolo.npz")
GOLDEN_CASES = sorted(name[:3] for name in _GOLDEN.files if name.endswith("_cfg"))
_CFG = ("alexeyab", "box_loss", "new_coords", "objectness_smooth", "focal_loss", "ignore_thresh", "truth_thresh",
        "iou_thresh", "iou_normalizer", "obj_normalizer", "max_delta", "scale_x_y", "label_smooth_eps")
_FLAGS = ("new_coords", "objectness_smooth", "focal_loss")
_BOX_LOSSES = ("iou", "giou", "diou", "ciou", "mse")
STRIDE = 32


class Golden(typing.NamedTuple):
    """One recorded layer."""
    anchors: np.ndarray   # of all heads, in pixels
    mask: tuple
    attrs: dict           # of the operator
    input: np.ndarray
    truth: np.ndarray
    gradient: np.ndarray
    cost: float


def golden(case):
    """A recorded layer. Thresholds and weights are what the program's float32 holds."""
    arrays = {name: _GOLDEN[f"{case}_{name}"] for name in ("biases", "mask", "input", "truth", "delta", "cost")}
    cfg = dict(zip(_CFG, _GOLDEN[f"{case}_cfg"].tolist()))
    mask = tuple(arrays["mask"].tolist())
    cells = arrays["biases"].astype("float64") / STRIDE
    attrs = {name: bool(value) if name in _FLAGS else float(np.float32(value)) for name, value in cfg.items()}
    attrs["dialect"] = "alexeyab" if attrs.pop("alexeyab") else "pjreddie"
    attrs["box_loss"] = _BOX_LOSSES[int(cfg["box_loss"])]
    attrs["anchors"] = tuple(cells[list(mask)].ravel().tolist())
    others = [row for i, row in enumerate(cells.tolist()) if i not in mask]
    attrs["other_anchors"] = tuple(sum(others, [])) or None
    attrs["classes"] = arrays["input"].shape[1] // len(mask) - 5
    return Golden(arrays["biases"], mask, attrs, arrays["input"], arrays["truth"], -arrays["delta"],
                  float(arrays["cost"]))
