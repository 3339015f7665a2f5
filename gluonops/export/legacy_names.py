"""Writes a graph from NumPy mode with legacy operators, as far as they mean the same."""
from __future__ import annotations

import contextlib
import re

import numpy as np

from . import rules
from .constants import has_open_size
from .graph import Entry, Graph, Node, is_mark
from .operators.attributes import attributes_of
from .operators.siblings import SIBLINGS, Known, Sibling
from .sizes import Shapes, known_shapes, known_types, with_batch

ATTRIBUTE = "is_np_shape"   # of a graph that MXNet has to run with NumPy's shapes
InferredShapes = dict[Entry, tuple[int, ...]]


def write_legacy_names(graph: Graph, shapes: Shapes, types: dict[str, np.dtype], inputs: Shapes) -> None:
    """Replace NumPy operators by legacy ones in place, and say so if no node needs NumPy's shapes any more.

    What has no legacy sibling stays. ``shapes`` and ``types``: those of all variables, ``inputs``: the shapes of those
    that have a batch.
    """
    if not graph.is_numpy:
        return
    repair_shapes(graph)
    shape_of, kinds = _inferred(graph, shapes), known_types(graph, types)
    larger = _inferred(graph, {**shapes, **with_batch(inputs, lambda size: size + 1)})
    for node in graph.nodes():
        made = _sibling_of(node, shape_of, kinds, larger or shape_of) if node.op in SIBLINGS else None
        if made is not None:
            _write(graph, node, made, kinds)
    if shape_of and not any(shape == () or 0 in shape for shape in shape_of.values() if shape is not None):
        del graph.attrs[ATTRIBUTE]
        for node in graph.nodes():
            if node.op == "_zeros":   # The state of a cell, too.
                node.attrs["shape"] = node.attrs["shape"].replace("-1", "0")


def repair_shapes(graph: Graph) -> None:
    """Let MXNet infer the shapes of a graph from NumPy mode where it fails, in place.

    Gluon writes a size of 0 for the batch of the first states of recurrent layers, which MXNet infers in legacy mode.
    With NumPy's shapes 0 is a size, and MXNet infers -1. A concatenation without an axis flattens its inputs; MXNet
    writes the flat shapes into these.
    """
    for node in graph.nodes() if graph.is_numpy else ():
        states = node.inputs[2:] if node.op == "RNN" else []
        for state, _ in states:
            if has_open_size(state):
                state.attrs["shape"] = re.sub(r"\b0\b", "-1", state.attrs["shape"])
        if node.op == "_npi_concatenate" and node.attrs.get("axis") == "None":
            marks = {name: text for name, text in node.attrs.items() if is_mark(name)}
            node.attrs["axis"] = "0"
            node.inputs = [(Node("_np_reshape", graph.free_name(f"{node.name}_flat{place}"),
                                 {"newshape": "-1", **marks}, [entry]), 0) for place, entry in enumerate(node.inputs)]


def _inferred(graph: Graph, shapes: Shapes) -> InferredShapes:
    """The shapes of all outputs as the rules infer them, which know the open sizes of a first state; else as MXNet."""
    with contextlib.suppress(rules.Misfit):
        return rules.infer_shapes(graph, shapes)
    return known_shapes(graph, shapes)


def _sibling_of(node: Node, shape_of: InferredShapes, kinds: dict[Entry, np.dtype],
                larger: InferredShapes) -> Sibling | None:
    """The legacy operator that a node may become; None if there is none, or not enough is known."""
    entries = [*node.inputs, (node, 0)]
    if any(shape_of.get(entry) is None or entry not in kinds for entry in entries):
        return None
    return SIBLINGS[node.op](Known(
        node, attributes_of(node), [shape_of[entry] for entry in node.inputs], [kinds[entry] for entry in node.inputs],
        shape_of[node, 0], kinds[node, 0], [larger.get(entry) or shape_of[entry] for entry in node.inputs]))


def _write(graph: Graph, node: Node, made: Sibling, kinds: dict[Entry, np.dtype]) -> None:
    """Make a node the legacy operator in place, behind the casts that it needs."""
    marks = {name: text for name, text in node.attrs.items() if is_mark(name)}
    node.op, node.attrs = made.op, {**made.attrs, **marks}
    for place, entry in enumerate(node.inputs):
        if made.inputs is not None and made.inputs != kinds[entry]:
            cast = {"dtype": made.inputs.name, **marks}
            node.inputs[place] = Node("Cast", graph.free_name(f"{node.name}_cast{place}"), cast, [entry]), 0
