"""A graph of MXNet's operators as an ONNX model.

Every tensor's shape is inferred first, at several batch sizes: what MXNet's reshapes mean follows from it, and so does
what depends on the batch. Then each node is converted by the function that the table has for its operator.
"""
import json

from ...core.errors import OpError
from ..graph import kind
from . import arithmetic, arrays, boxes, layers  # noqa: F401  (each fills the table)
from .constants import SHAPE_READERS, constants
from .model import Call, Model, refusal
from .registry import CONVERTERS
from .sizes import Sizes

__all__ = ["convert"]


def convert(graph, values, shapes, dtype, dynamic_batch, facts, opset):
    """The ModelProto of a graph.

    Parameters
    ----------
    graph : Graph
        For inference, with MXNet's operators only; it is changed.
    values : dict of str to NDArray
    shapes : dict of str to tuple of int
        Of the inputs.
    dtype : str
        Of the inputs.
    dynamic_batch : bool
    facts : dict
        For the model's metadata: what is not a string is stored as JSON.
    opset : int
        Version of ONNX's operators.

    Raises
    ------
    OpError
        An operator has no converter, or is used in a way ONNX lacks; an input has no shape.
    """
    variables = graph.variables()
    values = {name: value for name, value in values.items() if name in variables}   # a loss took the others with it
    names = [name for name in variables if name not in values]
    without_shape = [name for name in names if name not in shapes]
    if without_shape:
        raise OpError("export.onnx", f"the input {without_shape[0]} has no shape and no value",
                      "Pass its shape by name in data_shape")
    shapes = {name: shapes[name] for name in names}
    sizes = Sizes(graph, shapes, values, dtype, dynamic_batch)
    fixed, arrays_of = constants(graph, values, sizes)
    live = _live(graph, fixed)
    _check_converters(live)
    model = Model(names[0] if dynamic_batch and names else None, opset)
    taken = {name: model.take(name) for name in names}   # before anything else can take them
    tensors = {key: model.constant(array, key[0].name) for key, array in arrays_of.items()}
    inputs = []
    for node in graph.nodes():
        key = node, 0
        if node.is_variable and node.name in shapes:
            tensors[key] = taken[node.name]
            inputs.append((tensors[key], sizes.shape[key], sizes.dtype[key]))
        elif node in live:
            _convert(model, node, tensors, sizes)
    outputs = [(_made(tensors, head), name, sizes.shape[head], sizes.dtype[head])
               for head, name in zip(graph.heads, graph.symbol().list_outputs())]
    return model.finish(inputs, outputs, {name: fact if isinstance(fact, str) else json.dumps(fact)
                                          for name, fact in facts.items()})


def _live(graph, fixed):
    """The nodes whose values count, in order: not the constant ones, nor those of which only the shape is read."""
    live, waiting = set(), [node for node, _ in graph.heads]
    while waiting:
        node = waiting.pop()
        if node in live or node in fixed or node.is_variable:
            continue
        live.add(node)
        shape_only = SHAPE_READERS.get(node.op, ())
        waiting += [source for i, (source, _) in enumerate(node.inputs) if i not in shape_only]
    return live


def _check_converters(live):
    lacking = sorted((node for node in live if node.op not in CONVERTERS), key=lambda node: (kind(node), node.name))
    if lacking:
        first, *others = dict.fromkeys(map(kind, lacking))
        raise OpError("export.onnx", f"the node {lacking[0].name!r} is the operator {first}, which has no converter to "
                      "ONNX" + f"; nor have {', '.join(others)}" * bool(others),
                      "Replace it in the net, or export symbol JSON")


def _convert(model, node, tensors, sizes):
    shape_only = SHAPE_READERS.get(node.op, ())
    call = Call(node, ["" if i in shape_only else _made(tensors, entry) for i, entry in enumerate(node.inputs)], sizes)
    model.source = node.name
    results = CONVERTERS[node.op](model, call)
    for index, result in enumerate(results if isinstance(results, list) else [results]):
        tensors[node, index] = result


def _made(tensors, entry):
    """The tensor of an output that somebody reads."""
    if entry not in tensors:
        raise refusal(entry[0], f"has its output {entry[1]} read, which its converter does not make")
    return tensors[entry]
