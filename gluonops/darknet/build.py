"""Builds a HybridBlock from a Darknet cfg: a child for each section, in order, named by its number and kind."""
from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from typing import NamedTuple

import mxnet as mx
import numpy as np
from mxnet.gluon import nn

from ..nn import Reorg
from .cfg import MAX_INT, Section, read_cfg
from .detector import Region
from .layers import (
    ACTIVATIONS,
    AvgPool,
    Convolution,
    Identity,
    MaxPool,
    Route,
    Shortcut,
    Softmax,
    Upsample,
)
from .net import DarknetNet
from .weights import load_weights

__all__ = ["load"]

# Options of [net], [region], [yolo] and [cost] for training only.
NET_TRAINING = (
    "B1", "B2", "adam", "angle", "aspect", "batch", "burn_in", "center", "clip", "decay", "eps", "exposure", "gamma",
    "hue", "learning_rate", "max_batches", "max_crop", "max_ratio", "min_crop", "min_ratio", "momentum", "notruth",
    "policy", "power", "random", "saturation", "scale", "scales", "step", "steps", "subdivisions")
REGION_TRAINING = (
    "absolute", "bias_match", "class_scale", "classfix", "coord_scale", "jitter", "log", "mask_scale", "max",
    "noobject_scale", "object_scale", "random", "rescore", "sqrt", "thresh")
YOLO_TRAINING = ("ignore_thresh", "jitter", "max", "random", "truth_thresh")
COST_TRAINING = ("noobj", "ratio", "scale", "thresh", "type")
# Sections that take the row of numbers that a softmax returns.
FLAT = ("cost", "dropout", "route", "softmax")

Shape = tuple[int, ...]   # of an output without the batch: (channels, height, width), or (numbers,)


class _Layer(NamedTuple):
    """A section as a block.

    Attributes
    ----------
    block : HybridBlock
    shape : tuple of int
        Shape of its output, without the batch.
    sources : list of int, optional
        Numbers of the layers that it reads. The default is the layer in front of it.
    """
    block: mx.gluon.HybridBlock
    shape: Shape
    sources: list[int] | None = None


