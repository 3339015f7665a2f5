"""Draws pictures of a run as PNG: curves, confusion matrices, images with predictions, embeddings.

They need matplotlib.
"""
from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import mxnet as mx
import numpy as np
from mxnet import gluon

from ..export import LoadedDetector
from ..io.optional import require
from ..io.params import as_numpy
from .metrics import matched
from .run_files import write

if TYPE_CHECKING:   # matplotlib is optional
    from matplotlib.figure import Figure

    from .metrics import Verification

__all__ = ["draw_confusion", "draw_curves", "draw_detections", "draw_embedding", "draw_predictions", "draw_roc",
           "save_figure"]

MANY_CLASSES = 20   # a matrix of so many has no numbers in its cells
LONGEST_SIDE = 3    # longer embeddings get a scale for each axis; in shares of the other side
# The titles of the panels of curves, and the limits of their vertical axes.
PANELS = {"losses": ("training loss, mean of an image", (0, None)), "scores": ("scores, 1 is best", (None, 1.01)),
          "rate": ("learning rate", (0, None))}
# What a legend calls the columns of a history. The images for validation choose the epoch.
LABELS = {"mAP": "mAP at IoU 0.5, validation", "AP": "COCO's AP, validation",
          "matched_iou": "IoU of boxes that were found, validation", "iou": "IoU of boxes, training",
          "recall": "recall, training", "classes": "class", "no_objectness": "objectness of background",
          "coordinates": "box"}


def new_figure(width: float, height: float) -> Figure:
    """A figure of this width and height in inches, without a window."""
    return require("matplotlib.figure", "train.pictures").Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: str | os.PathLike) -> None:
    """Write a figure as PNG, completely or not at all."""
    write(path, lambda name: figure.savefig(name, format="png", dpi=100), "train.save_figure")


def draw_curves(history: Sequence[Mapping], path: str | os.PathLike, losses: Sequence[str],
                scores: Sequence[str]) -> None:
    """Draw curves over the epochs: losses on the left, scores on the right, and the learning rate below.

    A panel without a curve is left out.

    Parameters
    ----------
    history : sequence of mapping
        The history of a run.
    path : str or os.PathLike
        The picture.
    losses, scores : sequence of str
        Names of columns. A column without a number in any row is left out.
    """
    curves = {"losses": _with_numbers(history, losses), "scores": _with_numbers(history, scores),
              "rate": _with_numbers(history, ["learning_rate"])}
    above = [panel for panel in ("losses", "scores") if curves[panel]]
    rows = [above, above, ["rate"] * max(1, len(above))] if curves["rate"] else [above]
    rows = [row for row in rows if row] or [["scores"]]   # a run without a number: an empty panel says so
    figure = new_figure(5.5 * len(rows[0]), 1.2 + 1.3 * len(rows) if len(rows) > 1 else 4)
    for panel, axes in figure.subplot_mosaic(rows).items():
        for name, values in curves[panel].items():
            axes.plot([row["epoch"] for row in history], values, marker="o", markersize=3, label=_label(name))
        axes.set_xlabel("epoch")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
        if len(curves[panel]) > 1:
            axes.legend(fontsize=9)
        only = f": {_label(*curves[panel])}" if len(curves[panel]) == 1 and panel == "scores" else ""
        title, limits = PANELS[panel]
        axes.set(title=title + only, ylim=limits)
    save_figure(figure, path)


def _with_numbers(history, names):
    """The columns that have a finite number, by their names."""
    columns = {name: [math.nan if row.get(name) is None else row[name] for row in history] for name in names}
    return {name: values for name, values in columns.items() if np.isfinite(values).any()}


def _label(name):
    return LABELS.get(name, name.replace("_", " "))


