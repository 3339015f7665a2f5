"""Pictures of a run: curves, confusion matrices, pages of images with predictions, embeddings. They need matplotlib."""
from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import mxnet as mx
import numpy as np
from mxnet import gluon

from ..core.optional import require
from ..data import letterbox, unletterbox_boxes
from .files import write

if TYPE_CHECKING:   # matplotlib is optional
    from matplotlib.figure import Figure

__all__ = ["draw_confusion", "draw_curves", "draw_detections", "draw_embedding", "draw_predictions", "save_figure"]

MANY_CLASSES = 20   # from this number on a matrix has no numbers in its cells


def new_figure(width: float, height: float) -> Figure:
    """A figure of so many inches, without a window."""
    return require("matplotlib.figure", "train.pictures").Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: str | os.PathLike) -> None:
    """Write a figure as PNG, completely or not at all."""
    write(path, lambda name: figure.savefig(name, format="png", dpi=100), "train.save_figure")


def draw_curves(history: Sequence[Mapping], path: str | os.PathLike, losses: Sequence[str],
                scores: Sequence[str]) -> None:
    """Losses on the left, scores on the right, by epoch; the learning rate below.

    Parameters
    ----------
    history : sequence of mapping
        A run's.
    path : str or os.PathLike
        The PNG.
    losses, scores : sequence of str
        Names of columns. A column that no row has is left out.
    """
    epochs = [row["epoch"] for row in history]
    figure = new_figure(11, 5)
    axes = figure.subplot_mosaic([["losses", "scores"], ["losses", "scores"], ["rate", "rate"]])
    for panel, names in (("losses", losses), ("scores", scores)):
        for name in names:
            if any(name in row for row in history):
                values = [row.get(name, math.nan) for row in history]
                axes[panel].plot(epochs, values, marker="o", markersize=3, label=name.replace("_", " "))
        axes[panel].grid(alpha=0.3)
        if axes[panel].lines:
            axes[panel].legend()
    axes["losses"].set(title="mean loss of an image", ylim=(0, None))
    axes["scores"].set(title="on images to choose an epoch on", ylim=(None, 1))
    rates = [row.get("learning_rate", math.nan) for row in history]
    axes["rate"].plot(epochs, rates, color="tab:gray")
    axes["rate"].set(xlabel="epoch", ylabel="learning rate", ylim=(0, None))
    save_figure(figure, path)


def draw_confusion(matrix: np.ndarray, names: Sequence[str], path: str | os.PathLike) -> None:
    """A confusion matrix: rows are true classes, columns are predicted ones; colours are shares of the row.

    Parameters
    ----------
    matrix : numpy.ndarray
        Counts, (classes, classes), such as :func:`gluonops.train.confusion_matrix` returns.
    names : sequence of str
    path : str or os.PathLike
        The PNG.
    """
    side = min(16, 2.5 + 0.45 * len(names))
    figure = new_figure(side + 1, side)
    axes = figure.subplots()
    shares = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    figure.colorbar(axes.imshow(shares, cmap="Blues", vmin=0, vmax=1), ax=axes, label="share of the true class")
    places = range(len(names))
    axes.set(xlabel="predicted", ylabel="true", title="confusion matrix")
    axes.set_xticks(places, names, rotation=90)
    axes.set_yticks(places, names)
    if len(names) < MANY_CLASSES:
        for row, column in np.argwhere(matrix > 0):
            colour = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, f"{matrix[row, column]:g}", ha="center", va="center", color=colour, fontsize=8)
    save_figure(figure, path)


def draw_predictions(images: np.ndarray, labels: np.ndarray, predicted: np.ndarray, names: Sequence,
                     path: str | os.PathLike, rows: int = 5, columns: int = 10) -> None:
    """A grid of images with predicted and true classes, the wrong ones first and framed in red.

    Parameters
    ----------
    images : numpy.ndarray
        (N, C, H, W) from 0 to 1, C 1 or 3.
    labels, predicted : numpy.ndarray
        Classes, (N,).
    names : sequence
        Of the classes.
    path : str or os.PathLike
        The PNG.
    rows, columns : int
    """
    order = np.argsort(predicted == labels, kind="stable")[:rows * columns]
    figure = new_figure(columns, 1.3 * rows + 0.5)
    wrong = int((predicted != labels).sum())
    figure.suptitle(f"predicted / true: {wrong} of {len(predicted)} images are wrong, in red")
    grid = figure.subplots(rows, columns)
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
        axes.set_frame_on(False)
    for axes, index in zip(grid.flat, order):
        image, is_right = images[index], predicted[index] == labels[index]
        if len(image) == 1:
            axes.imshow(image[0], cmap="gray_r", vmin=0, vmax=1)
        else:
            axes.imshow(image.transpose(1, 2, 0), vmin=0, vmax=1)
        title = f"{names[int(predicted[index])]} / {names[int(labels[index])]}"
        axes.set_title(title, color="black" if is_right else "red", fontsize=10, pad=3)
        if not is_right:
            axes.set_frame_on(True)
            for spine in axes.spines.values():
                spine.set(color="red", linewidth=2)
    save_figure(figure, path)


