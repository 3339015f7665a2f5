"""A net as a graph and its values: where every export of one starts."""
from __future__ import annotations

import functools
import inspect
import os
import re
import traceback
from typing import Any

import mxnet as mx

from .. import ops
from ..core import registry
from ..core.backend import backend as _backend
from ..core.errors import OpError
from .canonical import canonicalize_graph
from .graph import Graph
from .metadata import metadata_of
from .shapes import Arrays, DataShape, Shapes, input_shapes, last_line, mismatch_reason, type_name

HEADS = {name: getattr(ops, name) for name, entry in registry.entries().items() if entry.op.role == "loss head"}
AFTER_A_SOFTMAX = ("_copy", "_identity_with_attr_like_rhs", "squeeze", "_np_squeeze", "_npx_reshape", "broadcast_div")
ONLY_OF_ARRAYS = ("shape", "ndim", "size", "dtype", "context", "ctx")


def trace(where: str, net: mx.gluon.HybridBlock, data_shape: DataShape, dtype: str | None = None,
          head: str | None = None) -> tuple[
        Graph, dict[str, mx.nd.NDArray], dict[str, tuple[int, ...]], dict]:
    """The graph of a net, in canonical form, its parameters, the shapes of its inputs, and its metadata.

    Parameters
    ----------
    where : str
        Who asks, for errors.
    net : HybridBlock
    data_shape : tuple of int or dict of str to tuple of int
        Shape of the input ``data``; or of every input, in the order in which the net takes them.
    dtype : str, optional
        Type of the inputs. The default is the type of the parameters.
    head : {None, 'softmax_output'}

    Returns
    -------
    Graph, dict of str to NDArray, dict of str to tuple of int, dict
    """
    if not isinstance(net, mx.gluon.HybridBlock):
        raise OpError(where, f"net is {type(net).__name__}; expected a HybridBlock",
                      "Derive the net from gluon.HybridBlock, or collect layers in a HybridSequential")
    shapes, dtype = input_shapes(where, data_shape), type_name(where, dtype or _parameter_type(net))
    _check_inputs(where, net, shapes)
    _finish_initialization(where, net, shapes, dtype)
    outputs = _outputs(where, net, shapes)
    read = set(mx.sym.Group(outputs).list_inputs())
    values = {p.name: p._reduce() for p in net.collect_params().values() if p.name in read}
    outputs = _described(outputs, values)
    reason = _mismatch(outputs, values, shapes, dtype)
    if reason:
        raise _refusal(where, net, shapes, reason)
    if head is not None:
        outputs = [_with_head(where, net, outputs, head)]
    graph = Graph.of(mx.sym.Group(outputs))
    canonicalize_graph(graph)
    values = {name: values[name] for name in graph.variables() if name in values}
    return graph, values, shapes, {**metadata_of(net), "dtype": dtype}


def _check_inputs(where: str, net: mx.gluon.HybridBlock, shapes: Shapes) -> None:
    given = type(net)
    if given.__call__ is not mx.gluon.HybridBlock.__call__:
        takes = net.__call__   # as of gluon's LSTM, which makes the states if it is given none
    elif given.hybrid_forward is not mx.gluon.HybridBlock.hybrid_forward:
        takes = functools.partial(net.hybrid_forward, mx.sym)
    else:
        return   # it overrides forward, which takes what it likes
    wanted = [p.name for p in inspect.signature(takes).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD
              and p.default is p.empty and p.name not in net._reg_params]
    if len(shapes) < len(wanted):
        raise OpError(where, f"{given.__name__} takes the inputs {', '.join(wanted)}, and data_shape has "
                      f"{len(shapes)} shape", "Pass a dict with the shape of each, such as "
                      f"{{{', '.join(f'{name!r}: (...)' for name in wanted)}}}")


def _parameter_type(net: mx.gluon.HybridBlock) -> str:
    """The type of the first parameter that is trained; float32 for a net without one."""
    trained = (p.dtype for p in net.collect_params().values() if p.grad_req != "null")
    return next(trained, "float32")


def _finish_initialization(where: str, net: mx.gluon.HybridBlock, shapes: Shapes, dtype: str) -> None:
    """Close the shapes that are open, by what MXNet infers; by a run of the net where that leaves some open."""
    values = {p.name: p for p in net.collect_params().values()}
    missing = [p.name for p in values.values() if p._data is None and not p._deferred_init]
    if missing:
        raise OpError(where, f"the parameter {missing[0]} of {type(net).__name__} is not initialized",
                      "Call net.initialize() or net.load_parameters(path) first")
    deferred = [p for p in values.values() if p._deferred_init]
    if not deferred:
        return
    graph = mx.sym.Group(_outputs(where, net, shapes))
    try:
        arguments, _, states = graph.infer_shape_partial(**shapes)
    except mx.MXNetError as error:
        raise _refusal(where, net, shapes, last_line(error)) from error
    found = dict(zip(graph.list_arguments() + graph.list_auxiliary_states(), arguments + states))
    for parameter in deferred:
        if found.get(parameter.name) and 0 not in found[parameter.name]:
            parameter.shape = found[parameter.name]
            parameter._finish_deferred_init()
            parameter._var = None   # it was made with the open shape
    if any(parameter._deferred_init for parameter in deferred):
        context = deferred[0]._deferred_init[1][0]
        _call(where, net, shapes, [mx.nd.zeros(shape, context, dtype) for shape in shapes.values()])


