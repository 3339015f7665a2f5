"""The pictures of the other pages: speed, anchors, embeddings of the losses, and a net before and after folding.

``make docs`` draws them into ``docs/drawn``, from the results of the benchmark, from data sets and from nets.
"""
from __future__ import annotations

import functools
import pathlib
import sys
from collections.abc import Callable, Sequence

import gluonops as gops
import matplotlib.pyplot as plt
import mxnet as mx
import numpy as np
from gluonops.data.anchors import box_sizes, kmeans
from mxnet import autograd, gluon
from mxnet.gluon import nn
from pictures import BLUE, GREEN, ORANGE, RED, panels

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))   # benchmarks/ is no installed package
from benchmarks.harness import results  # noqa: E402
from benchmarks.operators.__main__ import first_records, ratios  # noqa: E402

GREY = "#8b949e"
EPOCHS = 30   # The nets whose features are drawn have so many.


def speed() -> plt.Figure:
    """Forward and backward in a hybridized net: how many times as long as gluonops others take."""
    measured = results.load(ROOT / "benchmarks" / "operators" / "results.json")
    records = first_records(measured)
    figure, (axes,) = panels(1, height=0.8 + 0.35 * len(records))
    found = [ratios(record) for record in records]
    for place, (peer, (name, colour)) in enumerate(SPEED_NAMES.items()):
        times = [of_record[peer] for of_record in found]
        rows = np.arange(len(records)) + (place - 1) * 0.27
        widths = [np.nan if time is None else time for time in times]
        bars = axes.barh(rows, widths, 0.25, color=colour, label=name)
        axes.bar_label(bars, ["" if time is None else f"{time:.1f}x" for time in times], padding=3, fontsize=8)
    names = [record["op"] for record in records]
    axes.set(xscale="log", xlim=(0.5, 120), yticks=range(len(records)), yticklabels=names,
             xlabel="time, as a multiple of the time of gluonops")
    axes.axvline(1, color=GREY, linewidth=1)
    axes.set_xticks([1, 3, 10, 30, 100], ["1x", "3x", "10x", "30x", "100x"])
    axes.minorticks_off()
    axes.invert_yaxis()
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    return figure


SPEED_NAMES = {"torch": ("torch", BLUE), "mxnet": ("MXNet", ORANGE),
               "numpy": ("a CustomOp in NumPy", GREY)}


def anchors() -> plt.Figure:
    """The sizes of the boxes in 300 scenes of digits, with three anchors that k-means found; and the mean IoU of the
    boxes with their best anchor, by the number of anchors."""
    sizes, found = clusters()
    figure, (left, right) = panels(1, 1, height=3.4)
    left.plot(*sizes.T, ".", color=GREY, markersize=3, alpha=0.6, label=f"{len(sizes)} boxes")
    for number, ((width, height), colour) in enumerate(zip(found[3][0], (BLUE, ORANGE, GREEN)), 1):
        left.add_patch(plt.Rectangle((0, 0), width, height, fill=False, edgecolor=colour, linewidth=2))
        left.plot(width, height, "o", color=colour, label=f"anchor {number}: {width:.1f} x {height:.1f}")
    left.set(title="sizes of boxes", xlabel="width, cells", ylabel="height, cells", xlim=(0, None), ylim=(0, None))
    left.legend(loc="upper left")
    left.set_ylim(0, sizes[:, 1].max() * 1.35)   # room for the legend
    right.plot(list(found), [iou for _, iou in found.values()], "o-", color=RED)
    right.set(title="mean IoU with the best anchor", xlabel="number of anchors", xticks=list(found))
    return figure


@functools.lru_cache
def clusters() -> tuple[np.ndarray, dict[int, tuple[np.ndarray, float]]]:
    """The sizes of boxes in cells, and by their number the anchors with their mean IoU."""
    sizes = box_sizes(gops.data.detection("digits", None, "train", count=300), 192) / 32
    return sizes, {number: kmeans(sizes, number) for number in range(1, 7)}