def draw_detections(detector: Callable, dataset: gluon.data.Dataset, size: tuple[int, int], device: mx.Context,
                    path: str | os.PathLike, count: int = 12) -> None:
    """A page of images with detected boxes, and ground truth in dashes. Needs gluoncv.

    Parameters
    ----------
    detector : callable
        Images (1, 3, H, W) to ids, scores and boxes, as ``net.detector()`` returns them.
    dataset : gluon.data.Dataset
        For detection.
    size : tuple of int
        (width, height) that images are letterboxed to.
    device : mxnet.Context
    path : str or os.PathLike
        The PNG.
    count : int, default 12
        Number of images, from the first one on.
    """
    count = min(count, len(dataset))
    columns = min(4, count)
    rows = math.ceil(count / columns)
    figure = new_figure(3.6 * columns, 3.7 * rows)
    for index, axes in enumerate(np.ravel(figure.subplots(rows, columns))):
        axes.axis("off")
        if index < count:
            _draw_image(axes, detector, dataset, index, size, device)
    save_figure(figure, path)


def _draw_image(axes, detector, dataset, index, size, device):
    plot_bbox = require("gluoncv.utils.viz", "train.draw_detections").plot_bbox
    image, label = dataset[index]
    image = image.asnumpy() if isinstance(image, mx.nd.NDArray) else image
    data = mx.nd.array(letterbox(image, *size)[None], ctx=device)
    ids, scores, boxes = (array.asnumpy()[0] for array in detector(data))
    is_real = (ids[:, 0] >= 0) & ~np.isnan(boxes).any(1)
    # Within the image: a side is the exponential of an output, and infinite in a net that is far off.
    boxes = np.clip(unletterbox_boxes(boxes[is_real], image.shape[1::-1], size), 0, [*image.shape[1::-1]] * 2)
    for left, top, right, bottom in label[:, :4]:
        axes.plot([left, right, right, left, left], [top, top, bottom, bottom, top], "w--", linewidth=1.2)
    plot_bbox(image, boxes, scores[is_real, 0], ids[is_real, 0], thresh=0, class_names=dataset.classes, ax=axes,
              linewidth=1.5, fontsize=8)
    axes.set_title(f"{len(label)} to find, {is_real.sum()} found", fontsize=9)


def draw_embedding(vectors: np.ndarray, labels: np.ndarray, names: Sequence[str], path: str | os.PathLike) -> None:
    """Vectors (N, D) as points, a colour for each class; for D > 2 along the two directions of largest variance.

    Parameters
    ----------
    vectors : numpy.ndarray
        (N, D).
    labels : numpy.ndarray
        (N,).
    names : sequence of str
        Of the classes.
    path : str or os.PathLike
        The PNG.
    """
    title, aspect = "the embedding", "equal"
    if vectors.shape[1] == 1:
        vectors, aspect = np.column_stack([vectors, labels]), "auto"
        title += ", and the class upwards"
    if vectors.shape[1] > 2:
        centred = vectors - vectors.mean(0)
        _, values, directions = np.linalg.svd(centred, full_matrices=False)
        vectors = centred @ directions[:2].T
        title += f", along two directions that have {(values[:2]**2).sum() / (values**2).sum():.0%} of its variance"
    figure = new_figure(7.5, 6.5)
    axes = figure.subplots()
    for label, name in enumerate(names):
        points = vectors[labels == label]
        axes.scatter(*points[:, :2].T, s=9, alpha=0.7, label=name, color=f"C{label % 10}")
        if len(points):
            axes.annotate(name, points[:, :2].mean(0), weight="bold", ha="center", va="center", fontsize=13,
                          bbox={"boxstyle": "circle,pad=0.15", "fc": "white", "alpha": 0.8, "lw": 0})
    axes.set(title=f"{title}; {len(labels)} images", aspect=aspect)
    axes.grid(alpha=0.3)
    save_figure(figure, path)
