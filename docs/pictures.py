"""The pictures of the operators' pages, drawn from what the operators put out."""
import gluonops as gops
import matplotlib
import mxnet as mx
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend first)


def draw(folder):
    """Write ``<op>.svg`` for the operators that have a picture; returns what each one shows, by operator."""
    reorg(folder / "reorg.svg")
    return {"reorg": "A tensor of 4 channels of 2 x 4 elements, and where its elements lie after each mode of reorg"}


def reorg(path):
    """4 channels of 2 x 4 numbered elements and the 16 channels of 1 x 2 that each mode makes of them.

    With a height that is no multiple of four, Darknet's layout mixes channels, as it does in YOLOv2 (26 x 26).
    """
    data = np.arange(32, dtype="float32").reshape(1, 4, 2, 4)
    figure, axes = plt.subplots(1, 4, figsize=(9, 5.2), layout="constrained", width_ratios=[2, 1, 1, 1])
    _channels(axes[0], data, "data (1, 4, 2, 4)")
    for axis, mode in zip(axes[1:], ("darknet", "DCR", "CRD")):
        _channels(axis, gops.ops.reorg(mx.nd.array(data), 2, mode).asnumpy(), f"mode={mode!r}\n(1, 16, 1, 2)")
    figure.savefig(path)
    plt.close(figure)


def _channels(axis, data, title):
    """Channels one below the other; an element's colour is the channel that it came from."""
    _, channels, height, width = data.shape
    gap = 0.35
    for c in range(channels):
        for y in range(height):
            for x in range(width):
                value = int(data[0, c, y, x])
                top = c * (height + gap) + y
                axis.add_patch(plt.Rectangle((x, top), 1, 1, facecolor=plt.cm.Set2(value // 8), edgecolor="white"))
                axis.text(x + 0.5, top + 0.5, value, ha="center", va="center", fontsize=7)
    axis.set_xlim(-0.2, width + 0.2)
    axis.set_ylim(channels * (height + gap), -0.2)
    axis.set_aspect("equal")
    axis.set_axis_off()
    axis.set_title(title, fontsize=9)