def embeddings() -> plt.Figure:
    """Four nets with a layer of two units before their output, each trained on the digits of scikit-learn with another
    loss. The points are held-out digits, a colour for each class. The spread is the mean squared distance of a point to
    the mean of its class, divided by that of the means from their mean: the lower, the tighter are the classes."""
    figure, axes = panels(1, 1, 1, 1, height=2.7)
    for axis, (title, (vectors, labels, accuracy)) in zip(axes, embedded().items()):
        axis.scatter(*vectors.T, c=labels, cmap="tab10", s=5)
        spread = gops.train.class_spread(vectors, labels)
        axis.set(title=f"{title}\n{accuracy:.1%} are right\nspread {spread:.3f}", xticks=[], yticks=[])
    return figure


@functools.lru_cache
def embedded() -> dict[str, tuple[np.ndarray, np.ndarray, float]]:
    """The vectors of held-out digits, their labels, and the share that is correct, by the name of a loss."""
    digits = range(10)
    found = {"SoftmaxCELoss": train(gops.loss.SoftmaxCELoss())(digits),
             "smoothing=0.1": train(gops.loss.SoftmaxCELoss(smoothing=0.1))(digits)}
    for weight in (0.1, 1):
        found[f"+ CenterLoss, weight={weight}"] = train(
            gops.loss.SoftmaxCELoss(), gops.loss.CenterLoss(10, 2, weight=weight))(digits)
    return found


def train(loss: gluon.loss.Loss | gops.nn.ArcFaceHead, center: gops.loss.CenterLoss | None = None,
          seen: Sequence[int] = range(10), units: int = 2) -> Callable:
    """Train a small net on some digits, with the loss of its output and the center loss of its vectors.

    A head with a margin takes the vectors. Returns a function of digits: the vectors of held-out images of these, their
    labels, and the share that is classified correctly.
    """
    gops.train.set_seeds(0)
    training, _ = gops.data.digits(size=8, classes=seen)
    body, output = nn.HybridSequential(), nn.Dense(len(seen))
    body.add(nn.Dense(128, activation="relu"), nn.Dense(64, activation="relu"), nn.Dense(units))
    has_margin = isinstance(loss, gops.nn.ArcFaceHead)
    blocks = [block for block in (body, None if has_margin else output, loss, center) if block is not None]
    for block in blocks:
        block.initialize(mx.init.Xavier())
        block.hybridize(static_alloc=True)
    parameters = body.collect_params()
    for block in blocks[1:]:
        parameters.update(block.collect_params())
    images, labels = (mx.nd.array(array) for array in training)
    trainer = gluon.Trainer(parameters, "adam", {"learning_rate": 0.003})
    for epoch in range(EPOCHS):
        batches = len(labels) // 64
        order = mx.nd.array(np.random.RandomState(epoch).permutation(len(labels))[:64 * batches]).reshape((-1, 64))
        for batch in order:
            with autograd.record():
                vectors = body(images.take(batch))
                losses = loss(vectors if has_margin else output(vectors), labels.take(batch))
                if center is not None:
                    losses = losses + center(vectors, labels.take(batch))
            losses.backward()
            trainer.step(len(batch))
            if center is not None:
                center.update(trainer)

    def held_out(shown: Sequence[int]) -> tuple[np.ndarray, np.ndarray, float]:
        _, split = gops.data.digits(size=8, classes=shown)
        vectors = body(mx.nd.array(split.images))
        outputs = loss.cosines(vectors) if has_margin else output(vectors)
        return vectors.asnumpy(), split.labels, gops.train.accuracy(outputs.asnumpy(), split.labels)

    return held_out


LOSSES = {   # name -> a loss for so many classes and units, and the weight of the center loss
    "softmax": (lambda *sizes: gops.loss.SoftmaxCELoss(), 0),
    "center": (lambda *sizes: gops.loss.SoftmaxCELoss(), 0.1),
    "cosface": (lambda *sizes: gops.nn.ArcFaceHead(*sizes, scale=16, m2=0, m3=0.35), 0),
    "arcface": (lambda *sizes: gops.nn.ArcFaceHead(*sizes, scale=16), 0),
    "sphereface": (lambda *sizes: gops.nn.ArcFaceHead(*sizes, scale=16, m1=1.35, m2=0), 0),
}


