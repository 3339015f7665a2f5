"""The pictures of the operators' pages, drawn from what the operators put out.

``make docs`` draws them into ``docs/ops``: one for the light theme of the site and one for the dark one.
``guide_pictures.py`` has those of the other pages.
"""
from __future__ import annotations

import pathlib
from collections.abc import Callable

import gluonops as gops
import matplotlib
import mxnet as mx
import numpy as np
from gluonops.ops._region.contract import VOC_ANCHORS
from mxnet import autograd

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend first)

INK = {"light": "#24292f", "dark": "#e2e5e9"}   # theme -> colour of text and lines
BLUE, ORANGE, GREEN, RED = "#3b82d0", "#dd7e1b", "#2d9d5f", "#d6504a"   # They show on white and on black.
TILES = ["#66c2a5", "#fc8d62", "#8da0cb", "#e78ac3", "#a6d854", "#ffd92f"]   # Cells have these, and black numbers.

PICTURES: dict[str, Callable[[], plt.Figure]] = {}


def picture(function: Callable[[], plt.Figure]) -> Callable[[], plt.Figure]:
    """Add the picture of the operator that the function is named after (``abs_`` draws ``abs``)."""
    PICTURES[function.__name__.rstrip("_")] = function
    return function


def draw(folder: pathlib.Path, pictures: dict[str, Callable[[], plt.Figure]]) -> dict[str, str]:
    """Write ``<name>-<theme>.svg`` for every picture.

    Parameters
    ----------
    folder : pathlib.Path
        It is made if it is missing.
    pictures : dict of str to callable
        Name -> the function that draws.

    Returns
    -------
    dict of str to str
        Name -> what the picture shows, in words.
    """
    folder.mkdir(exist_ok=True)
    for theme in INK:
        with plt.rc_context(style(theme)):
            for name, function in pictures.items():
                figure = function()
                figure.savefig(folder / f"{name}-{theme}.svg", transparent=True)
                plt.close(figure)
    return {name: " ".join(function.__doc__.split()) for name, function in pictures.items()}


def style(theme: str) -> dict[str, object]:
    """Settings of matplotlib: no background, and ink that is legible in the theme."""
    ink = INK[theme]
    return {"text.color": ink, "axes.edgecolor": ink, "axes.labelcolor": ink, "xtick.color": ink, "ytick.color": ink,
            "lines.color": ink, "patch.edgecolor": ink, "axes.facecolor": "none", "figure.facecolor": "none",
            "legend.frameon": False, "axes.spines.top": False, "axes.spines.right": False, "font.size": 9,
            "axes.titlesize": 9, "lines.linewidth": 2, "svg.hashsalt": "gluonops"}


def panels(*widths: float, height: float = 2.6) -> tuple[plt.Figure, np.ndarray]:
    """A figure of axes side by side."""
    figure, axes = plt.subplots(1, len(widths), figsize=(8, height), layout="constrained", width_ratios=widths)
    return figure, np.atleast_1d(axes)


def value_and_gradient(function: Callable, x: np.ndarray | list) -> tuple[np.ndarray, np.ndarray]:
    """The output of a function of one array, and the gradient of the array, in NumPy."""
    x = mx.nd.array(x)
    x.attach_grad()
    with autograd.record():
        output = function(x)
    output.backward()
    return output.asnumpy(), x.grad.asnumpy()


@picture
def abs_() -> plt.Figure:
    """The absolute value of x from -3 to 3, and its gradient: -1 below 0, 0 at 0, and 1 above."""
    x = np.linspace(-3, 3, 121)
    output, gradient = value_and_gradient(gops.ops.abs, x)
    figure, (left, right) = panels(1, 1)
    left.plot(x, output, color=BLUE)
    left.set(title="abs(x)", xlabel="x")
    for side in (x < 0, x > 0):
        right.plot(x[side], gradient[side], color=ORANGE)
    right.plot(0, gradient[x == 0], "o", color=ORANGE)
    right.set(title="gradient", xlabel="x", yticks=[-1, 0, 1])
    return figure


