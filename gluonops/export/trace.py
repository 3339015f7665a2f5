"""Traces a net: makes its graph and collects its parameters."""
from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
import traceback
from collections.abc import Iterator
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.util import is_np_array

from .. import ops
from ..backends import native, numpy_mode
from ..backends.backend import backend as _backend
from ..contract import registry
from ..contract.errors import OpError, plural
from .canonical import canonicalize_graph
from .graph import Graph
from .legacy_names import repair_shapes, write_legacy_names
from .metadata import metadata_of
from .recording import check_initialized, signature_of
from .sizes import DataShape, Shapes, input_shapes, known_shapes, last_line, mismatch_reason, type_mismatch, type_name
from .training_parts import ends_in_softmax

LOSS_HEADS = {name: getattr(ops, name) for name, entry in registry.entries().items() if entry.op.role == "loss head"}
RECORD = "pass inputs, the arrays that the net is called with, such as inputs=(x, lengths): a run of it is recorded"
ARRAY_ATTRIBUTES = ("shape", "ndim", "size", "dtype", "context", "ctx")


def trace(where: str, net: mx.gluon.HybridBlock, data_shape: DataShape, dtype: str | None = None,
          head: str | None = None, keeps_numpy: bool = False
          ) -> tuple[Graph, dict[str, mx.nd.NDArray], Shapes, dict[str, Any]]:
    """The canonical graph of a net, its parameters and states, the shapes of its inputs, and the metadata.

    See :meth:`gluonops.export.ExportedModel.from_net`.
    """
    if not isinstance(net, mx.gluon.HybridBlock):
        remedy = "Derive the net from gluon.HybridBlock, or collect layers in a HybridSequential"
        if isinstance(net, mx.gluon.Block):
            remedy += f". Or leave it as it is: {RECORD}"
        raise OpError(where, f"net is {type(net).__name__}; expected a HybridBlock", remedy)
    shapes = input_shapes(where, data_shape)
    numpy_mode.check_one_mode(where, net)
    is_numpy = numpy_mode.is_numpy_net(net)
    with numpy_mode.mode(is_numpy), numpy_mode.fresh_variables(net):
        return _traced(where, net, shapes, dtype, head, keeps_numpy)


def _traced(where: str, net: mx.gluon.HybridBlock, shapes: Shapes, dtype: str | None, head: str | None,
            keeps_numpy: bool) -> tuple[Graph, dict[str, mx.nd.NDArray], Shapes, dict[str, Any]]:
    """What :func:`trace` returns, in the net's own mode."""
    trained = (parameter.dtype for parameter in net.collect_params().values() if parameter.grad_req != "null")
    dtype = type_name(where, dtype or next(trained, "float32"))
    _check_inputs(where, net, shapes)
    _finish_initialization(where, net, shapes, dtype)
    outputs = _outputs(where, net, shapes)
    names = set(mx.sym.Group(outputs).list_inputs())
    values = {parameter.name: numpy_mode.to_legacy(parameter._reduce()) for parameter in net.collect_params().values()
              if parameter.name in names}
    graph = _described(outputs, values)
    if not names & shapes.keys():
        raise OpError(where, f"no output of {type(net).__name__} depends on an input ({', '.join(shapes)})",
                      "Return what the net computes of its inputs")
    repair_shapes(graph)
    all_shapes = {**{name: value.shape for name, value in values.items()}, **shapes}
    all_types = {**{name: value.dtype for name, value in values.items()}, **dict.fromkeys(shapes, np.dtype(dtype))}
    if not keeps_numpy:
        write_legacy_names(graph, all_shapes, all_types, shapes)
    reason = mismatch_reason(graph, all_shapes) or type_mismatch(graph, all_types)
    if reason:
        raise _refusal(where, net, shapes, reason)
    if head is not None:
        with graph.mode():   # MXNet writes it in the graph
            graph = Graph.of(_with_loss_head(where, net, list(graph.symbol()), head))
    canonicalize_graph(graph)
    values = {name: values[name] for name in graph.variables() if name in values}
    return graph, values, shapes, {**metadata_of(net), "dtype": dtype}


