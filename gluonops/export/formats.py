"""How an operator leaves gluonops, for the support table."""
from __future__ import annotations

import mxnet as mx

from ..core import backend as _backend
from ..core.contract import Op
from .constants import parameter_only
from .graph import Graph
from .onnx.registry import CONVERTERS
from .passes.inference import loss_names


def formats_of(op: Op) -> str:
    """``JSON: builtin, custom, native; ONNX``: what exported files can hold of an operator.

    Parameters
    ----------
    op : Op

    Returns
    -------
    str
    """
    backends = ["builtin", "custom"]
    if "kernel.cc" not in op.unsupported:
        backends.append("native")
    json = "JSON: " + ", ".join(backends)
    if op.name in loss_names():
        return f"loss: training only; {json}"
    if op.role == "loss head":   # at inference it is another operator, which has a row of its own
        return f"{json}; ONNX, without its label"
    missing = _without_converter(op)
    return f"{json}; no ONNX: no converter for {', '.join(missing)}" if missing else f"{json}; ONNX"


def _without_converter(op: Op) -> list[str]:
    """The operators of MXNet in its builtin form that ONNX lacks; what no input reaches is computed beforehand."""
    with _backend.backend("builtin"):
        graph = Graph.of(_backend.emit(op, {arg.name: mx.sym.var(arg.name) for arg in op.inputs}, {}, op.name))
    fixed = parameter_only(graph, {})
    return sorted({node.op for node in graph.nodes() if not node.is_variable and node not in fixed} - set(CONVERTERS))