def draw_confusion(matrix: np.ndarray, names: Sequence[str], path: str | os.PathLike) -> None:
    """Draw a confusion matrix. Rows are true classes, and columns are predicted ones. Colours are shares of the row.

    Parameters
    ----------
    matrix : numpy.ndarray
        Counts, (classes, classes), such as :func:`gluonops.train.confusion_matrix` returns.
    names : sequence of str
    path : str or os.PathLike
    """
    side = min(16, 2.5 + 0.45 * len(names))
    figure = new_figure(side + 1, side)
    axes = figure.subplots()
    shares = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    figure.colorbar(axes.imshow(shares, cmap="Blues", vmin=0, vmax=1), ax=axes, label="share of the true class")
    ticks = range(len(names))
    axes.set(xlabel="predicted class", ylabel="true class", title="how many of each class are taken for which")
    axes.set_xticks(ticks, names, rotation=90)
    axes.set_yticks(ticks, names)
    if len(names) < MANY_CLASSES:
        for row, column in np.argwhere(matrix > 0):
            colour = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, f"{matrix[row, column]:g}", ha="center", va="center", color=colour, fontsize=8)
    save_figure(figure, path)


def draw_predictions(images: np.ndarray, labels: np.ndarray, predicted: np.ndarray, names: Sequence,
                     path: str | os.PathLike, rows: int = 5, columns: int = 10) -> None:
    """Draw a grid of images with their predicted classes. The wrong ones come first, in red frames with the true class.

    Parameters
    ----------
    images : numpy.ndarray
        (N, C, H, W) from 0 to 1, C 1 or 3.
    labels, predicted : numpy.ndarray
        Classes, (N,).
    names : sequence
        Names of the classes.
    path : str or os.PathLike
    rows, columns : int
    """
    order = np.argsort(predicted == labels, kind="stable")[:rows * columns]
    figure = new_figure(columns, 1.3 * rows + 0.5)
    wrong = int((predicted != labels).sum())
    figure.suptitle(f"Predicted classes. {wrong} of {len(predicted)} are wrong: red, with the true class in brackets")
    grid = figure.subplots(rows, columns)
    for axes in grid.flat:
        axes.xaxis.set_visible(False)   # to draw no ticks takes longer than to draw no axis
        axes.yaxis.set_visible(False)
        axes.set_frame_on(False)
    for axes, index in zip(grid.flat, order):
        image, is_right = images[index], predicted[index] == labels[index]
        axes.imshow(image.transpose(1, 2, 0), cmap="gray", vmin=0, vmax=1)   # colours have no map
        lines = [str(names[int(predicted[index])])]
        if not is_right:
            lines.append(f"({names[int(labels[index])]})")
            axes.set_frame_on(True)
            axes.spines[:].set(color="red", linewidth=2)
        size = max(5, min(10, 130 // max(map(len, lines))))   # a long name fits above its image
        axes.set_title("\n".join(lines), color="black" if is_right else "red", fontsize=size, pad=3)
    save_figure(figure, path)


def draw_detections(detector: Callable, dataset: gluon.data.Dataset, size: tuple[int, int], device: mx.Context,
                    path: str | os.PathLike, count: int = 12) -> None:
    """Draw images with their detected boxes, and the ground truth in dashed lines. It needs gluoncv.

    Parameters
    ----------
    detector : callable
        Takes images (1, 3, H, W), and returns ids, scores and boxes, as ``net.detector()`` does.
    dataset : gluon.data.Dataset
        A data set for detection.
    size : tuple of int
        (width, height) that images are letterboxed to.
    device : mxnet.Context
    path : str or os.PathLike
    count : int, default 12
        Number of images, from the first one on.
    """
    loaded = LoadedDetector(detector, dataset.classes, size, device=device)
    count = min(count, len(dataset))
    columns = min(4, count)
    rows = math.ceil(count / columns)
    figure = new_figure(3.6 * columns, 3.7 * rows + 0.4)
    figure.suptitle("In colour, with class and score: found. White and dashed: labelled.")
    for index, axes in enumerate(np.ravel(figure.subplots(rows, columns))):
        axes.axis("off")
        if index < count:
            _draw_image(axes, loaded, *dataset[index])
    figure.draw_without_rendering()   # the layout gives each image its place
    for axes in figure.axes:
        _separate_labels(axes)
    save_figure(figure, path)


def _draw_image(axes, detector, image, label):
    plot_bbox = require("gluoncv.utils.viz", "train.draw_detections").plot_bbox
    rows = [(detection.class_id, detection.score, *detection.box) for detection in detector.detect(image, 0)]
    rows = np.reshape(rows, (-1, 6))
    class_ids, scores, boxes = np.split(rows, (1, 2), axis=1)
    for left, top, right, bottom in label[:, :4]:
        axes.plot([left, right, right, left, left], [top, top, bottom, bottom, top], "w--", linewidth=1.2)
    plot_bbox(as_numpy(image), boxes, scores, class_ids, thresh=0, class_names=detector.classes, ax=axes, linewidth=1.5,
              fontsize=8)
    right = len(matched(rows, label))
    axes.set_title(f"{right} of {len(label)} found, {len(rows) - right} wrong", fontsize=9)


def _separate_labels(axes):
    """Move the labels of boxes into the image, and downwards where one covers another."""
    image, placed = axes.get_window_extent(), []
    for label in sorted(axes.texts, key=lambda text: text.get_position()[1]):
        field = label.get_bbox_patch().get_window_extent()
        right = max(image.x0 - field.x0, 0) - max(field.x1 - image.x1, 0)
        up = min(image.y1 - field.y1, 0)
        for other in placed:
            if other.overlaps(field.translated(right, up)):
                up = other.y0 - field.y1 - 1
        placed.append(field.translated(right, up))
        anchor = axes.transData.transform(label.get_position())
        label.set_position(axes.transData.inverted().transform(anchor + (right, up)))


def draw_embedding(vectors: np.ndarray, labels: np.ndarray, names: Sequence[str], path: str | os.PathLike) -> None:
    """Draw vectors (N, D) as points, with a colour for each class.

    If D is above 2, the axes are the two directions of largest variance. Both axes have the same scale, unless the
    picture would be three times as long as high.

    Parameters
    ----------
    vectors, labels : numpy.ndarray
        (N, D), and (N,).
    names : sequence of str
        Names of the classes.
    path : str or os.PathLike
    """
    points, title, axis_names = _in_two_dimensions(vectors, labels)
    axes = new_figure(7.5, 7).subplots()
    for label, name in enumerate(names):
        of_class = points[labels == label]
        axes.scatter(*of_class.T, s=9, alpha=0.7, color=f"C{label % 10}")
        if len(of_class):
            axes.annotate(name, np.median(of_class, 0), weight="bold", ha="center", va="center",
                          fontsize=13 if len(str(name)) < 4 else 9,
                          bbox={"boxstyle": "round,pad=0.15", "fc": "white", "alpha": 0.8, "lw": 0})
    axes.set(title=title, xlabel=axis_names[0], ylabel=axis_names[1])
    sides = np.ptp(points, axis=0)
    if vectors.shape[1] > 1 and sides.max() <= LONGEST_SIDE * sides.min():
        axes.set_aspect("equal", adjustable="datalim")
    axes.grid(alpha=0.3)
    save_figure(axes.figure, path)


def draw_roc(curves: Mapping[str, Verification], path: str | os.PathLike) -> None:
    """Draw ROC curves of verification, with the false positives on a logarithmic axis.

    Parameters
    ----------
    curves : mapping of str to Verification
        The results of :func:`gluonops.train.verification`, by the names that the legend shows.
    path : str or os.PathLike
    """
    axes = new_figure(6, 5).subplots()
    lowest = 0.1
    for name, curve in curves.items():
        is_drawn = curve.false_positives > 0
        lowest = min(lowest, curve.false_positives[is_drawn].min())
        axes.step(curve.false_positives[is_drawn], curve.true_positives[is_drawn], where="post",
                  label=f"{name}: area {curve.area:.3f}, accuracy {curve.accuracy:.1%}")
    axes.set(xscale="log", xlim=(lowest, 1), ylim=(0, 1.01), xlabel="share of pairs of two classes taken for one",
             ylabel="share of pairs of one class that are found", title="verification of pairs by their cosine")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    save_figure(axes.figure, path)


def _in_two_dimensions(vectors, labels):
    """The points, (N, 2), the title, and the names of the axes."""
    title = f"embedding of {len(labels)} images, a colour for each class"
    if vectors.shape[1] == 1:
        return np.column_stack([vectors, labels]), title, ("embedding", "class")
    if vectors.shape[1] == 2:
        return vectors, title, ("first unit", "second unit")
    centred = vectors - vectors.mean(0)
    _, values, directions = np.linalg.svd(centred, full_matrices=False)
    share = (values[:2]**2).sum() / max((values**2).sum(), 1e-30)
    title += f";\nthe two directions of largest variance have {share:.0%} of it"
    return centred @ directions[:2].T, title, ("first direction", "second direction")
