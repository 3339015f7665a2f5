"""Draws a net: a box for each layer, shapes on the edges, operators of gluonops marked."""
from __future__ import annotations

import dataclasses
import os
import pathlib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import mxnet as mx
import numpy as np

from ..contract.errors import OpError, shortened
from ..io.files import check_writable, replace
from .constants import parameter_only
from .graph import Graph, Node, is_ours, our_name
from .model import ExportedModel
from .operators import having, traits_of
from .operators.attributes import attributes_of
from .sizes import Arrays, DataShape, Sizes
from .training_parts import OPERATOR

if TYPE_CHECKING:
    from .drawing import Box

WHERE = "export.picture"
FORMATS = ("svg", "png", "pdf")
# Operators without weights that share the box of the layer in front of them.
FOLLOWERS = having("is_activation", "is_gate", "is_identity", "uses_statistics")
MOST_TEXT = 44   # characters of attributes in a line
COPIES = having("is_identity") & having("moves")   # they get no line in a shared box
LAYER = "__gluonops_layer__"   # a layer's name, on the nodes that end its builtin form, as its operator


@dataclasses.dataclass(eq=False)
class OwnLayer:
    """A layer of gluonops: its name, its operator without ``gluonops_``, and the attributes as text."""

    name: str
    operator: str
    attributes: str


def picture(net: mx.gluon.Block | str | os.PathLike, path: str | os.PathLike, data_shape: DataShape | None = None,
            epoch: int | None = None, dtype: str | None = None, outputs: Iterable[str] = (), inputs: Any = None) -> str:
    """Draw a net.

    Batch norms and activations share the box of the layer in front of them. Parameters are not drawn, nor is what is
    computed from parameters alone. A layer of gluonops is one orange box on every backend. Other Custom operators are
    red. What depends on a label whose shape does not follow from the data's has no shape in the picture.

    Parameters
    ----------
    net, data_shape, epoch, dtype, outputs, inputs
        As in :func:`gluonops.export.onnx`. Of a Block that cannot be hybridized, a run with ``inputs`` is drawn.
    path : str or os.PathLike
        The picture: svg, png or pdf.

    Returns
    -------
    str
        The path. A notebook shows the picture, unless it is a pdf.

    Raises
    ------
    OpError
        A file is missing or damaged, the format is unknown, or matplotlib or grandalf is missing.
    """
    path = os.fspath(path)
    ending = _ending(path)
    check_writable(WHERE, path)
    try:
        import grandalf  # noqa: F401  (it arranges the boxes)
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise OpError(WHERE, f"the package {error.name} is not installed",
                      "Run: pip install 'gluonops[picture]', or: pip install matplotlib grandalf") from error
    from .drawing import arrange, draw

    model = ExportedModel.of(WHERE, net, data_shape, epoch, dtype, outputs, inputs=inputs)
    boxes, edges = _boxes_and_edges(model.graph, model.parameters, _sizes(model))
    routes = arrange(boxes, edges)
    replace(WHERE, {path: lambda name: draw(boxes, routes, name, ending)})
    return _Path(path)


def _sizes(model: ExportedModel) -> Sizes:
    """The sizes of all that a model computes; where a label's shape is not known, of what does not need it."""
    values = {name: value.astype("float32") if value.dtype == np.int8 else value   # as a Module loads them
              for name, value in model.parameters.items()}
    arguments = model.inputs, values, model.metadata["dtype"], False, WHERE
    try:
        return Sizes(model.graph, *arguments)
    except OpError:
        part = model.known_part()
        if part is model.graph:
            raise
        return Sizes(part or Graph((), model.graph.attrs), *arguments)


class _Path(str):
    """The path of a picture, with the methods by which a notebook shows it."""

    def _repr_svg_(self) -> str | None:
        return pathlib.Path(self).read_text(encoding="utf-8") if _ending(self) == "svg" else None

    def _repr_png_(self) -> bytes | None:
        return pathlib.Path(self).read_bytes() if _ending(self) == "png" else None


def _ending(path: str) -> str:
    ending = os.path.splitext(path)[1][1:].lower()
    if ending not in FORMATS:
        raise OpError(WHERE, f"the picture is {path!r}; expected a name that ends in .svg, .png or .pdf",
                      "Choose one of these formats")
    return ending


def _boxes_and_edges(graph: Graph, values: Arrays, sizes: Sizes) -> tuple[list[Box], list[tuple[Box, Box]]]:
    """The boxes, outputs last, and the pairs of boxes that an edge connects."""
    from .drawing import Box

    layer_of = layers(graph)
    owners = _owners(graph, values, layer_of)
    members = {}
    for node, owner in owners.items():
        members.setdefault(owner, []).append(node)
    box_of = {owner: Box(*_content(nodes, layer_of), _shape_text(nodes[-1], sizes))
              for owner, nodes in members.items()}

    boxes = list(box_of.values())
    edges = [(box_of[source], box_of[reader]) for source, reader in _edges(graph, owners)]
    for (node, _), name in zip(graph.outputs, graph.symbol().list_outputs()):
        if node in owners:
            boxes.append(Box("end", ["output"], name))
            edges.append((box_of[owners[node]], boxes[-1]))
    return boxes, edges


