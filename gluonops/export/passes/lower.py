"""Replaces the operators of gluonops by the nodes of a backend, and the other way round."""
from __future__ import annotations

import warnings
from collections.abc import Collection

import mxnet as mx

from ...backends import emitter
from ...backends.backend import backend as _backend
from ...contract import registry
from ...contract.errors import OpError, plural
from ..canonical import canonicalize_graph
from ..graph import Entry, Graph, Node, is_ours, kind, our_name, package_of
from ..model import ExportedModel
from ..warning import ExportWarning

LOSS_HEAD = "__gluonops_head__"   # distinguishes loss heads


def canonicalize(model: ExportedModel) -> ExportedModel:
    """Make each operator of gluonops a single ``Custom`` node under its own name.

    The nodes that the emitter inserted around it are removed; the emitter has marked them.

    Parameters
    ----------
    model : ExportedModel

    Raises
    ------
    OpError
        This gluonops does not have the operator or one of its attributes. The message has the version that wrote the
        file.
    """
    model = model.copy()
    canonicalize_graph(model.graph)
    return model


def lower(model: ExportedModel, backend: str, keep: Collection[str] = ()) -> ExportedModel:
    """Replace each canonical node by the nodes that a backend emits.

    Names, inputs, and attributes such as ``__lr_mult__`` stay.

    Parameters
    ----------
    model : ExportedModel
        Canonical.
    backend : {'builtin', 'custom', 'native', 'auto'}
        As for :func:`gluonops.backend`.
    keep : collection of str
        Operators of gluonops whose nodes stay canonical.

    Raises
    ------
    OpError
        A node reads a hidden output of an operator.
    """
    model = model.copy()
    graph = model.graph
    lowered = {}   # canonical node -> the outputs that replace its own
    for node in graph.nodes():
        node.inputs = [_replacement(lowered, entry, f"the node {node.name!r}") for entry in node.inputs]
        if is_ours(node) and our_name(node) in keep:
            continue
        if is_ours(node):
            lowered[node] = _lowered(graph, node, backend)
        elif node.op == "Custom":
            needed = f", with {package_of(node)}" if package_of(node) else ""
            warnings.warn(f"the node {node.name!r} is the operator {kind(node)!r}, which is not from gluonops: the "
                          f"file needs that operator wherever it runs{needed}", ExportWarning, stacklevel=3)
    graph.outputs = [_replacement(lowered, entry, "the file") for entry in graph.outputs]
    loss_heads = [node for node in graph.nodes() if LOSS_HEAD in node.attrs]
    for number, node in enumerate(loss_heads):   # their marks do not depend on the process that writes them
        node.attrs[LOSS_HEAD] = str(number)
    return model


def _replacement(lowered: dict[Node, list[Entry]], entry: Entry, reader: str) -> Entry:
    """What to read instead of an output. An OpError for a hidden output of a canonical node, which is not replaced."""
    node, index = entry
    if node not in lowered:
        return entry
    count = len(lowered[node])
    if index >= count:
        raise OpError("export", f"{reader} reads output {index} of {node.name!r}, which returns only "
                      f"{plural(count, 'output')}", "Read only what the operator returns")
    return lowered[node][index]


def _lowered(graph: Graph, node: Node, backend: str) -> list[Entry]:
    """The outputs of the nodes that replace a canonical node."""
    op = registry.get(our_name(node)).op
    placeholders = {arg.name: mx.sym.var(f"input{i}") for i, arg in enumerate(op.inputs)}
    with graph.mode(), _backend(backend), mx.name.NameManager(), mx.AttrScope(**node.marks()):
        symbols = emitter.emit(op, placeholders, node.options(), node.name)
    symbols = symbols if isinstance(symbols, tuple) else (symbols,)
    return graph.splice(mx.sym.Group(symbols), {f"input{i}": entry for i, entry in enumerate(node.inputs)})