def activation(function: Callable, title: str) -> plt.Figure:
    """The value and the gradient from -5 to 5."""
    x = np.linspace(-5, 5, 201)
    output, gradient = value_and_gradient(function, x)
    figure, (left, right) = panels(1, 1)
    left.plot(x, np.maximum(x, 0), color=GREEN, linewidth=1, label="ReLU")
    left.plot(x, output, color=BLUE, label=title)
    left.set(title=title, xlabel="x")
    left.legend()
    right.plot(x, gradient, color=ORANGE)
    right.set(title="gradient", xlabel="x")
    return figure


@picture
def mish() -> plt.Figure:
    """Mish of x from -5 to 5 beside ReLU, and its gradient, which is above 1 right of 0.8."""
    return activation(gops.ops.mish, "mish(x)")


@picture
def swish() -> plt.Figure:
    """Swish of x from -5 to 5 beside ReLU, with beta 1, and its gradient, which is below 0 left of -1.28."""
    return activation(gops.ops.swish, "swish(x)")


@picture
def hard_swish() -> plt.Figure:
    """Hard swish of x from -5 to 5 beside ReLU, and its gradient: 0 up to -3, a line to 1.5, and 1 from 3 on."""
    return activation(gops.ops.hard_swish, "hard_swish(x)")


@picture
def gelu() -> plt.Figure:
    """GELU of x from -5 to 5 beside ReLU, and its gradient, which is up to 1.13."""
    return activation(gops.ops.gelu, "gelu(x)")


@picture
def swiglu() -> plt.Figure:
    """The output of swiglu for a gate and a value from -4 to 4: near their product where the gate is large, and near 0
    where it is far below 0."""
    numbers = np.linspace(-4, 4, 81)
    gate, value = np.meshgrid(numbers, numbers)
    output = gops.ops.swiglu(mx.nd.array(np.stack([gate, value], axis=-1))).asnumpy()[..., 0]
    figure, (axis,) = panels(1)
    levels = axis.contour(gate, value, output, levels=[-12, -8, -4, -1, -0.2, 0, 0.2, 1, 4, 8, 12], cmap="coolwarm")
    axis.clabel(levels)
    axis.set(title="swiglu", xlabel="gate", ylabel="value", aspect="equal")
    return figure


def normalized(axes: plt.Axes, points: np.ndarray, title: str, colour: str) -> None:
    """Rows of two numbers as points of the plane."""
    axes.scatter(*points.T, s=12, color=colour)
    axes.set(title=title, aspect="equal", xlim=(-4, 4), ylim=(-4, 4))


def scaled_rows(function: Callable, title: str) -> plt.Figure:
    """Points of the plane, and where they are after their rows have been normalised."""
    points = np.random.RandomState(0).normal(0, 1.5, (40, 2))
    found = function(mx.nd.array(points), mx.nd.ones(2), axis=-1).asnumpy()
    figure, (left, right) = panels(1, 1)
    normalized(left, points, "rows of two numbers", BLUE)
    normalized(right, found, title, ORANGE)
    return figure


@picture
def rms_norm() -> plt.Figure:
    """Rows of two numbers as points, and after rms_norm: on the circle whose radius is the root of 2."""
    return scaled_rows(gops.ops.rms_norm, "rms_norm")


@picture
def l2_normalize() -> plt.Figure:
    """Rows of two numbers as points, and after l2_normalize: on the circle of radius 1."""
    return scaled_rows(gops.ops.l2_normalize, "l2_normalize")


@picture
def group_norm() -> plt.Figure:
    """Six channels of a sample, each with its own mean and deviation, and after group_norm in two groups: the elements
    of a group together have mean 0 and deviation 1, and its channels keep their order."""
    rng = np.random.RandomState(0)
    data = rng.normal(0, [[0.5], [1], [2], [0.5], [0.5], [1]], (6, 40)) + [[0], [2], [4], [9], [8], [7]]
    found = gops.ops.group_norm(mx.nd.array(data[None]), mx.nd.ones(6), mx.nd.zeros(6), num_groups=2).asnumpy()[0]
    figure, panes = panels(1, 1)
    for axes, values, title in zip(panes, (data, found), ("six channels", "group_norm in two groups")):
        for channel, row in enumerate(values):
            axes.scatter(row, np.full(len(row), channel), s=6, color=BLUE if channel < 3 else ORANGE)
        axes.set(title=title, ylabel="channel", xlabel="value")
    return figure