@functools.cache
def trained(name: str, units: int) -> Callable:
    """What :func:`train` returns for a loss of this name and the digits 0 to 4."""
    make, weight = LOSSES[name]
    center = gops.loss.CenterLoss(5, units, weight=weight) if weight else None
    return train(make(5, units), center, range(5), units)


def margins() -> plt.Figure:
    """Nets with a layer of two units before their output, trained on the digits 0 to 4 with different losses. The
    points are held-out images of these digits, a colour for each; above each picture is the share that is classified
    correctly, and the mean angle between two images of one digit."""
    figure, axes = panels(*[1] * len(LOSSES), height=2.5)
    for axis, name in zip(axes, LOSSES):
        vectors, labels, accuracy = trained(name, 2)(range(5))
        axis.scatter(*vectors.T, c=labels, cmap="tab10", vmax=9, s=5)
        axis.plot(0, 0, "+", color=GREY)
        angle = mean_angle(vectors, labels)
        axis.set(title=f"{name}\n{accuracy:.1%} are right\n{angle:.0f} degrees", xticks=[], yticks=[])
        axis.set_aspect("equal", adjustable="datalim")
    return figure


def mean_angle(vectors: np.ndarray, labels: np.ndarray) -> float:
    """The mean angle between two vectors of one class, in degrees."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    first, second = np.triu_indices(len(labels), 1)
    cosines = (unit @ unit.T)[first, second][labels[first] == labels[second]]
    return float(np.degrees(np.arccos(np.clip(cosines, -1, 1))).mean())


def verification() -> plt.Figure:
    """Pairs of images compared by the cosine of their vectors of 32 units: on the left of the digits 0 to 4 that the
    nets were trained on, on the right of 5 to 9 that they have never seen. In brackets is the area under the curve."""
    figure, axes = panels(1, 1, height=3.4)
    for axis, shown in zip(axes, (range(5), range(5, 10))):
        for name, colour in zip(LOSSES, (GREY, GREEN, ORANGE, BLUE, RED)):
            vectors, labels, _ = trained(name, 32)(shown)
            found = gops.train.verification(vectors, labels)
            axis.plot(found.false_positives, found.true_positives, color=colour, label=f"{name} ({found.area:.3f})")
        axis.set(title=f"digits {shown[0]} to {shown[-1]}", xlabel="pairs of two digits taken for one", xscale="log",
                 xlim=(1e-3, 1), ylim=(0, 1.01))
        axis.legend(loc="lower right" if axis is axes[0] else "upper left")
    axes[0].set_ylabel("pairs of one digit that are found")
    return figure


PICTURES = {"speed": speed, "anchors": anchors, "embeddings": embeddings, "margins": margins,
            "verification": verification}


def draw_folding(folder: pathlib.Path) -> None:
    """Write ``net.svg`` and ``net-folded.svg``: an exported net, as it is and with folded batch norms."""
    net = nn.HybridSequential(prefix="")
    net.add(nn.Conv2D(16, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"), gops.nn.Reorg(2),
            nn.Conv2D(32, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
    net.initialize()
    for name, fold in (("net", False), ("net-folded", True)):
        prefix = str(folder / name)
        paths = gops.export.symbol(net, prefix, (1, 3, 32, 32), backend="native", fold_batch_norm=fold)
        gops.export.picture(prefix, folder / f"{name}.svg")
        for path in paths:
            pathlib.Path(path).unlink()


def draw_replacing(folder: pathlib.Path) -> None:
    """Write ``net-relu.svg`` and ``net-mish.svg``: a net before and after ``gops.nn.replace``."""
    net = nn.HybridSequential(prefix="")
    net.add(nn.Conv2D(8, 3, padding=1, activation="relu"), gops.nn.Reorg(2),
            nn.Conv2D(16, 3, padding=1, activation="relu"), nn.Dense(10))
    net.initialize()
    gops.export.picture(net, folder / "net-relu.svg", (1, 1, 8, 8))
    gops.nn.replace(net, nn.Activation, lambda old: gops.nn.Mish())
    gops.export.picture(net, folder / "net-mish.svg", (1, 1, 8, 8))
