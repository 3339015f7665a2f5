"""A picture of an exported net: a box for each layer, shapes on the edges, operators of gluonops marked."""
from __future__ import annotations

import itertools
import os
import re

import mxnet as mx

from ..core.errors import OpError
from ..core.files import check_target, replace
from .constants import parameter_only
from .drawing import draw, size_of
from .files import shapes_of_inputs
from .layers import Layer, layers
from .layout import Item, arrange
from .model import ExportedModel, Shapes
from .onnx.sizes import Sizes
from .shapes import type_name

__all__ = ["picture"]

WHERE = "export.picture"
FORMATS = ("svg", "png", "pdf")
# What is drawn in the box of the layer before, as that layer's last lines.
FOLLOWERS = ("Activation", "BatchNorm", "BlockGrad", "Dropout", "LeakyReLU", "_copy", "clip", "relu", "sigmoid", "tanh")
WITH_WEIGHTS = ("Convolution", "Deconvolution", "FullyConnected", "Embedding")
SYMBOLS = {"_mul_scalar": "\u00d7 {}", "_plus_scalar": "+ {}", "_minus_scalar": "\u2212 {}", "_div_scalar": "\u00f7 {}",
           "_rminus_scalar": "{} \u2212", "_rdiv_scalar": "{} \u00f7", "_power_scalar": "^ {}"}
# The attributes that are shown of an operator.
SHOWN = {"FullyConnected": ("num_hidden",), "Activation": ("act_type",), "LeakyReLU": ("act_type", "slope"),
         "Reshape": ("shape",), "transpose": ("axes",), "slice_axis": ("axis", "begin", "end"), "Concat": ("dim",),
         "softmax": ("axis",), "_contrib_box_nms": ("overlap_thresh", "topk"), "UpSampling": ("scale",),
         "tile": ("reps",), "clip": ("a_min", "a_max")}


def picture(net: mx.gluon.HybridBlock | str | os.PathLike, path: str | os.PathLike, data_shape: Shapes | None = None,
            epoch: int | None = None, dtype: str | None = None) -> str:
    """Draw a net.

    Layers without weights of their own that follow another (batch norm, activations) share its box. Parameters are
    not drawn, nor what is computed from them alone. A layer of gluonops is one orange box on every backend. Other
    Custom operators are red.

    Parameters
    ----------
    net : HybridBlock, str or os.PathLike
        A net; or the path, without ``-symbol.json``, of an exported one.
    path : str or os.PathLike
        The picture: svg, png or pdf.
    data_shape : tuple of int, or dict of str to tuple of int
        As in :func:`gluonops.export.onnx`.
    epoch : int, optional
        Of the parameter file; the highest there is if left out.
    dtype : str, optional
        Type of the inputs; float32, or what the files note.

    Returns
    -------
    str
        The path.

    Raises
    ------
    OpError
        A file is missing or damaged, the format is unknown, or matplotlib or grandalf is missing.
    """
    path = os.fspath(path)
    ending = os.path.splitext(path)[1][1:].lower()
    if ending not in FORMATS:
        raise OpError(WHERE, f"the picture is {path!r}; expected a name that ends in .svg, .png or .pdf",
                      "Choose one of these formats")
    check_target(WHERE, path)
    _check_libraries()
    model = _read(net, data_shape, epoch, dtype)
    graph = model.graph
    sizes = Sizes(graph, model.inputs, model.parameters, model.metadata["dtype"], dynamic_batch=False, where=WHERE)
    boxes = _boxes(graph, model.parameters)
    edges = sorted({(boxes[source], boxes[node]) for node in graph.nodes() for source, _ in node.inputs
                    if source in boxes and boxes[source] is not boxes.get(node)},
                   key=lambda edge: (edge[0].number, edge[1].number))
    everything = sorted(set(boxes.values()), key=lambda box: box.number)
    for (node, _), name in zip(graph.heads, graph.symbol().list_outputs()):
        if node in boxes:
            everything.append(_End(len(everything), name))
            edges.append((boxes[node], everything[-1]))
    for box in everything:
        box.measure(sizes)
    routes = arrange(everything, edges)
    replace(WHERE, {path: lambda name: draw(everything, routes, name, ending)})
    return path


def _check_libraries():
    """Raise where matplotlib, which draws, or grandalf, which arranges, is missing."""
    try:
        import grandalf  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise OpError(WHERE, f"the package {error.name} is not installed",
                      "Run: pip install 'gluonops[picture]', or: pip install matplotlib grandalf") from error


def _read(net, data_shape, epoch, dtype):
    if isinstance(net, mx.gluon.HybridBlock):
        shape = data_shape if data_shape is not None else ()
        return ExportedModel.from_net(net, shape, dtype, where=WHERE)
    model = ExportedModel.from_files(net, epoch, WHERE)
    model.inputs = shapes_of_inputs(WHERE, model.graph, model.parameters, model.inputs, data_shape)
    model.metadata["dtype"] = type_name(WHERE, dtype or model.metadata.get("dtype", "float32"))
    return model


