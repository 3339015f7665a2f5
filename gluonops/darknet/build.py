"""Builds a HybridBlock from a Darknet cfg: one child for every section, in order, named by its number and kind."""
from __future__ import annotations

import os
import re
from collections.abc import Callable

import mxnet as mx
import numpy as np
from mxnet.gluon import nn

from ..nn import Reorg
from .cfg import read_cfg
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

# Options of [net], [region] and the others that concern training only.
NET_TRAINING = (
    "B1", "B2", "adam", "angle", "aspect", "batch", "burn_in", "center", "clip", "decay", "eps", "exposure", "gamma",
    "hue", "learning_rate", "max_batches", "max_crop", "max_ratio", "min_crop", "min_ratio", "momentum", "notruth",
    "policy", "power", "random", "saturation", "scale", "scales", "step", "steps", "subdivisions")
REGION_TRAINING = (
    "absolute", "bias_match", "class_scale", "classfix", "coord_scale", "jitter", "log", "mask_scale", "max",
    "noobject_scale", "object_scale", "random", "rescore", "sqrt", "thresh")
YOLO_TRAINING = ("ignore_thresh", "jitter", "max", "random", "truth_thresh")
COST_TRAINING = ("noobj", "ratio", "scale", "thresh", "type")
# What may follow a softmax, which returns a row of numbers.
FLAT = ("cost", "dropout", "route", "softmax")