@picture
def dice_loss() -> plt.Figure:
    """The loss of a class whose area is 1, 10 or 100 of 400 places, while the logits at its places rise: it does not
    depend on the area. Beside it the cross-entropy over all places, which a small class hardly changes."""
    logits = np.linspace(-4, 6, 41)
    figure, (left, right) = panels(1, 1)
    for area, colour in zip((1, 10, 100), (BLUE, ORANGE, GREEN)):
        label = mx.nd.array(np.arange(400)[None] < area)
        at_places = np.where(label.asnumpy() > 0, logits[:, None], -6.0)
        data = mx.nd.array(np.stack([0 * at_places, at_places], axis=1))
        labels = mx.nd.tile(label, (len(logits), 1))
        left.plot(logits, gops.ops.dice_loss(data, labels)[:, 1].asnumpy(), color=colour, label=f"{area} of 400 places")
        right.plot(logits, gops.ops.softmax_cross_entropy(data, labels, axis=1).mean(1).asnumpy(), color=colour)
    left.set(title="Dice loss of the class", xlabel="its logit at its places")
    left.legend()
    right.set(title="mean cross-entropy", xlabel="its logit at its places")
    return figure


@picture
def lovasz_softmax() -> plt.Figure:
    """A class with 20 of 100 places, while the logits at some of its places rise together from wrong to right, and the
    others stay right: the loss of the class, and what a place adds to it, which is more the fewer places are right."""
    logits = np.linspace(-5, 5, 81)
    figure, (left, right) = panels(1, 1)
    for wrong, colour in zip((2, 10, 20), (BLUE, ORANGE, GREEN)):
        label = mx.nd.tile(mx.nd.array(np.arange(100)[None] < 20), (len(logits), 1))
        at_places = np.where(np.arange(100) < 20, 5.0, -5.0) * np.ones((len(logits), 1))
        at_places[:, :wrong] = logits[:, None]
        data = np.stack([0 * at_places, at_places], axis=1)
        loss, gradient = value_and_gradient(
            lambda data, label=label: gops.ops.lovasz_softmax(data, label, per_sample=True, class_weight=(0, 1)), data)
        left.plot(logits, loss, color=colour, label=f"{wrong} of 20 places")
        right.plot(logits, -gradient[:, 1, :wrong].mean(1), color=colour)
    left.set(title="loss of the class", xlabel="the logits")
    left.legend()
    right.set(title="minus the mean gradient of one of them", xlabel="the logits")
    return figure


@picture
def ohem() -> plt.Figure:
    """A hundred losses, some of them 0: those that are kept with ratio 0.25, and with a threshold as well."""
    losses = np.random.RandomState(0).gamma(1, 1, 100) * (np.arange(100) % 7 > 0)
    figure, panes = panels(1, 1)
    for axes, options in zip(panes, ({"ratio": 0.25}, {"ratio": 0.25, "threshold": 1})):
        kept = gops.ops.ohem(mx.nd.array(losses), **options).asnumpy() != 0
        for chosen, colour, name in ((kept, BLUE, "kept"), (~kept, "#9aa0a6", "not kept")):
            axes.plot(np.flatnonzero(chosen), losses[chosen], "o", color=colour, markersize=3, label=name)
        axes.set(title=", ".join(f"{key}={value}" for key, value in options.items()), xlabel="example", ylabel="loss")
    panes[0].legend()
    return figure


@picture
def distillation_loss() -> plt.Figure:
    """The probabilities of a teacher at three temperatures: the higher, the more they say of the classes that are not
    the likeliest; and the loss of a student with other logits for one class."""
    teacher = [6, 4, 1, 0]
    figure, (left, right) = panels(1, 1)
    student_logits = np.linspace(-2, 10, 121)
    rows = mx.nd.array(np.stack([student_logits, *(0 * student_logits + logit for logit in teacher[1:])], axis=1))
    teacher_rows = mx.nd.array(np.tile(teacher, (len(student_logits), 1)))
    for temperature, colour in zip((1.0, 4.0, 20.0), (BLUE, ORANGE, GREEN)):
        p = gops.ops.softmax(mx.nd.array([teacher]), temperature=temperature).asnumpy()[0]
        left.plot(range(4), p, "o-", color=colour, label=f"T = {temperature:g}")
        loss = gops.ops.distillation_loss(rows, teacher_rows, temperature=temperature).asnumpy()
        right.plot(student_logits, loss, color=colour)
    left.set(title="the teacher's softmax", xlabel="class", xticks=range(4))
    left.legend()
    right.set(title="loss", xlabel="the student's logit of class 0")
    return figure


