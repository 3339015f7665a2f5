"""Finds and computes the parts of a graph that depend on no input, such as anchors and grids."""
from __future__ import annotations

import numpy as np

from ..contract.errors import OpError
from ..runtime import importing
from .graph import VARIABLE, Entry, Graph, Node
from .operators import traits_of
from .operators.attributes import attributes_of
from .rules import VALUES, Call
from .sizes import Arrays, Sizes

if importing.is_imported():
    import mxnet as mx



def parameter_only(graph: Graph, values: Arrays) -> set[Node]:
    """The nodes that depend on no input, parameters included. ``values``: Parameters and states."""
    constant = set()
    for node in graph.nodes():
        reads_constants = all(source in constant for source, _ in node.inputs)
        is_constant = node.name in values if node.is_variable else reads_constants
        if is_constant:
            constant.add(node)
    return constant


def computed(entries: list[Entry], attrs: dict) -> list[np.ndarray]:
    """Compute outputs of nodes that depend on nothing, in float32: by NumPy if it can, else by MXNet.

    An OpError names a node that needs MXNet, where that is not installed.
    """
    nodes = Graph(entries, attrs).nodes()
    unknown = next((node for node in nodes if node.op not in VALUES), None)
    if unknown is None:
        values = {}
        for node in nodes:
            read = [values[source] for source, _ in node.inputs]
            call = Call(node, {entry: value.shape for entry, value in zip(node.inputs, read)})
            values[node] = VALUES[node.op](call, *read)
        arrays = [values[node] for node, _ in entries]
    elif importing.is_imported():
        arrays = evaluate(entries, {}, attrs)
    else:
        raise OpError("export", f"the node {unknown.name!r} ({unknown.op}) is a constant that MXNet has to compute, "
                      "and MXNet is not installed", "Run: gluonops install-mxnet")
    return [np.ascontiguousarray(array, np.float32) for array in arrays]


def evaluate(outputs: list[Entry], values: Arrays, attrs: dict) -> list[np.ndarray]:
    """Compute outputs of nodes that depend on no input. ``values`` are those of the variables that they depend on."""
    if not outputs:
        return []
    further = Node(VARIABLE, Graph(outputs, attrs).free_name("further"))   # a CachedOp fails without inputs
    symbol = Graph([*outputs, (further, 0)], attrs).symbol()
    values = {**values, further.name: mx.nd.zeros(1)}
    with Graph(outputs, attrs).mode():
        *results, _ = mx.nd.CachedOp(symbol)(*[values[name] for name in symbol.list_inputs()])
        return [result.asnumpy() for result in results]


def constants(graph: Graph, values: Arrays, sizes: Sizes) -> tuple[set[Node], dict[Entry, np.ndarray]]:
    """The constant nodes, and the values of those of their outputs that other nodes read or the graph returns.

    In the graph a node that reads only the shape of a tensor then reads a placeholder of that shape.
    """
    constant = set()
    for node in graph.nodes():
        if node.is_variable:
            if node.name in values:
                constant.add(node)
        elif not is_random(node) and _is_constant(node, constant, sizes):
            constant.add(node)
            for position in _shape_inputs(node):
                entry = node.inputs[position]
                attrs = {"shape": str(sizes.shape[entry]), "dtype": sizes.dtype[entry].name}
                node.inputs[position] = Node("_zeros", "placeholder", attrs), 0
    outputs = dict.fromkeys(output for output in graph.outputs if output[0] in constant)
    for node in graph.nodes():
        if node not in constant:
            outputs.update(dict.fromkeys(entry for entry in node.inputs if entry[0] in constant))
    outputs = sorted(outputs, key=lambda entry: (entry[0].name, entry[1]))
    return constant, dict(zip(outputs, evaluate(outputs, values, graph.attrs)))


def has_open_size(node: Node) -> bool:
    """Whether a node makes an array of which MXNet infers a size: that of a recurrent layer's first states.

    The size is 0, or -1 with NumPy's shapes. NumPy's operators have sizes of 0 that are meant so.
    """
    return traits_of(node).may_be_open and not {0, -1}.isdisjoint(attributes_of(node)["shape"])


def is_random(node: Node) -> bool:
    """Whether a node draws random numbers, at inference too."""
    return traits_of(node).draws or (node.op == "Dropout" and attributes_of(node)["mode"] == "always")


def _shape_inputs(node: Node) -> list[int]:
    """The positions of the inputs of which a node reads the shape only."""
    return [position for position in traits_of(node).shape_inputs if position < len(node.inputs)]


def _is_constant(node: Node, constant: set[Node], sizes: Sizes) -> bool:
    """Whether a node reads constant values, and shapes that do not depend on the batch size."""
    infers_range = traits_of(node).acts_as == "arange" and attributes_of(node)["infer_range"]
    if not node.inputs and (has_open_size(node) or infers_range):
        return False   # MXNet infers the rest of its shape from the nodes that read it.
    shape_inputs = _shape_inputs(node)
    read = {source for position, (source, _) in enumerate(node.inputs) if position not in shape_inputs}
    if not read <= constant:
        return False
    shapes = [shape for (owner, _), shape in sizes.shape.items() if owner is node]
    shapes += [sizes.shape[node.inputs[position]] for position in shape_inputs]
    return all(isinstance(size, int) for shape in shapes for size in shape)