def layers(graph: Graph) -> dict[Node, OwnLayer]:
    """Node -> the layer of gluonops that it is, or a part of, in a canonical graph. Other nodes are missing.

    What is outside a layer reads only the layer's last nodes.
    """
    layer_of, ends_of = {}, {}   # ends_of: name of a builtin layer -> the nodes that bear the names of its outputs
    for node in graph.nodes():
        if is_ours(node):
            attributes = ", ".join(f"{key}={value}" for key, value in node.options().items())
            layer_of[node] = OwnLayer(node.name, our_name(node), attributes)
        elif LAYER in node.attrs:
            ends_of.setdefault(node.attrs[LAYER], []).append(node)
    for name, ends in ends_of.items():
        operator, _, attributes = ends[0].attrs[OPERATOR].partition(" ")
        layer_of.update(dict.fromkeys(_inside(graph, name, ends), OwnLayer(name, operator, attributes)))
    return layer_of


def _inside(graph: Graph, name: str, ends: list[Node]) -> set[Node]:
    """The nodes of a builtin form: those with a name from the layer's counter that only the layer reads."""
    members, readers = set(ends), graph.readers()
    counted = re.compile(re.escape(name) + r"_[a-z_]+[0-9]+")
    for node in reversed(graph.nodes()):
        named = counted.fullmatch(node.name) and not node.is_variable and not node.inserted_as
        if named and readers[node] and members.issuperset(readers[node]):
            members.add(node)
    return members


def _owners(graph: Graph, values: Arrays, layer_of: dict[Node, OwnLayer]) -> dict[Node, Node]:
    """Node -> the first node in its box. Constant nodes are not drawn and are missing here."""
    constant = parameter_only(graph, values)
    readers = graph.readers()
    owners, first_of = {}, {}
    for node in graph.nodes():
        if node in constant:
            continue
        if node in layer_of:
            owners[node] = first_of.setdefault(layer_of[node], node)
            continue
        sources = [source for source, _ in node.inputs if source in owners]
        follows = node.op in FOLLOWERS and len(sources) == 1
        follows = follows and len(readers[sources[0]]) == 1 and not sources[0].is_variable
        owners[node] = owners[sources[0]] if follows else node
    return owners


def _edges(graph: Graph, owners: dict[Node, Node]) -> list[tuple[Node, Node]]:
    """The pairs (source, reader) of different boxes, each once, in the order of the boxes."""
    edges = {(owners[source], owners[node]) for node in graph.nodes() for source, _ in node.inputs
             if source in owners and owners[source] is not owners[node]}
    order = {node: i for i, node in enumerate(owners)}
    return sorted(edges, key=lambda edge: (order[edge[0]], order[edge[1]]))


def _content(nodes: list[Node], layer_of: dict[Node, OwnLayer]) -> tuple[str, list[str], str]:
    """The kind, the lines and the caption of a box of nodes in a row. The first one, or its layer, names it."""
    first = nodes[0]
    if first.is_variable:
        return "end", ["input"], first.name
    lines = [_label(node) for node in nodes if node not in layer_of and node.op not in COPIES]
    if first in layer_of:
        layer = layer_of[first]
        title = f"gluonops {layer.operator}  {shortened(layer.attributes, MOST_TEXT)}".rstrip()
        return "ours", [title, *lines], layer.name
    kind = "weights" if traits_of(first).has_weights else "custom" if first.op == "Custom" else "other"
    return kind, lines or [_label(first)], first.name


def _shape_text(node: Node, sizes: Sizes, most: int = 3) -> str:
    """The shapes of a node's outputs, such as ``1\u00d73\u00d732\u00d732``."""
    shapes = [shape for (owner, _), shape in sizes.shape.items() if owner is node]
    text = "  ".join("\u00d7".join(map(str, shape)) for shape in shapes[:most])
    return f"{text} \u2026" if len(shapes) > most else text


def _label(node: Node) -> str:
    """An operator's line: its name and its most important attributes."""
    if node.op == "Custom":
        return f"Custom {node.attrs.get('op_type', '')}"
    traits = traits_of(node)
    if traits.symbol:
        return traits.symbol.format(f"{attributes_of(node)['scalar']:g}")
    name = re.sub("^(_contrib_|elemwise_|broadcast_(?!like|axis|to)|_)", "", node.op)
    if traits.acts_as == "pooling" or traits.is_linear and "kernel" in attributes_of(node):
        return f"{name}  {_window(node)}".rstrip()
    detail = ", ".join(f"{key} {node.attrs[key]}" for key in traits.shown if key in node.attrs)
    if len(traits.shown) == 1:
        detail = node.attrs.get(traits.shown[0], "")
    return f"{name}  {shortened(detail, MOST_TEXT)}".rstrip()


def _window(node: Node) -> str:
    """The window of a convolution or a pooling, such as ``3\u00d73 /2 \u2192 64``."""
    attributes, is_pooling = attributes_of(node), traits_of(node).acts_as == "pooling"
    if is_pooling and attributes["global_pool"]:
        return f"global {attributes['pool_type']}"
    parts = [attributes["pool_type"]] if is_pooling else []
    parts.append("\u00d7".join(map(str, attributes["kernel"])))
    if set(attributes["stride"]) - {1}:
        parts.append(f"/{attributes['stride'][0]}")
    if not is_pooling:
        parts.append(f"\u2192 {attributes['num_filter']}")
    if not is_pooling and attributes["num_group"] != 1:
        parts.append(f"in {attributes['num_group']} groups")
    return " ".join(parts)
