"""The pictures of the operators' pages, drawn from the outputs of the operators."""
from __future__ import annotations

import pathlib

import gluonops as gops
import matplotlib
import mxnet as mx
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend first)


def draw(folder: pathlib.Path) -> dict[str, str]:
    """Write ``<op>.svg`` for each operator with a picture. Return descriptions of the pictures by operator."""
    reorg(folder / "reorg.svg")
    return {"reorg": "A tensor of 4 channels of 2 x 4 elements, and the positions of its elements after each mode of "
                     "reorg"}


def reorg(path: pathlib.Path) -> None:
    """Draw 4 channels of 2 x 4 numbered elements, and the 16 channels of 1 x 2 elements for each mode.

    The height is not a multiple of four. So Darknet's layout mixes channels, as in YOLOv2 (26 x 26).
    """
    data = np.arange(32, dtype="float32").reshape(1, 4, 2, 4)
    figure, axes = plt.subplots(1, 4, figsize=(9, 5.2), layout="constrained", width_ratios=[2, 1, 1, 1])
    _channels(axes[0], data, "data (1, 4, 2, 4)")
    for axis, mode in zip(axes[1:], ("darknet", "DCR", "CRD")):
        _channels(axis, gops.ops.reorg(mx.nd.array(data), 2, mode).asnumpy(), f"mode={mode!r}\n(1, 16, 1, 2)")
    figure.savefig(path)
    plt.close(figure)


def _channels(axis, data, title):
    """Draw the channels one below the other. The colour of an element is its channel in the input."""
    _, channels, height, width = data.shape
    gap = 0.35
    for channel, y, x in np.ndindex(channels, height, width):
        value = int(data[0, channel, y, x])
        top = channel * (height + gap) + y
        axis.add_patch(plt.Rectangle((x, top), 1, 1, facecolor=plt.cm.Set2(value // 8), edgecolor="white"))
        axis.text(x + 0.5, top + 0.5, value, ha="center", va="center", fontsize=7)
    axis.set_xlim(-0.2, width + 0.2)
    axis.set_ylim(channels * (height + gap), -0.2)
    axis.set_aspect("equal")
    axis.set_axis_off()
    axis.set_title(title, fontsize=9)
