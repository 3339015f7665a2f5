"""``gluonops anchors``: anchors for a data set, by k-means with 1 - IoU as the distance."""
from __future__ import annotations

import argparse
import json
import os

import numpy as np

from ..contract.errors import OpError
from ..data import recognize
from ..data.anchors import anchors_of
from ..data.base import class_words
from ..io import files
from ..io.optional import require
from ..train.parts import detection_split


def run(args: argparse.Namespace) -> None:
    """Compute the anchors, print them, and plot them into ``args.output``."""
    if args.output:
        files.check_writable("anchors", args.output)
    classes = class_words(args.classes, "anchors") if args.classes else None
    name = args.dataset or recognize(args.data, "detection").name
    dataset = detection_split(name, args.data, args.split, classes, args.strict)
    anchors, iou, sizes = anchors_of(dataset, args.k, args.input, args.stride, args.seed)
    if args.json:
        print(json.dumps({"anchors": anchors.round(4).tolist(), "mean_iou": round(iou, 6), "boxes": len(sizes),
                          "input": args.input, "stride": args.stride}))
    else:
        print("anchors = " + ", ".join(f"{width:.4f},{height:.4f}" for width, height in anchors))
        print(f"num = {len(anchors)}")
        print(f"# mean IoU {iou:.4f} over {len(sizes)} boxes, input {args.input}, stride {args.stride}")
    if args.output:
        plot(sizes, anchors, iou, args.output)


def plot(sizes: np.ndarray, anchors: np.ndarray, iou: float, path: str) -> None:
    """Draw the sizes of the boxes as points, and the anchors as rectangles from the origin, both (n, 2) in cells.

    The ending of the path selects the format. An OpError is raised if matplotlib is not installed, or does not know the
    format.
    """
    figure = require("matplotlib.figure", "anchors").Figure(figsize=(6, 6), layout="constrained")
    ending = os.path.splitext(path)[1].lstrip(".").lower()
    if ending not in figure.canvas.get_supported_filetypes():
        raise OpError("anchors", f"the plot {path} ends in .{ending}; expected .png, .svg or .pdf",
                      "Choose one of these endings")
    axes = figure.subplots()
    axes.scatter(*sizes.T, s=4, alpha=0.3, color="tab:blue", linewidths=0, label=f"{len(sizes)} boxes", rasterized=True)
    axes.scatter(*anchors.T, s=50, marker="x", color="tab:red", label=f"{len(anchors)} anchors")
    for width, height in anchors:
        axes.plot([width, width, 0], [0, height, height], color="tab:red", linewidth=1)
    axes.set(title=f"Anchors, mean IoU {iou:.3f}", xlabel="width, cells", ylabel="height, cells", aspect="equal")
    axes.set_xlim(0, None)
    axes.set_ylim(0, None)
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left")
    files.replace("anchors", {path: lambda name: figure.savefig(name, format=ending, dpi=120)})