def _check_inputs(where: str, net: mx.gluon.HybridBlock, shapes: Shapes) -> None:
    """Raise an OpError if ``data_shape`` has fewer inputs than the net needs, as far as a signature tells them."""
    needed = [one.name for one in inspect.signature(signature_of(net)).parameters.values()
              if one.kind is one.POSITIONAL_OR_KEYWORD and one.default is one.empty and one.name not in net._reg_params]
    if len(shapes) < len(needed):
        example = ", ".join(f"{name!r}: (...)" for name in needed)
        raise OpError(where, f"{type(net).__name__} takes the inputs {', '.join(needed)}, and data_shape has "
                      f"{plural(len(shapes), 'shape')}", f"Pass a dict with the shape of each, such as {{{example}}}")


def _finish_initialization(where: str, net: mx.gluon.HybridBlock, shapes: Shapes, dtype: str) -> None:
    """Initialize the parameters of unknown shape, from the shapes of the inputs.

    If some do not follow, the net is run once.
    """
    check_initialized(where, net)
    parameters = list(net.collect_params().values())
    deferred = [parameter for parameter in parameters if parameter._deferred_init]
    if not deferred:
        return
    graph = Graph.of(mx.sym.Group(_outputs(where, net, shapes)))
    reason = mismatch_reason(graph, shapes)
    if reason:
        raise _refusal(where, net, shapes, reason)
    inferred = {node.name: shape for (node, _), shape in known_shapes(graph, shapes).items() if node.is_variable}
    for parameter in deferred:
        if parameter.name in inferred:
            parameter.shape = inferred[parameter.name]
            parameter._finish_deferred_init()
            parameter._var = None   # the old variable has the unknown shape
    unknown = [parameter for parameter in deferred if parameter._deferred_init]
    if unknown:
        context = unknown[0]._deferred_init[1][0]
        _call(where, net, shapes, _of_net([mx.nd.zeros(shape, context, dtype) for shape in shapes.values()]))


def _described(outputs: list[mx.sym.Symbol], values: dict[str, mx.nd.NDArray]) -> Graph:
    """The graph of the outputs, with the present shapes and types of the parameters in their variables.

    Gluon makes the variable of a parameter once. It lacks a shape that a run has completed, and the type of a later
    cast.
    """
    graph = Graph.of(mx.sym.Group(outputs))
    for node in graph.nodes():
        if node.is_variable and node.name in values:
            value = values[node.name]
            marks = mx.sym.var(node.name, shape=value.shape, dtype=value.dtype).list_attr()
            node.attrs.update({mark: text for mark, text in marks.items() if mark in node.attrs})
    return graph


def _refusal(where: str, net: mx.gluon.HybridBlock, shapes: Shapes, reason: str) -> OpError:
    described = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    return OpError(where, f"{type(net).__name__} refuses data_shape, {described}: {reason}",
                   "Pass the shape of every input that the net takes, batch included")


def _outputs(where: str, net: mx.gluon.HybridBlock, shapes: Shapes) -> list[mx.sym.Symbol]:
    """The net's outputs as a flat list of symbols.

    Traced with native nodes where they are to be had: MXNet never frees the nodes of a graph that it has written as
    JSON, and a Custom node holds 30 kB.
    """
    with _backend("native" if native.loaded() else "custom"), _group_norms_of_gluoncv(net):
        outputs = _call(where, net, shapes, _of_net([mx.sym.var(name) for name in shapes]))
    flat = []
    waiting = [outputs]
    while waiting:
        item = waiting.pop(0)
        if isinstance(item, mx.sym.Symbol):
            flat.append(numpy_mode.to_legacy(item))
        elif isinstance(item, (list, tuple)):
            waiting[:0] = item
        else:
            raise OpError(where, f"{type(net).__name__} returns {item!r} among its outputs; expected symbols, in lists "
                          "or tuples", "Return only what it computes, with F's operators")
    if not flat:
        raise OpError(where, f"{type(net).__name__} returns nothing", "Return its outputs")
    return flat