@picture
def tile() -> plt.Figure:
    """A matrix of 2 x 3 numbered elements, tiled along one axis and along two, and how many copies the gradient of each
    element sums."""
    data = np.arange(6, dtype="float32").reshape(2, 3)
    figure, axes = panels(3, 6, 6, 3, height=2.2)
    cells(axes[0], data, data, "data (2, 3)")
    for axis, tiles in zip(axes[1:], (2, (2, 2))):
        tiled = gops.ops.tile(mx.nd.array(data), tiles).asnumpy()
        cells(axis, tiled, tiled, f"tiles={tiles}\n{tiled.shape}")
    _, gradient = value_and_gradient(lambda x: gops.ops.tile(x, (2, 2)), data)
    cells(axes[3], gradient, data, "gradient, for\na head of ones")
    return figure


def cells(axes: plt.Axes, values: np.ndarray, sources: np.ndarray, title: str) -> None:
    """A matrix as numbered cells; a cell has the colour of the element that it comes from."""
    rows, columns = values.shape
    for (row, column), value in np.ndenumerate(values):
        colour = TILES[int(sources[row, column]) % len(TILES)]
        axes.add_patch(plt.Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="white"))
        axes.text(column + 0.5, row + 0.5, int(value), ha="center", va="center", color="black")
    axes.set(xlim=(-0.1, columns + 0.1), ylim=(rows + 0.1, -0.1), aspect="equal", title=title)
    axes.set_axis_off()


@picture
def reorg() -> plt.Figure:
    """A tensor of 4 channels of 2 x 4 elements, and where its elements are after each mode of reorg. With this height,
    which is no multiple of 4, Darknet's layout mixes channels, as it does in YOLOv2."""
    data = np.arange(32, dtype="float32").reshape(1, 4, 2, 4)
    figure, axes = panels(2, 1, 1, 1, height=5.2)
    channels(axes[0], data, "data (1, 4, 2, 4)")
    for axis, mode in zip(axes[1:], ("darknet", "DCR", "CRD")):
        channels(axis, gops.ops.reorg(mx.nd.array(data), 2, mode).asnumpy(), f"mode={mode!r}\n(1, 16, 1, 2)")
    return figure