class _Builder:
    """Adds the layers to a net. Keeps the shape of every output: (channels, height, width), or (numbers,)."""

    def __init__(self, net, epsilon):
        self.net, self.epsilon = net, epsilon
        self.shapes, self.detections = [], {}

    def add(self, section):
        make = LAYERS.get(section.kind)
        if make is None:
            raise section.error(f"a section of this kind is not supported; expected one of {', '.join(sorted(LAYERS))}",
                                "Remove the layer, if the network computes the same without it")
        index = len(self.shapes)
        before = self.shapes[-1] if self.shapes else self.net.input_shape
        if len(before) == 1 and section.kind not in FLAT:
            raise section.error("the layer before it returns no image",
                                f"Behind a softmax only {', '.join(FLAT)} can follow")
        with self.net.name_scope():
            name = f"layer{index:02d}_{section.kind}"
            block, sources, shape = make(self, section, before, f"{name}_")
        section.close()
        if min(shape) < 1:
            raise section.error(f"its output would be {shape} (channels, height, width) for an input of {before}",
                                "Make [net] larger, or take a layer away")
        self.net.register_child(block, name)
        self.net._sources.append(sources or [index - 1])
        self.shapes.append(shape)

    def earlier(self, section, key, index):
        """The absolute number of an earlier layer, which a section gives counted from itself or from the start."""
        absolute = index + len(self.shapes) if index < 0 else index
        if not 0 <= absolute < len(self.shapes):
            raise section.error(f"{key} names layer {index}; this is layer {len(self.shapes)}, expected "
                                f"{-len(self.shapes)} to {len(self.shapes) - 1}", "Name an earlier layer",
                                section.line_of(key))
        if len(self.shapes[absolute]) == 1:
            raise section.error(f"{key} names layer {index}, which returns no image", "Name another layer",
                                section.line_of(key))
        return absolute

    def convolutional(self, section, shape, prefix):
        channels, size = section.integer("filters", 1, 1), section.integer("size", 1, 1)
        stride, groups = section.integer("stride", 1, 1), section.integer("groups", 1, 1)
        padding = section.integer("padding", 0, 0)
        if section.integer("pad", 0):
            padding = size // 2
        normalized = bool(section.integer("batch_normalize", 0))
        activation = section.text("activation", "logistic", sorted(ACTIVATIONS))
        for key in ("binary", "flipped", "xnor"):
            section.refuse(key, "weights are taken as they are")
        section.skip("dot")
        for what, count in (("channels of the input", shape[0]), ("filters", channels)):
            if count % groups:
                raise section.error(f"{count} {what} do not divide into {groups} groups", "Correct groups",
                                    section.line_of("groups"))
        block = Convolution(channels, size, shape[0], stride, padding, groups, normalized, activation, self.epsilon,
                            prefix=prefix)
        return block, None, (channels, *((side + 2 * padding - size) // stride + 1 for side in shape[1:]))

    def maxpool(self, section, shape, prefix):
        stride = section.integer("stride", 1, 1)
        size = section.integer("size", stride, 1)
        padding = section.integer("padding", size - 1, 0)
        if padding > 2 * size - 2:
            raise section.error(f"padding is {padding}; expected 0 to {2 * size - 2} for windows of {size}",
                                "Correct padding", section.line_of("padding"))
        sides = ((side + padding - size) // stride + 1 for side in shape[1:])
        is_small = min(shape[1:]) + padding // 2 * 2 < size
        return MaxPool(size, stride, padding, any_size=is_small, prefix=prefix), None, (shape[0], *sides)

    def avgpool(self, section, shape, prefix):
        return AvgPool(prefix=prefix), None, (shape[0], 1, 1)

    def route(self, section, shape, prefix):
        sources = [self.earlier(section, "layers", i) for i in section.integers("layers")]
        groups = section.integer("groups", 1, 1)
        group = section.integer("group_id", 0, 0)
        shapes = [self.shapes[i] for i in sources]
        if len({s[1:] for s in shapes}) > 1:
            raise section.error("the layers are not of one height and width: " + ", ".join(
                f"layer {i} is {s}" for i, s in zip(sources, shapes)), "Name layers of one size",
                section.line_of("layers"))
        if group >= groups or any(s[0] % groups for s in shapes):
            raise section.error(f"group_id {group} of {groups} groups of {' and '.join(str(s[0]) for s in shapes)} "
                                "channels does not exist", "Correct groups and group_id", section.line_of("groups"))
        block = Route([s[0] for s in shapes], groups, group, prefix=prefix)
        return block, sources, (sum(s[0] for s in shapes) // groups, *shapes[0][1:])

    def shortcut(self, section, shape, prefix):
        source = self.earlier(section, "from", section.integer("from"))
        activation = section.text("activation", "linear", sorted(ACTIVATIONS))
        if self.shapes[source] != shape:
            raise section.error(f"layer {source} is {self.shapes[source]} (channels, height, width), this one's input "
                                f"is {shape}; adding a part of a layer is not supported",
                                "Name a layer of the same shape", section.line_of("from"))
        block = Shortcut(activation, section.number("alpha", 1), section.number("beta", 1), prefix=prefix)
        return block, [len(self.shapes) - 1, source], shape

    def reorg(self, section, shape, prefix):
        stride, reverse = section.integer("stride", 1, 1), bool(section.integer("reverse", 0))
        for key in ("flatten", "extra"):
            section.refuse(key, "another operation than reorg")
        channels, *sides = shape
        if channels % stride ** 2 or (not reverse and any(side % stride for side in sides)):
            raise section.error(f"stride {stride} does not fit its input, {shape} (channels, height, width): channels "
                                f"have to divide by {stride ** 2}, height and width by {stride}",
                                "Choose another size in [net]", section.line_of("stride"))
        block = Reorg(stride, "darknet", reverse, prefix=prefix)
        if reverse:
            return block, None, (channels // stride ** 2, *(side * stride for side in sides))
        return block, None, (channels * stride ** 2, *(side // stride for side in sides))

    def upsample(self, section, shape, prefix):
        stride = section.integer("stride", 2, 1)
        return (Upsample(stride, section.number("scale", 1), prefix=prefix), None,
                (shape[0], *(side * stride for side in shape[1:])))

    def dropout(self, section, shape, prefix):
        probability = section.number("probability", 0.5)
        if not 0 <= probability < 1:
            raise section.error(f"probability is {probability}; expected 0 to 1, without 1", "Correct probability",
                                section.line_of("probability"))
        return nn.Dropout(probability, prefix=prefix), None, shape

    def softmax(self, section, shape, prefix):
        section.refuse("tree", "softmax trees", neutral=None)
        section.refuse("spatial", "Darknet ignores it on a CPU and not on a GPU")
        section.skip("noloss")
        groups, temperature = section.integer("groups", 1, 1), section.number("temperature", 1)
        size = int(np.prod(shape))
        if size % groups or temperature <= 0:
            raise section.error(f"{size} numbers in {groups} groups at temperature {temperature}; expected groups of "
                                "one size and a temperature above 0", "Correct groups or temperature")
        return Softmax(groups, temperature, prefix=prefix), None, (size,)

    def cost(self, section, shape, prefix):
        section.skip(*COST_TRAINING)
        return Identity(prefix=prefix), None, shape

    def region(self, section, shape, prefix):
        section.refuse("tree", "softmax trees, yolo9000", neutral=None)
        section.refuse("map", "class maps, yolo9000", neutral=None)
        section.refuse("background", "a background class")
        section.refuse("coords", "boxes have four numbers", neutral=4)
        section.skip(*REGION_TRAINING, "coords")
        classes, count = section.integer("classes", 20, 1), section.integer("num", 1, 1)
        stride = self.stride(section, shape)
        anchors = self.anchors(section, count)
        block = Region(anchors, classes, bool(section.integer("softmax", 0)), prefix=prefix)
        self.detection(section, shape, anchors * stride, classes, stride)
        return block, None, shape

    def yolo(self, section, shape, prefix):
        section.refuse("map", "class maps", neutral=None)
        section.skip(*YOLO_TRAINING)
        classes, total = section.integer("classes", 20, 1), section.integer("num", 1, 1)
        mask = section.integers("mask", ",".join(map(str, range(total))))
        if not all(0 <= i < total for i in mask):
            raise section.error(f"mask is {mask}; expected numbers of anchors, 0 to {total - 1}", "Correct mask",
                                section.line_of("mask"))
        anchors = self.anchors(section, total)[mask]
        block = Region(anchors, classes, class_softmax=False, prefix=prefix)
        self.detection(section, shape, anchors, classes, self.stride(section, shape))
        return block, None, shape

    def anchors(self, section, count):
        """The option as a (count, 2) array; Darknet takes 0.5 for anchors that are not given."""
        numbers = section.numbers("anchors") if "anchors" in section else [0.5] * (2 * count)
        if len(numbers) != 2 * count or min(numbers) <= 0:
            raise section.error(f"anchors are {len(numbers)} numbers from {min(numbers)} up; expected {2 * count} "
                                f"numbers above 0, for num={count}", "Correct anchors or num",
                                section.line_of("anchors"))
        return np.array(numbers, "float32").reshape(-1, 2)

    def stride(self, section, shape):
        """Pixels from one cell to the next."""
        (_, height, width), (_, rows, columns) = self.net.input_shape, shape
        if width % columns or height % rows or width // columns != height // rows:
            raise section.error(f"its map has {rows} x {columns} cells for images of {height} x {width}; expected "
                                "square cells of whole pixels",
                                "Choose a height and width in [net] that are multiples of 32")
        return width // columns

    def detection(self, section, shape, anchors, classes, stride):
        """Record the map of a detection layer."""
        if shape[0] != len(anchors) * (5 + classes):
            raise section.error(f"its input has {shape[0]} channels; expected {len(anchors)} anchors * (5 + {classes} "
                                f"classes) = {len(anchors) * (5 + classes)}", "Correct filters of the layer before",
                                section.line_of("classes"))
        self.detections[len(self.shapes)] = anchors, classes, stride

    def finish(self):
        """Decide what the net returns: the maps of all detection layers, if it ends in one, else the last output."""
        last = len(self.shapes) - 1
        detects = last in self.detections
        self.net._outputs = tuple(self.detections) if detects else (last,)
        self.net._detections = list(self.detections.values()) if detects else []


LAYERS = {name: getattr(_Builder, name) for name in (
    "avgpool", "convolutional", "cost", "dropout", "maxpool", "region", "reorg", "route", "shortcut", "softmax",
    "upsample", "yolo")}
LAYERS.update(conv=_Builder.convolutional, max=_Builder.maxpool, avg=_Builder.avgpool)   # Darknet's short forms


def load(cfg: str | os.PathLike, weights: str | os.PathLike | None = None, ctx: mx.Context | None = None,
         epsilon: float | None = None, progress: Callable | None = None) -> DarknetNet:
    """Build a Darknet cfg's network as a HybridBlock, and load its weights.

    Understood are the sections convolutional (batch norm or bias; leaky, linear, logistic, mish, relu; groups),
    maxpool, avgpool, route (with groups), reorg, shortcut, upsample, dropout, softmax, cost, region and yolo: YOLOv2,
    Darknet-19, YOLOv3 and their tiny variants. Any other section is refused: a network without it would compute
    something else.

    Parameters
    ----------
    cfg : str or os.PathLike
        Path of the cfg.
    weights : str or os.PathLike, optional
        Path of the weights. Without them the net is returned uninitialized.
    ctx : Context, optional
        Where the parameters go; by default the current context.
    epsilon : float, optional
        Batch norms divide by ``sqrt(variance + epsilon)``; 1e-5 is what Darknet does on a GPU. By default they divide
        by ``sqrt(variance) + 1e-6``, as Darknet does on a CPU.
    progress : callable, optional
        Wraps the sequence of layers while weights are loaded, as ``tqdm.tqdm`` does.

    Returns
    -------
    DarknetNet
        Takes (B, channels, H, W) in RGB, 0 to 1; returns the last layer's output, or a tuple of maps where there are
        several ``[yolo]`` layers. ``net.detector()`` returns detections.

    Raises
    ------
    OpError
        A file cannot be read; a section or option is not understood or does not fit (the message names file, line and
        section); the weights are of another network (it names the layer and the counts).
    """
    first, *sections = read_cfg(cfg)
    channels, height, width = (first.integer(key, low=1) for key in ("channels", "height", "width"))
    first.refuse("time_steps", "recurrent networks", neutral=1)
    first.skip(*NET_TRAINING)
    first.close()
    name = os.path.splitext(os.path.basename(os.fspath(cfg)))[0]
    net = DarknetNet((channels, height, width), prefix=re.sub(r"\W", "_", name) + "_")
    builder = _Builder(net, epsilon)
    for section in sections:
        builder.add(section)
    builder.finish()
    if weights is not None:
        load_weights(net, weights, ctx or mx.current_context(), progress)
    return net