def _of_net(inputs: list) -> list:
    """Inputs as the net takes them in the mode in force."""
    return numpy_mode.to_numpy(inputs) if is_np_array() else inputs


@contextlib.contextmanager
def _group_norms_of_gluoncv(net: mx.gluon.HybridBlock) -> Iterator[None]:
    """Let gluoncv's group norms, which read the shape of their input, compute with our operator."""
    def compute(block: mx.gluon.HybridBlock, F, x: mx.sym.Symbol, gamma: mx.sym.Symbol, beta: mx.sym.Symbol):
        if not block.scale:
            gamma = F.ones_like(beta)
        return ops.group_norm(x, gamma, beta, num_groups=block.ngroups, eps=block._kwargs["eps"])

    blocks = []
    net.apply(lambda block: blocks.append(block) if type(block).__module__ == "gluoncv.nn.gn" else None)
    for block in blocks:
        block.hybrid_forward = functools.partial(compute, block)
    try:
        yield
    finally:
        for block in blocks:
            del block.hybrid_forward


def _call(where: str, net: mx.gluon.HybridBlock, shapes: Shapes, inputs: list) -> Any:
    """Call the net. Its errors become OpErrors."""
    try:
        return net(*inputs)
    except OpError:
        raise
    except AttributeError as error:
        raise _without_attribute(where, net, shapes, error) from error
    except Exception as error:   # a user's net may raise anything
        if operator := numpy_mode.called_operator_of_other_mode(error):
            raise numpy_mode.of_other_mode(where, net, f"calls the {operator}") from error
        message = last_line(error) if str(error).strip() else ""
        reason = f"{type(error).__name__}: {message}"
        refusal = _refusal(where, net, shapes, reason)
        if not isinstance(error, mx.MXNetError):   # The net does in Python what Symbols do not.
            refusal = OpError(where, refusal.what, f"{refusal.remedy}. If it computes in Python, {RECORD}")
        raise refusal from error


def _without_attribute(where: str, net: mx.gluon.HybridBlock, shapes: Shapes, error: AttributeError) -> OpError:
    """The OpError for a net that reads an attribute that a Symbol does not have, such as its shape."""
    if layer := numpy_mode.layer_of_other_mode(error):
        return numpy_mode.of_other_mode(where, net, f"has a layer of {layer} that was made in the other one")
    read = re.search(rf"'_?Symbol' object has no attribute '({'|'.join(ARRAY_ATTRIBUTES)})'", str(error))
    if read is None:
        return _refusal(where, net, shapes, f"AttributeError: {last_line(error)}")
    frame = traceback.extract_tb(error.__traceback__)[-1]
    line = f"{os.path.basename(frame.filename)} line {frame.lineno}"
    return OpError(where, f"{type(net).__name__} reads .{read.group(1)} of a Symbol, in {line}; expected operators "
                   "only, because a graph takes arrays of any size",
                   "Use F.reshape with 0 and -1, F.reshape_like, F.slice_like, F.broadcast_like, F.zeros_like or "
                   f"F.contrib.arange_like; or {RECORD}")


def _with_loss_head(where: str, net: mx.gluon.HybridBlock, outputs: list[mx.sym.Symbol], head: str) -> mx.sym.Symbol:
    if head not in LOSS_HEADS:
        raise OpError(where, f"head is {head!r}; expected None or {', '.join(map(repr, LOSS_HEADS))}",
                      "Choose one of them")
    if len(outputs) != 1 or len(outputs[0].list_outputs()) != 1:
        raise OpError(where, f"{type(net).__name__} has several outputs; expected one for head={head!r}",
                      "Wrap it in a HybridBlock that returns one of them")
    if ends_in_softmax(Graph.of(outputs[0])):
        raise OpError(where, f"{type(net).__name__} already ends in a softmax; expected logits for head={head!r}",
                      "Pass the part of the net that returns logits, for instance net.body")
    return LOSS_HEADS[head](outputs[0], name="softmax")
