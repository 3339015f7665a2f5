"""The formats that an operator can be exported to, for the support table."""
from __future__ import annotations

import mxnet as mx

from ..backends import emitter
from ..backends.backend import backend
from ..contract.op import Op
from .constants import parameter_only
from .graph import Graph
from .onnx.builder import CONVERTERS
from .training_parts import loss_names


def formats_of(op: Op) -> str:
    """The formats of an operator as text, such as ``JSON: builtin, custom, native; ONNX``."""
    backends = ["builtin", "custom"]
    if "kernel.cc" not in op.unsupported:
        backends.append("native")
    json = "JSON: " + ", ".join(backends)
    if op.name in loss_names():
        return f"loss: training only; {json}"
    if op.role == "loss head":   # inference replaces it by an operator with a row of its own
        return f"{json}; ONNX, without its label"
    inputs = {arg.name: mx.sym.var(arg.name) for arg in op.inputs}
    with backend("builtin"):
        graph = Graph.of(emitter.emit(op, inputs, {}, op.name))
    constant = parameter_only(graph, {})   # such nodes need no converter
    operators = {node.op for node in graph.nodes() if not node.is_variable and node not in constant}
    missing = sorted(operators - set(CONVERTERS))
    if missing:
        return f"{json}; no ONNX: no converter for {', '.join(missing)}"
    return f"{json}; ONNX"