def channels(axes: plt.Axes, data: np.ndarray, title: str) -> None:
    """Channels one below the other; an element's colour is the channel that it came from."""
    _, count, height, width = data.shape
    step = height + 0.35
    for (_, channel, y, x), value in np.ndenumerate(data):
        top = channel * step + y
        axes.add_patch(plt.Rectangle((x, top), 1, 1, facecolor=TILES[int(value) // 8], edgecolor="white"))
        axes.text(x + 0.5, top + 0.5, int(value), ha="center", va="center", fontsize=7, color="black")
    axes.set(xlim=(-0.2, width + 0.2), ylim=(count * step, -0.2), aspect="equal", title=title)
    axes.set_axis_off()


@picture
def softmax() -> plt.Figure:
    """Four logits, and their probabilities at the temperatures 0.5, 1 and 3: the lower the temperature, the more the
    largest logit gets."""
    logits = np.array([[1.0, 2.0, 3.0, 0.5]])
    figure, axes = panels(1, 1, 1, 1)
    axes[0].bar(range(4), logits[0], color=BLUE)
    axes[0].set(title="logits", xlabel="class", xticks=range(4))
    for axis, temperature in zip(axes[1:], (0.5, 1.0, 3.0)):
        p = gops.ops.softmax(mx.nd.array(logits), temperature=temperature).asnumpy()
        axis.bar(range(4), p[0], color=ORANGE)
        axis.set(title=f"temperature={temperature}", xlabel="class", xticks=range(4), ylim=(0, 1))
    return figure


@picture
def softmax_output() -> plt.Figure:
    """The probabilities of four classes, and the gradient of the logits for the label 2: the probabilities, minus 1 at
    the label."""
    label = mx.nd.array([2])
    p, gradient = value_and_gradient(lambda x: gops.ops.softmax_output(x, label), [[1, 2, 1.5, 0.5]])
    figure, (left, right) = panels(1, 1)
    left.bar(range(4), p[0], color=BLUE)
    left.set(title="output", xlabel="class", xticks=range(4), ylim=(0, 1))
    right.bar(range(4), gradient[0], color=[RED if g < 0 else ORANGE for g in gradient[0]])
    right.axhline(0, linewidth=0.8)
    right.set(title="gradient for the label 2", xlabel="class", xticks=range(4))
    return figure


@picture
def softmax_cross_entropy() -> plt.Figure:
    """The loss of one row of three classes and its gradient, while the logit of the label's class goes from -6 to 6 and
    the other logits are 0, without smoothing and with smoothing of 0.2."""
    logit = np.linspace(-6, 6, 121)
    rows = np.stack([logit, 0 * logit, 0 * logit], axis=1)
    label = mx.nd.zeros(len(logit))
    figure, (left, right) = panels(1, 1)
    for smoothing, colour in ((0.0, BLUE), (0.2, ORANGE)):
        loss, gradient = value_and_gradient(
            lambda x, s=smoothing: gops.ops.softmax_cross_entropy(x, label, smoothing=s), rows)
        left.plot(logit, loss, color=colour, label=f"smoothing={smoothing}")
        right.plot(logit, gradient[:, 0], color=colour)
    left.set(title="loss", xlabel="logit of the label's class")
    left.legend()
    right.axhline(0, linewidth=0.8)
    right.set(title="gradient of this logit", xlabel="logit of the label's class")
    return figure


def focal(loss_of: Callable, gammas: tuple) -> plt.Figure:
    """A loss and its gradient for several gammas, while a logit goes from -6 to 6."""
    logit = np.linspace(-6, 6, 121)
    figure, (left, right) = panels(1, 1)
    for gamma, colour in zip(gammas, (BLUE, ORANGE, GREEN)):
        loss, gradient = value_and_gradient(lambda x, gamma=gamma: loss_of(x, gamma), logit[:, None])
        left.plot(logit, loss.ravel(), color=colour, label=f"gamma={gamma}")
        right.plot(logit, gradient.ravel(), color=colour)
    left.set(title="loss", xlabel="logit of a positive")
    left.legend()
    right.axhline(0, linewidth=0.8)
    right.set(title="gradient", xlabel="logit of a positive")
    return figure


@picture
def sigmoid_focal_loss() -> plt.Figure:
    """The loss of a positive and its gradient, for gamma 0, 1 and 2 without weights: the larger gamma, the less a logit
    above 0 counts."""
    return focal(lambda x, gamma: gops.ops.sigmoid_focal_loss(x, mx.nd.ones_like(x), alpha=-1, gamma=gamma), (0, 1, 2))


@picture
def softmax_focal_loss() -> plt.Figure:
    """The loss of a row of two classes and its gradient, for gamma 0, 1 and 2, while the logit of the label's class
    goes from -6 to 6 and the other one is 0."""
    def loss_of(x, gamma):
        rows = mx.nd.concat(x, mx.nd.zeros_like(x), dim=1)
        return gops.ops.softmax_focal_loss(rows, mx.nd.zeros(len(x)), gamma=gamma)
    return focal(loss_of, (0, 1, 2))


@picture
def sigmoid_cross_entropy() -> plt.Figure:
    """The loss of a positive and its gradient, while its logit goes from -6 to 6, with a weight of 1 and of 3."""
    logit = np.linspace(-6, 6, 121)
    figure, (left, right) = panels(1, 1)
    for weight, colour in ((1, BLUE), (3, ORANGE)):
        loss, gradient = value_and_gradient(
            lambda x, w=weight: gops.ops.sigmoid_cross_entropy(x, mx.nd.ones_like(x), pos_weight=w), logit[:, None])
        left.plot(logit, loss.ravel(), color=colour, label=f"pos_weight={weight}")
        right.plot(logit, gradient.ravel(), color=colour)
    left.set(title="loss", xlabel="logit of a positive")
    left.legend()
    right.axhline(0, linewidth=0.8)
    right.set(title="gradient", xlabel="logit of a positive")
    return figure


@picture
def center_loss() -> plt.Figure:
    """Features of three classes in the plane, the centre of each class as a cross, and arrows along the negative
    gradient: every feature moves to the centre of its class."""
    random = np.random.RandomState(0)
    labels = np.repeat(np.arange(3), 12)
    centers = np.array([[-2.5, 0], [2.0, 1.2], [0.5, -1.8]])
    features = centers[labels] + random.randn(36, 2) * 0.8
    label, fixed = mx.nd.array(labels), mx.nd.array(centers)
    loss, gradient = value_and_gradient(lambda x: gops.ops.center_loss(x, label, fixed), features)
    figure, (left, right) = panels(1, 1, height=3.2)
    for number, colour in enumerate((BLUE, ORANGE, GREEN)):
        of_class = labels == number
        distance = np.linalg.norm(features[of_class] - centers[number], axis=1)
        left.quiver(*features[of_class].T, *-gradient[of_class].T * 0.5, color=colour, angles="xy",
                    scale_units="xy", scale=1, width=0.006)
        left.plot(*features[of_class].T, "o", color=colour, markersize=4)
        left.plot(*centers[number], "X", color=colour, markersize=11, markeredgecolor=plt.rcParams["text.color"])
        right.plot(distance, loss[of_class], "o", color=colour, label=f"class {number}")
    left.set(title="features, centres, half of each step", aspect="equal")
    right.set(title="loss", xlabel="distance to the centre of the class")
    right.legend()
    return figure


@picture
def margin_softmax_cross_entropy() -> plt.Figure:
    """The cosine that takes the place of the label's, while the label's angle goes from 0 to 180 degrees, and the loss
    of a row whose other cosines are 0, with a scale of 8: without a margin, and with those of CosFace, ArcFace and
    SphereFace. Beyond 151 degrees ArcFace's is a line."""
    angle = np.linspace(0.5, 179.5, 180)
    cosines = np.stack([np.cos(np.radians(angle)), 0 * angle], axis=1)
    label = mx.nd.zeros(len(angle))
    figure, (left, right) = panels(1, 1, height=3)
    margins = {"none": {"m2": 0}, "CosFace, m3=0.35": {"m2": 0, "m3": 0.35}, "ArcFace, m2=0.5": {},
               "SphereFace, m1=2": {"m1": 2, "m2": 0}}
    for (name, margin), colour in zip(margins.items(), (GREEN, ORANGE, BLUE, RED)):
        loss = gops.ops.margin_softmax_cross_entropy(mx.nd.array(cosines), label, scale=8, **margin).asnumpy()
        left.plot(angle, -np.log(np.expm1(loss)) / 8, color=colour, label=name)
        right.plot(angle, loss, color=colour)
    left.set(title="cosine with its margin", xlabel="angle of the label", xticks=range(0, 181, 45))
    left.legend()
    right.set(title="loss", xlabel="angle of the label", xticks=range(0, 181, 45))
    return figure


@picture
def iou_loss() -> plt.Figure:
    """The four losses of a box of 2 x 2 and their gradient by its centre, while the box moves along x past its ground
    truth of 2 x 1. Where the two are apart, IoU has no gradient; the other kinds still pull the box to its ground
    truth."""
    x = np.linspace(-4, 4, 161)
    boxes = np.stack([x, 0 * x, 0 * x + 2, 0 * x + 2], axis=1)
    truth = mx.nd.array(np.tile([0, 0, 2, 1], (len(x), 1)))
    figure, (left, right) = panels(1, 1, height=3)
    for kind, colour in zip(("iou", "giou", "diou", "ciou"), (BLUE, ORANGE, GREEN, RED)):
        loss, gradient = value_and_gradient(
            lambda data, kind=kind: gops.ops.iou_loss(data, truth, kind=kind, format="center"), boxes)
        left.plot(x, loss, color=colour, label=kind)
        right.plot(x, gradient[:, 0], color=colour)
    left.set(title="loss", xlabel="centre of the box")
    left.legend()
    right.axhline(0, linewidth=0.8)
    right.set(title="gradient by the centre", xlabel="centre of the box")
    return figure


@picture
def box_iou() -> plt.Figure:
    """Two boxes of one set (solid) and three of another (dashed), and the IoU of every pair."""
    lhs, rhs = [[0.5, 0.5, 3, 3], [4, 1, 6, 4]], [[1, 1, 3.5, 3], [3, 2, 5.5, 4], [0, 3.5, 1.5, 4.5]]
    output = gops.ops.box_iou(mx.nd.array(lhs), mx.nd.array(rhs)).asnumpy()
    figure, (left, right) = panels(1.2, 1, height=2.8)
    for boxes, colour, line, mark in ((lhs, BLUE, "-", "lhs"), (rhs, ORANGE, "--", "rhs")):
        for number, (xmin, ymin, xmax, ymax) in enumerate(boxes):
            box(left, ((xmin + xmax) / 2, (ymin + ymax) / 2), (xmax - xmin, ymax - ymin), colour, linestyle=line)
            left.text(xmin + 0.1, ymin + 0.35, f"{mark} {number}", color=colour)
    left.set(xlim=(-0.2, 6.2), ylim=(4.8, 0), aspect="equal", title="boxes")
    right.imshow(output, cmap="Blues", vmin=0, vmax=1.5)
    for (row, column), value in np.ndenumerate(output):
        right.text(column, row, f"{value:.2f}", ha="center", va="center", color="black")
    right.set(title="output", xlabel="box of rhs", ylabel="box of lhs", xticks=range(3), yticks=range(2))
    return figure


def grid(axes: plt.Axes, size: int, title: str) -> None:
    """A map's cells."""
    for line in range(size + 1):
        axes.plot([line, line], [0, size], [0, size], [line, line], color=plt.rcParams["text.color"], linewidth=0.4)
    axes.set(xlim=(-0.3, size + 0.3), ylim=(size + 0.3, -0.3), aspect="equal", title=title)
    axes.set_axis_off()


def box(axes: plt.Axes, centre: tuple[float, float], size: tuple[float, float], colour: str, **how: str) -> None:
    """A box in cells, by its centre and size."""
    corner = np.array(centre) - np.array(size) / 2
    axes.add_patch(plt.Rectangle(corner, *size, fill=False, edgecolor=colour, linewidth=2, **how))


@picture
def region_decode() -> plt.Figure:
    """The five anchors of YOLOv2 for VOC around the middle of a map of 13 x 13 cells; and one prediction: its cell, its
    anchor dashed, and the box that the operator makes of it, moved within the cell and scaled."""
    anchors = np.array(VOC_ANCHORS).reshape(-1, 2)
    figure, (left, right) = panels(1, 1, height=3.8)
    grid(left, 13, "the anchors")
    for size, colour in zip(anchors, (BLUE, ORANGE, GREEN, RED, "#8e6fc1")):
        box(left, (6.5, 6.5), size, colour)

    data = np.zeros((1, 5 * 6, 13, 13))
    row, column, anchor = 7, 5, 2
    data[0, anchor * 6:anchor * 6 + 4, row, column] = [1.2, -0.8, 0.25, -0.3]   # x, y, w, h before activation
    boxes = gops.ops.region_decode(mx.nd.array(data), anchors.ravel(), 1).asnumpy()
    found = boxes[0, anchor, row, column, :4] * 13
    grid(right, 13, "an anchor (dashed) and its box")
    right.add_patch(plt.Rectangle((column, row), 1, 1, facecolor=BLUE, alpha=0.5))
    box(right, (column + 0.5, row + 0.5), anchors[anchor], GREEN, linestyle="--")
    box(right, found[:2], found[2:], RED)
    right.plot(*found[:2], "o", color=RED, markersize=5)
    return figure


@picture
def region_loss() -> plt.Figure:
    """A ground truth in a map of 5 x 5 cells: the cell of its centre is marked, and of two anchors, dashed, the one
    with the more similar size is matched. And the loss of the objectness, while its logit goes from -6 to 6: of the
    match, and of a prediction elsewhere."""
    figure, (left, right) = panels(1, 1.3, height=3)
    grid(left, 5, "ground truth, anchors (dashed)")
    truth, anchors = np.array([2.7, 2.3, 2.6, 1.9]), ((2.2, 2.2), (0.8, 1.6))
    left.add_patch(plt.Rectangle((2, 2), 1, 1, facecolor=BLUE, alpha=0.5))
    for size, colour in zip(anchors, (GREEN, "#9aa0a6")):
        box(left, (2.5, 2.5), size, colour, linestyle="--")
    box(left, truth[:2], truth[2:], RED)

    logit = np.linspace(-6, 6, 121)
    images = mx.nd.array(np.tile([*truth / 5, 0], (len(logit), 1, 1)))
    seen = mx.nd.array([12800], dtype="float64")   # The warm-up is over then.
    for place, part, name in (((2, 2), 1, "the match"), ((0, 0), 2, "elsewhere")):
        data = np.zeros((len(logit), 12, 5, 5))
        data[:, 4::6] = -12   # no objects
        data[:, 4, place[0], place[1]] = logit
        _, parts = gops.ops.region_loss(mx.nd.array(data), images, seen, anchors=anchors, classes=1, rescore=False,
                                        parts=True)[:2]
        right.plot(logit, parts.asnumpy()[:, part], color=GREEN if part == 1 else ORANGE, label=name)
    right.set(title="loss of the objectness", xlabel="its logit")
    right.legend()
    return figure


@picture
def yolo_loss() -> plt.Figure:
    """A prediction of a ground truth that moves along x past it, with the losses of boxes: the loss of coordinates, and
    the gradient by x, which is minus the delta of Darknet."""
    center = np.linspace(0.02, 0.98, 121)
    data = np.zeros((len(center), 6, 1, 1))
    data[:, 0, 0, 0] = np.log(center / (1 - center))
    images = mx.nd.array(np.tile([0.5, 0.5, 0.25, 0.2, 0], (len(center), 1, 1)))
    figure, (left, right) = panels(1, 1, height=3)
    for kind, colour in zip(("mse", "giou", "diou", "ciou"), (BLUE, ORANGE, GREEN, RED)):
        numbers = mx.nd.array(data)
        numbers.attach_grad()
        with mx.autograd.record():
            loss, parts = gops.ops.yolo_loss(numbers, images, anchors=(0.2, 0.2), classes=1, dialect="alexeyab",
                                             box_loss=kind, parts=True)
        loss.backward()
        left.plot(center, parts.asnumpy()[:, 0], color=colour, label=kind)
        right.plot(center, numbers.grad.asnumpy()[:, 0, 0, 0], color=colour)
    left.set(title="loss of coordinates", xlabel="predicted x in the cell")
    left.legend()
    right.axhline(0, linewidth=0.8)
    right.set(title="gradient by the data", xlabel="predicted x in the cell")
    return figure


@picture
def gaussian_yolo_loss() -> plt.Figure:
    """A ground truth and a prediction that moves along x past it, sure of its x or not: the loss of coordinates, and
    the gradient by the mean of x."""
    center = np.linspace(0.02, 0.98, 121)
    images = mx.nd.array(np.tile([0.5, 0.5, 0.25, 0.2, 0], (len(center), 1, 1)))
    figure, (left, right) = panels(1, 1, height=3)
    for deviation, colour in zip((0.05, 0.15, 0.5), (BLUE, ORANGE, GREEN)):
        data = np.zeros((len(center), 10, 1, 1))
        data[:, 0, 0, 0] = np.log(center / (1 - center))
        data[:, 1, 0, 0] = np.log(deviation / (1 - deviation))
        numbers = mx.nd.array(data)
        numbers.attach_grad()
        with mx.autograd.record():
            loss, parts = gops.ops.gaussian_yolo_loss(numbers, images, anchors=(0.2, 0.2), classes=1, parts=True)
        loss.backward()
        left.plot(center, parts.asnumpy()[:, 0], color=colour, label=f"deviation {deviation}")
        right.plot(center, numbers.grad.asnumpy()[:, 0, 0, 0], color=colour)
    left.set(title="loss of coordinates", xlabel="predicted x in the cell")
    left.legend()
    right.axhline(0, linewidth=0.8)
    right.set(title="gradient by the mean", xlabel="predicted x in the cell")
    return figure
