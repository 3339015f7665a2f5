"""The parts of a graph that no input reaches, computed once: anchors, grids, whatever is made of parameters alone."""
import mxnet as mx

from ...core.errors import OpError
from ..constants import evaluate
from ..graph import VARIABLE, Node

# Operators that read only the shape of some of their inputs, by position.
SHAPE_READERS = {"_contrib_arange_like": (0,), "zeros_like": (0,), "ones_like": (0,), "slice_like": (1,),
                 "broadcast_like": (1,), "reshape_like": (1,), "shape_array": (0,), "size_array": (0,)}
RANDOM = ("_random_", "_sample_", "sample_", "random_", "_shuffle")


def constants(graph, values, sizes):
    """What the nodes without inputs compute.

    Parameters
    ----------
    graph : Graph
        Changed: what reads only a shape reads a variable of its own instead.
    values : dict of str to NDArray
    sizes : Sizes

    Returns
    -------
    set of Node, dict of (Node, int) to numpy.ndarray
        The nodes that are constant; and those of their outputs that other nodes, or heads, read.
    """
    fixed = set()
    stand_ins = {}
    for node in graph.nodes():
        if node.is_variable:
            if node.name in values:
                fixed.add(node)
        elif _is_random(node):
            raise OpError("export.onnx", f"the node {node.name!r} draws random numbers ({node.op})",
                          "Export a net that computes the same every time")
        elif _is_fixed(node, fixed, sizes):
            fixed.add(node)
            for position in SHAPE_READERS.get(node.op, ()):
                _read_a_stand_in(node, position, stand_ins, sizes)
    wanted = {head for head in graph.heads if head[0] in fixed}
    for node in graph.nodes():
        if node not in fixed:
            wanted |= {entry for entry in node.inputs if entry[0] in fixed}
    wanted = sorted(wanted, key=lambda key: (key[0].name, key[1]))
    return fixed, dict(zip(wanted, evaluate(wanted, {**values, **stand_ins}, graph.attrs)))


def _is_random(node):
    return node.op.startswith(RANDOM) or (node.op == "Dropout" and node.attrs.get("mode") == "always")


def _is_fixed(node, fixed, sizes):
    shape_only = SHAPE_READERS.get(node.op, ())
    return (all(source in fixed for i, (source, _) in enumerate(node.inputs) if i not in shape_only)
            and all(isinstance(size, int) for key, shape in sizes.shape.items() if key[0] is node for size in shape)
            and all(isinstance(size, int) for i in shape_only if i < len(node.inputs)
                    for size in sizes.shape[node.inputs[i]]))


def _read_a_stand_in(node, position, stand_ins, sizes):
    if position >= len(node.inputs):
        return
    key = node.inputs[position]
    variable = Node(VARIABLE, f"shape of {len(stand_ins)}")
    stand_ins[variable.name] = mx.nd.zeros(sizes.shape[key], dtype=sizes.dtype[key])
    node.inputs[position] = variable, 0
