"""Computes the parts of a graph that depend on no input, such as anchors and grids."""
from __future__ import annotations

import re

import mxnet as mx
import numpy as np

from ..constants import evaluate
from ..graph import VARIABLE, Entry, Graph, Node
from ..shapes import Arrays
from ..sizes import Sizes

# Operators that read only the shape of some of their inputs, by position.
SHAPE_READERS = {"Crop": (1,), "_contrib_MultiBoxPrior": (0,), "_contrib_arange_like": (0,), "zeros_like": (0,),
                 "ones_like": (0,), "slice_like": (1,), "broadcast_like": (1,), "reshape_like": (1,),
                 "shape_array": (0,), "size_array": (0,)}
RANDOM = ("_random_", "_sample_", "sample_", "random_", "_shuffle")


def constants(graph: Graph, values: Arrays, sizes: Sizes) -> tuple[set[Node], dict[Entry, np.ndarray]]:
    """Find the constant nodes, and compute their outputs.

    - ``graph``: changed in place: a node that reads only the shape of a tensor reads a placeholder of that shape
      instead.
    - ``values``: Parameters and states.

    Returns the constant nodes, and the values of those outputs that other nodes or heads read.
    """
    constant = set()
    placeholders = {}
    for node in graph.nodes():
        if node.is_variable:
            if node.name in values:
                constant.add(node)
        elif not is_random(node) and _is_constant(node, constant, sizes):
            constant.add(node)
            for position in _shape_inputs(node):
                entry = node.inputs[position]
                variable = Node(VARIABLE, f"shape of {len(placeholders)}")
                placeholders[variable.name] = mx.nd.zeros(sizes.shape[entry], dtype=sizes.dtype[entry])
                node.inputs[position] = variable, 0
    outputs = _outputs_read(graph, constant)
    return constant, dict(zip(outputs, evaluate(outputs, {**values, **placeholders}, graph.attrs)))


def _outputs_read(graph: Graph, constant: set[Node]) -> list[Entry]:
    """The outputs of constant nodes that heads or other nodes read, in the order of names."""
    outputs = {head for head in graph.heads if head[0] in constant}
    for node in graph.nodes():
        if node not in constant:
            outputs.update(entry for entry in node.inputs if entry[0] in constant)
    return sorted(outputs, key=lambda entry: (entry[0].name, entry[1]))


def is_random(node: Node) -> bool:
    """Whether a node draws random numbers, at inference too."""
    return node.op.startswith(RANDOM) or (node.op == "Dropout" and node.attrs.get("mode") == "always")


def _shape_inputs(node: Node) -> list[int]:
    """The positions of the inputs of which a node reads the shape only."""
    return [position for position in SHAPE_READERS.get(node.op, ()) if position < len(node.inputs)]


def _is_constant(node: Node, constant: set[Node], sizes: Sizes) -> bool:
    """Whether a node reads constant values, and shapes that do not depend on the batch size.

    MXNet infers a shape with a 0, and the length of an ``_arange`` with ``infer_range``, from the nodes that read it.
    """
    is_open = "0" in re.findall(r"\d+", node.attrs.get("shape", "")) or node.flag("infer_range")
    if not node.inputs and is_open:
        return False
    shape_inputs = _shape_inputs(node)
    for position, (source, _) in enumerate(node.inputs):
        if position not in shape_inputs and source not in constant:
            return False
    shapes = [shape for (owner, _), shape in sizes.shape.items() if owner is node]
    shapes += [sizes.shape[node.inputs[position]] for position in shape_inputs]
    return all(isinstance(size, int) for shape in shapes for size in shape)