class _Builder:
    """Adds layers to a net.

    Each method named after a kind of section makes the layer of such a section. It takes the section, the shape of the
    layer's input and the prefix of the block's names.

    Parameters
    ----------
    net : DarknetNet
        Without layers.
    epsilon : float, optional
        Of the batch norms; see :func:`load`.
    """

    def __init__(self, net: DarknetNet, epsilon: float | None):
        self.net = net
        self.epsilon = epsilon
        self.shapes = []       # of the layers' outputs
        self.detections = {}   # number of a detection layer -> anchors, classes, stride

    def add(self, section: Section) -> None:
        """Add the layer of a section."""
        make = LAYERS.get(section.kind)
        if make is None:
            raise section.error(f"a section of this kind is not supported; expected one of {', '.join(sorted(LAYERS))}",
                                "Remove the layer, if the network computes the same without it")
        number = len(self.shapes)
        before = self.shapes[-1] if self.shapes else self.net.input_shape
        if len(before) == 1 and section.kind not in FLAT:
            raise section.error("the layer before it returns no image",
                                f"Behind a softmax only {', '.join(FLAT)} can follow")

        name = f"layer{number:02d}_{section.kind}"
        with self.net.name_scope():
            layer = make(self, section, before, f"{name}_")
        section.close()
        if min(layer.shape) < 1:
            raise section.error(f"its output would be {layer.shape} (channels, height, width) for an input of {before}",
                                "Make [net] larger, or take a layer away")
        _check_shape(section, "output", layer.shape)

        self.net.register_child(layer.block, name)
        self.net._sources.append(layer.sources or [number - 1])
        self.shapes.append(layer.shape)

    def finish(self) -> None:
        """Set what the net returns: the maps of all detection layers if it ends in one, else the last output."""
        last = len(self.shapes) - 1
        if last in self.detections:
            self.net._outputs = tuple(self.detections)
            self.net._detections = list(self.detections.values())
        else:
            self.net._outputs = (last,)
            self.net._detections = []

    # -- kinds of sections ---------------------------------------------------------------------------------------
    def convolutional(self, section: Section, shape: Shape, prefix: str) -> _Layer:
        filters = section.integer("filters", 1, 1)
        size = section.integer("size", 1, 1)
        stride = section.integer("stride", 1, 1)
        groups = section.integer("groups", 1, 1)
        padding = section.integer("padding", 0, 0)
        if section.integer("pad", 0):
            padding = size // 2
        batch_norm = bool(section.integer("batch_normalize", 0))
        activation = section.text("activation", "logistic", sorted(ACTIVATIONS))
        for key in ("binary", "flipped", "xnor"):
            section.refuse(key, "weights are taken as they are")
        section.skip("dot")
        for what, count in (("channels of the input", shape[0]), ("filters", filters)):
            if count % groups:
                raise section.error(f"{count} {what} do not divide into {groups} groups", "Correct groups",
                                    section.line_of("groups"))

        weights = filters * (shape[0] // groups) * size**2
        if weights > MAX_INT:
            raise section.error(f"it would have {weights} weights; expected at most {MAX_INT}, as in Darknet",
                                "Correct filters or size")

        block = Convolution(filters, size, shape[0], stride, padding, groups, batch_norm, activation, self.epsilon,
                            prefix=prefix)
        sides = [(side + 2 * padding - size) // stride + 1 for side in shape[1:]]
        return _Layer(block, (filters, *sides))

    def maxpool(self, section: Section, shape: Shape, prefix: str) -> _Layer:
        stride = section.integer("stride", 1, 1)
        size = section.integer("size", stride, 1)
        padding = section.integer("padding", size - 1, 0)
        if padding > 2 * size - 2:
            raise section.error(f"padding is {padding}; expected 0 to {2 * size - 2} for windows of {size}",
                                "Correct padding", section.line_of("padding"))

        both_sides = padding // 2 * 2
        is_small = min(shape[1:]) + both_sides < size
        block = MaxPool(size, stride, padding, any_size=is_small, prefix=prefix)
        sides = [(side + padding - size) // stride + 1 for side in shape[1:]]
        return _Layer(block, (shape[0], *sides))

    def avgpool(self, section: Section, shape: Shape, prefix: str) -> _Layer:
        return _Layer(AvgPool(prefix=prefix), (shape[0], 1, 1))

    def route(self, section: Section, shape: Shape, prefix: str) -> _Layer:
        sources = [self._earlier(section, "layers", number) for number in section.integers("layers")]
        groups = section.integer("groups", 1, 1)
        group = section.integer("group_id", 0, 0)
        shapes = [self.shapes[source] for source in sources]
        channels = [source_shape[0] for source_shape in shapes]
        sides = {source_shape[1:] for source_shape in shapes}
        if len(sides) > 1:
            described = ", ".join(f"layer {source} is {self.shapes[source]}" for source in sources)
            raise section.error(f"the layers are not of one height and width: {described}", "Name layers of one size",
                                section.line_of("layers"))
        if group >= groups or any(count % groups for count in channels):
            raise section.error(f"group_id {group} of {groups} groups of {' and '.join(map(str, channels))} channels "
                                "does not exist", "Correct groups and group_id", section.line_of("groups"))

        block = Route(channels, groups, group, prefix=prefix)
        return _Layer(block, (sum(channels) // groups, *shapes[0][1:]), sources)

    def shortcut(self, section: Section, shape: Shape, prefix: str) -> _Layer:
        source = self._earlier(section, "from", section.integer("from"))
        activation = section.text("activation", "linear", sorted(ACTIVATIONS))
        if self.shapes[source] != shape:
            raise section.error(f"layer {source} is {self.shapes[source]} (channels, height, width), this one's input "
                                f"is {shape}; adding a part of a layer is not supported",
                                "Name a layer of the same shape", section.line_of("from"))

        alpha = section.number("alpha", 1)
        beta = section.number("beta", 1)
        before = len(self.shapes) - 1
        return _Layer(Shortcut(activation, alpha, beta, prefix=prefix), shape, [before, source])

    def reorg(self, section: Section, shape: Shape, prefix: str) -> _Layer:
        stride = section.integer("stride", 1, 1)
        reverse = bool(section.integer("reverse", 0))
        for key in ("flatten", "extra"):
            section.refuse(key, "another operation than reorg")
        channels, *sides = shape
        blocks_fit = reverse or not any(side % stride for side in sides)
        if channels % stride ** 2 or not blocks_fit:
            raise section.error(f"stride {stride} does not fit its input, {shape} (channels, height, width): channels "
                                f"have to divide by {stride ** 2}, height and width by {stride}",
                                "Choose another size in [net]", section.line_of("stride"))

        block = Reorg(stride, "darknet", reverse, prefix=prefix)
        if reverse:
            return _Layer(block, (channels // stride ** 2, *(side * stride for side in sides)))
        return _Layer(block, (channels * stride ** 2, *(side // stride for side in sides)))

    def upsample(self, section: Section, shape: Shape, prefix: str) -> _Layer:
        stride = section.integer("stride", 2, 1)
        scale = section.number("scale", 1)
        channels, *sides = shape
        return _Layer(Upsample(stride, scale, prefix=prefix), (channels, *(side * stride for side in sides)))

    def dropout(self, section: Section, shape: Shape, prefix: str) -> _Layer:
        probability = section.number("probability", 0.5)
        if not 0 <= probability < 1:
            raise section.error(f"probability is {probability}; expected 0 to 1, without 1", "Correct probability",
                                section.line_of("probability"))
        return _Layer(nn.Dropout(probability, prefix=prefix), shape)

    def softmax(self, section: Section, shape: Shape, prefix: str) -> _Layer:
        section.refuse("tree", "softmax trees", neutral=None)
        section.refuse("spatial", "Darknet ignores it on a CPU and not on a GPU")
        section.skip("noloss")
        groups = section.integer("groups", 1, 1)
        temperature = section.number("temperature", 1)
        size = int(np.prod(shape))
        if size % groups or temperature <= 0:
            raise section.error(f"{size} numbers in {groups} groups at temperature {temperature}; expected groups of "
                                "one size and a temperature above 0", "Correct groups or temperature")
        return _Layer(Softmax(groups, temperature, prefix=prefix), (size,))

    def cost(self, section: Section, shape: Shape, prefix: str) -> _Layer:
        section.skip(*COST_TRAINING)
        return _Layer(Identity(prefix=prefix), shape)

    def region(self, section: Section, shape: Shape, prefix: str) -> _Layer:
        section.refuse("tree", "softmax trees, yolo9000", neutral=None)
        section.refuse("map", "class maps, yolo9000", neutral=None)
        section.refuse("background", "a background class")
        section.refuse("coords", "boxes have four numbers", neutral=4)
        section.skip(*REGION_TRAINING, "coords")
        classes = section.integer("classes", 20, 1)
        count = section.integer("num", 1, 1)
        class_softmax = bool(section.integer("softmax", 0))

        stride = self._stride(section, shape)
        anchors = self._anchors(section, count)   # in cells
        self._record_detection(section, shape, anchors * stride, classes, stride)
        return _Layer(Region(anchors, classes, class_softmax, prefix=prefix), shape)

    def yolo(self, section: Section, shape: Shape, prefix: str) -> _Layer:
        section.refuse("map", "class maps", neutral=None)
        section.skip(*YOLO_TRAINING)
        classes = section.integer("classes", 20, 1)
        count = section.integer("num", 1, 1)
        mask = section.integers("mask", ",".join(map(str, range(count))))
        if not all(0 <= i < count for i in mask):
            raise section.error(f"mask is {mask}; expected numbers of anchors, 0 to {count - 1}", "Correct mask",
                                section.line_of("mask"))

        anchors = self._anchors(section, count)[mask]   # in pixels
        self._record_detection(section, shape, anchors, classes, self._stride(section, shape))
        return _Layer(Region(anchors, classes, class_softmax=False, prefix=prefix), shape)

    # -- what they share -----------------------------------------------------------------------------------------
    def _earlier(self, section: Section, key: str, number: int) -> int:
        """The absolute number of an earlier layer. A section counts from itself (negative) or from the start."""
        here = len(self.shapes)
        absolute = number + here if number < 0 else number
        if not 0 <= absolute < here:
            raise section.error(f"{key} names layer {number}; this is layer {here}, expected {-here} to {here - 1}",
                                "Name an earlier layer", section.line_of(key))
        if len(self.shapes[absolute]) == 1:
            raise section.error(f"{key} names layer {number}, which returns no image", "Name another layer",
                                section.line_of(key))
        return absolute

    def _anchors(self, section: Section, count: int) -> np.ndarray:
        """The option ``anchors``: (count, 2) of float32. Without it Darknet takes 0.5."""
        numbers = section.numbers("anchors") if "anchors" in section else [0.5] * (2 * count)
        if len(numbers) != 2 * count or min(numbers) <= 0:
            raise section.error(f"anchors are {len(numbers)} numbers from {min(numbers)} up; expected {2 * count} "
                                f"numbers above 0, for num={count}", "Correct anchors or num",
                                section.line_of("anchors"))
        return np.array(numbers, "float32").reshape(-1, 2)

    def _stride(self, section: Section, shape: Shape) -> int:
        """Pixels from one cell of a map to the next."""
        _, height, width = self.net.input_shape
        _, rows, columns = shape
        if width % columns or height % rows or width // columns != height // rows:
            raise section.error(f"its map has {rows} x {columns} cells for images of {height} x {width}; expected "
                                "square cells of whole pixels",
                                "Choose a height and width in [net] that are multiples of 32")
        return width // columns

    def _record_detection(self, section: Section, shape: Shape, anchors: np.ndarray, classes: int, stride: int) -> None:
        """Note what decodes the map of a detection layer. ``anchors`` are in pixels."""
        channels = len(anchors) * (5 + classes)
        if shape[0] != channels:
            raise section.error(f"its input has {shape[0]} channels; expected {len(anchors)} anchors * (5 + {classes} "
                                f"classes) = {channels}", "Correct filters of the layer before",
                                section.line_of("classes"))
        self.detections[len(self.shapes)] = anchors, classes, stride


LAYERS = {name: getattr(_Builder, name) for name in (
    "avgpool", "convolutional", "cost", "dropout", "maxpool", "region", "reorg", "route", "shortcut", "softmax",
    "upsample", "yolo")}
LAYERS.update(conv=_Builder.convolutional, max=_Builder.maxpool, avg=_Builder.avgpool)   # Darknet's short forms


def load(cfg: str | os.PathLike, weights: str | os.PathLike | None = None, ctx: mx.Context | None = None,
         epsilon: float | None = None, progress: Callable | None = None) -> DarknetNet:
    """Build a Darknet cfg's network as a HybridBlock, and load its weights.

    It knows the sections of YOLOv2, YOLOv3, Darknet-19 and their tiny variants: convolutional (batch norm or bias;
    leaky, linear, logistic, mish, relu; groups), maxpool, avgpool, route (with groups), reorg, shortcut, upsample,
    dropout, softmax, cost, region and yolo. It refuses any other section, because a network without that layer
    computes something else.

    Parameters
    ----------
    cfg : str or os.PathLike
        Path of the cfg.
    weights : str or os.PathLike, optional
        Path of the weights. Without them the net is returned uninitialized.
    ctx : Context, optional
        Context of the parameters. The default is the current context.
    epsilon : float, optional
        Batch norms divide by ``sqrt(variance + epsilon)``. Darknet does so on a GPU, with 1e-5. By default they divide
        by ``sqrt(variance) + 1e-6``, as Darknet does on a CPU.
    progress : callable, optional
        Wraps the sequence of layers while weights are loaded, as ``tqdm.tqdm`` does.

    Returns
    -------
    DarknetNet
        It takes images, (B, channels, H, W) in RGB from 0 to 1, and returns the last layer's output, or a tuple of maps
        if there are several ``[yolo]`` layers. ``net.detector()`` returns detections.

    Raises
    ------
    OpError
        A file cannot be read. A section or an option is not supported or does not fit; the message names the file, the
        line and the section. The weights are of another network; the message names the layer and the counts.
    """
    net_section, *sections = read_cfg(cfg)
    builder = _Builder(_empty_net(net_section, cfg), epsilon)
    for section in sections:
        builder.add(section)
    builder.finish()
    if weights is not None:
        load_weights(builder.net, weights, ctx or mx.current_context(), progress)
    return builder.net


def _check_shape(section: Section, what: str, shape: Shape) -> None:
    """Raise an OpError if there are more numbers than Darknet can count."""
    count = math.prod(shape)
    if count > MAX_INT:
        raise section.error(f"its {what} would have {count} numbers, {shape} (channels, height, width); expected at "
                            f"most {MAX_INT}, as in Darknet", "Make [net] smaller")


def _empty_net(section: Section, cfg: str | os.PathLike) -> DarknetNet:
    """A net without layers, from the section ``[net]``."""
    shape = tuple(section.integer(key, low=1) for key in ("channels", "height", "width"))
    _check_shape(section, "input", shape)
    section.refuse("time_steps", "recurrent networks", neutral=1)
    section.skip(*NET_TRAINING)
    section.close()
    name = os.path.splitext(os.path.basename(os.fspath(cfg)))[0]
    return DarknetNet(shape, prefix=re.sub(r"\W", "_", name) + "_")