def _described(outputs: list[mx.sym.Symbol], values: Arrays) -> list[mx.sym.Symbol]:
    """The outputs of a graph whose variables have the shapes and types that the parameters have now.

    Gluon makes a parameter's variable once. Neither the shape that a run closed nor the type of a later cast gets into
    it.
    """
    graph = Graph.of(mx.sym.Group(outputs))
    for node in graph.nodes():
        if node.is_variable and node.name in values:
            value = values[node.name]
            marks = mx.sym.var(node.name, shape=value.shape, dtype=value.dtype).list_attr()
            node.attrs.update({mark: text for mark, text in marks.items() if mark in node.attrs})
    return list(graph.symbol())


def _mismatch(outputs: list[mx.sym.Symbol], values: Arrays, shapes: Shapes, dtype: str) -> str | None:
    """Why inputs of these shapes and types do not fit the parameters; None where they do."""
    symbol = mx.sym.Group(outputs)
    values = {name: values[name] for name in symbol.list_inputs() if name in values}
    return mismatch_reason(symbol, {**{name: value.shape for name, value in values.items()}, **shapes},
                  {**{name: value.dtype for name, value in values.items()}, **dict.fromkeys(shapes, dtype)})


def _refusal(where: str, net: mx.gluon.HybridBlock, shapes: Shapes, reason: str) -> OpError:
    given = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    return OpError(where, f"{type(net).__name__} refuses data_shape, {given}: {reason}",
                   "Pass the shape of every input that the net takes, batch included")


def _outputs(where: str, net: mx.gluon.HybridBlock, shapes: Shapes) -> list[mx.sym.Symbol]:
    """The net's outputs as symbols, out of the lists and tuples they may come in."""
    with _backend("custom"):
        outputs = _call(where, net, shapes, [mx.sym.var(name) for name in shapes])
    flat, waiting = [], [outputs]
    while waiting:
        item = waiting.pop(0)
        if isinstance(item, mx.sym.Symbol):
            flat.append(item)
        elif isinstance(item, (list, tuple)):
            waiting[:0] = item
        else:
            raise OpError(where, f"{type(net).__name__} returns {item!r} among its outputs; expected symbols, in lists "
                          "or tuples", "Return only what it computes, with F's operators")
    if not flat:
        raise OpError(where, f"{type(net).__name__} returns nothing", "Return its outputs")
    return flat


def _call(where: str, net: mx.gluon.HybridBlock, shapes: Shapes, inputs: list) -> Any:
    try:
        return net(*inputs)
    except OpError:
        raise
    except AttributeError as error:
        raise _without_attribute(where, net, shapes, error) from error
    except Exception as error:   # of a net by anyone
        reason = f"{type(error).__name__}: {last_line(error) if str(error).strip() else ''}"
        raise _refusal(where, net, shapes, reason) from error


def _without_attribute(where: str, net: mx.gluon.HybridBlock, shapes: Shapes, error: AttributeError) -> OpError:
    """The error for a net that reads what a Symbol does not have, such as its shape."""
    read = re.search(rf"'Symbol' object has no attribute '({'|'.join(ONLY_OF_ARRAYS)})'", str(error))
    if read is None:
        return _refusal(where, net, shapes, f"AttributeError: {last_line(error)}")
    place = traceback.extract_tb(error.__traceback__)[-1]
    line = f"{os.path.basename(place.filename)} line {place.lineno}"
    return OpError(where, f"{type(net).__name__} reads .{read.group(1)} of a Symbol, in {line}; expected operators "
                   "only, because a graph takes arrays of any size",
                   "Use F.reshape with 0 and -1, F.reshape_like, F.slice_like, F.broadcast_like, F.zeros_like or "
                   "F.contrib.arange_like")


def _with_head(where: str, net: mx.gluon.HybridBlock, outputs: list[mx.sym.Symbol], head: str) -> mx.sym.Symbol:
    if head not in HEADS:
        raise OpError(where, f"head is {head!r}; expected None or {', '.join(map(repr, HEADS))}", "Choose one of them")
    if len(outputs) != 1 or len(outputs[0].list_outputs()) != 1:
        raise OpError(where, f"{type(net).__name__} has several outputs; expected one for head={head!r}",
                      "Wrap it in a HybridBlock that returns one of them")
    if _ends_in_softmax(Graph.of(outputs[0])):
        raise OpError(where, f"{type(net).__name__} already ends in a softmax; expected logits for head={head!r}",
                      "Pass the part of the net that returns logits, for instance net.body")
    return HEADS[head](outputs[0], name="softmax")


def _ends_in_softmax(graph: Graph) -> bool:
    """Whether the output is a softmax, perhaps divided by its sum, copied or renamed on its way out."""
    node = graph.heads[0][0]
    while node.op in AFTER_A_SOFTMAX:
        node = node.source()
    return "softmax" in node.op or "softmax" in node.attrs.get("op_type", "")
