"""The recorded layers [yolo] of both programs, and [Gaussian_yolo] of AlexeyAB's."""
import pathlib
import typing

import numpy as np

STRIDE = 32
_FOLDER = pathlib.Path(__file__).parents[2] / "golden"
_OPTIONS = ("box_loss", "new_coords", "objectness_smooth", "focal_loss", "ignore_thresh", "truth_thresh", "iou_thresh",
            "iou_normalizer", "obj_normalizer", "max_delta", "scale_x_y", "label_smooth_eps")
_FLAGS = ("new_coords", "objectness_smooth", "focal_loss")
_BOX_LOSSES = ("iou", "giou", "diou", "ciou", "mse")
_POINTS = ("center", "left_top", "right_bottom")


class Golden(typing.NamedTuple):
    """One recorded layer."""
    anchors: np.ndarray   # all heads', in pixels
    mask: tuple
    attrs: dict           # the operator's
    input: np.ndarray
    truth: np.ndarray
    gradient: np.ndarray
    cost: float


class Recorded:
    """The layers of a file.

    Parameters
    ----------
    name : str
        The file.
    options : tuple of str
        What ``cfg`` of a layer holds.
    numbers : int
        The channels of a prediction in front of its classes.
    """

    def __init__(self, name, options, numbers):
        self.arrays = np.load(_FOLDER / name)
        self.cases = sorted(name[:3] for name in self.arrays.files if name.endswith("_cfg"))
        self.options, self.numbers = options, numbers

    def __call__(self, case):
        """Return a recorded layer. Thresholds and weights are what the program's float32 holds."""
        arrays = {name: self.arrays[f"{case}_{name}"] for name in ("biases", "mask", "input", "truth", "delta", "cost")}
        cfg = dict(zip(self.options, self.arrays[f"{case}_cfg"].tolist()))
        mask = tuple(arrays["mask"].tolist())
        cells = arrays["biases"].astype("float64") / STRIDE
        attrs = {name: bool(value) if name in _FLAGS else float(np.float32(value)) for name, value in cfg.items()}
        attrs["box_loss"] = _BOX_LOSSES[int(cfg["box_loss"])]
        attrs["anchors"] = tuple(cells[list(mask)].ravel().tolist())
        others = [row for i, row in enumerate(cells.tolist()) if i not in mask]
        attrs["other_anchors"] = tuple(sum(others, [])) or None
        attrs["classes"] = arrays["input"].shape[1] // len(mask) - self.numbers
        return Golden(arrays["biases"], mask, attrs, arrays["input"], arrays["truth"], -arrays["delta"],
                      float(arrays["cost"]))


class _Yolo(Recorded):
    def __call__(self, case):
        golden = super().__call__(case)
        golden.attrs["dialect"] = "alexeyab" if golden.attrs.pop("alexeyab") else "pjreddie"
        return golden


class _Gaussian(Recorded):
    def __call__(self, case):
        golden = super().__call__(case)
        for name in ("new_coords", "focal_loss"):
            golden.attrs.pop(name)
        golden.attrs["point"] = _POINTS[int(golden.attrs["point"])]
        if golden.attrs["box_loss"] == "mse":
            golden.attrs["box_loss"] = "nll"
        return golden


golden = _Yolo("yolo.npz", ("alexeyab", *_OPTIONS), 5)
gaussian = _Gaussian("gaussian_yolo.npz", (*_OPTIONS, "uc_normalizer", "point"), 9)
GOLDEN_CASES, GAUSSIAN_CASES = golden.cases, gaussian.cases
