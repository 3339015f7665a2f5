"""The operators of gluonops inside a graph: what the emitter put around them taken off, and emitted anew.

:func:`strip` turns every custom and native node into a bare ``Custom`` node, which the other passes see;
:func:`emit` gives each the form that a backend asks for.
"""
import warnings

import mxnet as mx

from ..core import backend as _backend
from ..core import registry
from ..core.errors import OpError
from . import stamp
from .graph import LEGACY, Node, is_ours, kind, our_name

HEAD = "__gluonops_head__"


class ExportWarning(UserWarning):
    """An export that worked, and something about it that its user should know."""


def strip(graph):
    """Make every node of gluonops a bare Custom node under its own name.

    Raises
    ------
    OpError
        This gluonops does not have the operator or one of its attributes; says which gluonops wrote the file.
    """
    readers = graph.readers()
    for node in graph.nodes():
        if not is_ours(node):
            continue
        name = our_name(node)
        op = _contract(graph, node, name)
        node.attrs = {"op_type": op.graph_name, **op.strings(_parsed(graph, node, op)), **node.marks()}
        node.op = "Custom"
        node.inputs = [_behind_guards(entry) for entry in node.inputs]
        wrapper = _wrapper(node, readers)
        if wrapper is not None:
            node.name = wrapper.name
            graph.replace({(wrapper, 0): (node, 0)})


def _contract(graph, node, name):
    if name not in registry.entries():
        raise OpError("export", f"the node {node.name!r} is the operator gluonops_{name}, which this gluonops does not "
                      f"have; {stamp.origin(graph)}", stamp.remedy(graph))
    return registry.get(name).op


def _parsed(graph, node, op):
    try:
        return op.parse({key: value for key, value in node.attrs.items() if key != "op_type"})
    except OpError as error:
        raise OpError("export", f"the node {node.name!r} does not fit this gluonops: {error.what}; "
                      f"{stamp.origin(graph)}", stamp.remedy(graph)) from error


def _behind_guards(entry):
    """The output behind the identity, or the copy in plain layout, that the emitter puts on an input."""
    node = entry[0]
    if node.op == "_identity_with_attr_like_rhs" and _is_pair(node.source()):
        node = node.source()
    if node.op == "_copy":
        return node.inputs[0]
    if _is_pair(node):
        return node.source().inputs[0]
    return entry


def _is_pair(node):
    return (node.op in ("squeeze", "_np_squeeze") and node.attrs.get("axis") == "0"
            and node.source().op == "expand_dims" and node.source().attrs.get("axis") == "0")


def _wrapper(node, readers):
    """The node that bears the operator's name where the emitter put some between: ``x_native`` or ``x_custom``."""
    for suffix, path in (("_native", ("make_loss", "_copy")), ("_custom", ("expand_dims", "squeeze")),
                         ("_custom", ("expand_dims", "squeeze", "_identity_with_attr_like_rhs"))):
        last = node
        for op in path:
            following = readers[last]
            if len(following) != 1 or following[0] is None or following[0].op != op:
                break
            last = following[0]
        else:
            if node.name == last.name + suffix:
                return last
    return None


def emit(graph, backend):
    """Give every bare node the form of a backend, in place.

    Names, attributes such as ``__lr_mult__`` and the inputs stay.

    Parameters
    ----------
    graph : Graph
        As :func:`strip` leaves it.
    backend : {'builtin', 'custom', 'native', 'auto'}
        As for :func:`gluonops.backend`.
    """
    for node in graph.nodes():
        if is_ours(node):
            graph.replace({(node, 0): _emitted(graph, node, backend)})
        elif node.op == "Custom":
            legacy = ", with gluonops.legacy" * (node.attrs.get("op_type") == LEGACY)
            warnings.warn(f"the node {node.name!r} is the operator {kind(node)!r}, which is not gluonops's: the file "
                          f"needs it wherever it runs{legacy}", ExportWarning, stacklevel=3)
    _number_heads(graph)


def _number_heads(graph):
    """Marks that keep the graph's loss heads apart, and say nothing of the process that wrote them."""
    heads = [node for node in graph.nodes() if HEAD in node.attrs]
    for number, node in enumerate(heads):
        node.attrs[HEAD] = str(number)


def _emitted(graph, node, backend):
    op = registry.get(our_name(node)).op
    for reader in graph.nodes():
        if any(source is node and index for source, index in reader.inputs):
            raise OpError("export", f"the node {reader.name!r} reads a hidden output of {node.name!r}; expected its "
                          "first output only", "Take the first output in the net")
    values = {key: value for key, value in node.attrs.items() if key != "op_type" and not key.startswith("__")}
    stand_ins = {arg.name: mx.sym.var(f"input{i}") for i, arg in enumerate(op.inputs)}
    with _backend.backend(backend), mx.name.NameManager(), mx.AttrScope(**node.marks()):
        symbol = _backend.emit(op, stand_ins, values, node.name)
    return graph.splice(symbol, {f"input{i}": entry for i, entry in enumerate(node.inputs)})


def bare(op, name, inputs, values):
    """A bare node for other passes to put in.

    Parameters
    ----------
    op : Op
    name : str
    inputs : list of (Node, int)
    values : dict
        Attributes.
    """
    return Node("Custom", name, {"op_type": op.graph_name, **op.strings(op.parse(values))}, inputs)