class _Box(Item):
    """A box: nodes from top to bottom, the first of which names it."""

    def __init__(self, number, kind, *nodes):
        super().__init__()
        self.number, self.nodes, self.kind = number, list(nodes), kind

    def add(self, node):
        """A node that follows."""
        self.nodes.append(node)

    def name(self):
        return self.nodes[0].name

    def lines(self):
        return [_label(node) for node in self.nodes if node.op not in ("_copy", "BlockGrad")] or [_label(self.nodes[0])]

    def measure(self, sizes):
        """Fix the text and the size."""
        node = self.nodes[-1]
        shapes = [shape for (owner, _), shape in sizes.shape.items() if owner is node]
        self.shape = "  ".join("\u00d7".join(map(str, shape)) for shape in shapes[:3]) + " \u2026" * (len(shapes) > 3)
        self.text, self.caption = self.lines(), self.name()
        if self.kind == "end":
            self.text = ["input"]
        self._fit()

    def _fit(self):
        self.width, self.height = size_of(self.text, self.caption)


class _LayerBox(_Box):
    """The nodes of a layer of gluonops, and those that follow it."""

    def __init__(self, number, layer: Layer):
        super().__init__(number, "ours")
        self.layer, self.followers = layer, []

    def add(self, node):
        super().add(node)
        self.followers.append(node)

    def name(self):
        return self.layer.name

    def lines(self):
        label = f"gluonops {self.layer.operator}  {_short(self.layer.attributes)}".rstrip()
        return [label, *(_label(node) for node in self.followers)]


class _End(_Box):
    """An output."""

    def __init__(self, number, name):
        super().__init__(number, "end")
        self.name = name

    def measure(self, sizes):
        self.shape, self.text, self.caption = "", ["output"], self.name
        self._fit()


def _boxes(graph, values):
    """Node -> its box; parameters have none, nor what is computed from them alone."""
    readers, boxes, constant = graph.readers(), {}, parameter_only(graph, values)
    layer_of, box_of, numbers = layers(graph), {}, itertools.count()
    for node in graph.nodes():
        if node in constant:
            continue
        layer = layer_of.get(node)
        if layer is not None:
            if layer not in box_of:
                box_of[layer] = _LayerBox(next(numbers), layer)
            boxes[node] = box_of[layer]
            boxes[node].nodes.append(node)
            continue
        if node.is_variable:
            boxes[node] = _Box(next(numbers), "end", node)
            continue
        sources = [source for source, _ in node.inputs if source in boxes]
        alone = len(sources) == 1 and len(readers[sources[0]]) == 1 and not sources[0].is_variable
        if node.op in FOLLOWERS and alone:
            boxes[node] = boxes[sources[0]]
            boxes[node].add(node)
        else:
            boxes[node] = _Box(next(numbers), _kind(node), node)
    return boxes


def _kind(node):
    if node.op == "Custom":
        return "custom"
    return "weights" if node.op in WITH_WEIGHTS else "other"


def _label(node):
    """What a node does, in a few words."""
    attrs = node.attrs
    if node.is_variable:
        return node.name
    if node.op == "Custom":
        return f"Custom {attrs.get('op_type', '')}"
    if node.op in SYMBOLS:
        return SYMBOLS[node.op].format(f"{float(attrs.get('scalar', 0)):g}")
    name = re.sub("^(_contrib_|elemwise_|broadcast_(?!like|axis|to)|_)", "", node.op)
    return f"{name}  {_detail(node)}".rstrip()


def _detail(node):
    """What is worth showing of a node's attributes."""
    attrs = node.attrs
    if node.op in ("Convolution", "Deconvolution", "Pooling"):
        return _window(node)
    keys = SHOWN.get(node.op, ())
    if len(keys) == 1:
        return _short(attrs.get(keys[0], ""))
    return _short(", ".join(f"{key} {attrs[key]}" for key in keys if key in attrs))


def _window(node):
    """A layer that moves a window: the window, the stride, the channels."""
    attrs = node.attrs
    if node.flag("global_pool"):
        return f"global {attrs.get('pool_type', 'max')}"
    parts = []
    if node.op == "Pooling":
        parts.append(attrs.get("pool_type", "max"))
    parts.append(attrs.get("kernel", "").strip("()").replace(", ", "\u00d7"))
    if attrs.get("stride", "(1, 1)").strip("()1, "):
        parts.append(f"/{attrs['stride'].strip('()').split(',')[0]}")
    if attrs.get("num_filter"):
        parts.append(f"\u2192 {attrs['num_filter']}")
    if attrs.get("num_group", "1") != "1":
        parts.append(f"in {attrs['num_group']} groups")
    return " ".join(parts)


def _short(text, length=44):
    return text if len(text) <= length else text[:length - 1] + "\u2026"
