"""Exported nets as Symbols, to be cut and given a new head for ``Module.fit``."""
from __future__ import annotations

import json
import os
from collections.abc import Mapping

import mxnet as mx

from ..core.errors import OpError
from ..export.files import load

__all__ = ["cut_symbol", "fits", "keep_statistics", "load_module"]

Arrays = Mapping[str, mx.nd.NDArray]


def load_module(prefix: str | os.PathLike, epoch: int = 0) -> tuple[mx.sym.Symbol, Arrays, Arrays]:
    """(symbol, arguments, auxiliary states) of an exported net.

    Parameters
    ----------
    prefix : str or os.PathLike
        Path of the files, without ``-symbol.json``.
    epoch : int, default 0
        Number of the file with the parameters.

    Raises
    ------
    OpError
        A file is missing or damaged.
    """
    graph, values, _ = load("train.load_module", os.fspath(prefix), epoch)
    symbol = graph.symbol()
    arguments, states = ({name: values[name] for name in names if name in values}
                         for names in (symbol.list_arguments(), symbol.list_auxiliary_states()))
    return symbol, arguments, states


def cut_symbol(symbol: mx.sym.Symbol, layer: str | None = None) -> mx.sym.Symbol:
    """The graph up to an inner output.

    Parameters
    ----------
    symbol : mxnet.sym.Symbol
    layer : str, optional
        Name of the output; by default the input of the last fully connected layer.

    Raises
    ------
    OpError
        There is no such output, or no fully connected layer.
    """
    where, internals = "train.cut_symbol", symbol.get_internals()
    if layer is None:
        dense = [node for node in json.loads(symbol.tojson())["nodes"] if node["op"] == "FullyConnected"]
        if not dense:
            raise OpError(where, "the net has no fully connected layer to replace", "Choose where to cut it")
        return internals[f"{dense[-1]['name']}_output"].get_children()[0]
    inner = [name for name in internals.list_outputs() if name not in symbol.list_inputs()]
    if layer not in inner:
        raise OpError(where, f"the net has no output {layer}; expected one of {', '.join(inner)}", "Choose one")
    return internals[layer]


def keep_statistics(symbol: mx.sym.Symbol) -> mx.sym.Symbol:
    """The graph with batch norms that use and keep their running statistics.

    What is frozen must not change, and Module's ``fixed_param_names`` says nothing of running statistics.
    """
    graph = json.loads(symbol.tojson())
    for node in graph["nodes"]:
        if node["op"] == "BatchNorm":
            node.setdefault("attrs", {})["use_global_stats"] = "True"
    return mx.sym.load_json(json.dumps(graph))


def fits(symbol: mx.sym.Symbol, shape: tuple[int, ...], parameters: Arrays) -> bool:
    """Whether parameters have the shapes that an input ``data`` of this shape needs."""
    known = {name: value.shape for name, value in parameters.items() if name in symbol.list_arguments()}
    try:
        return bool(symbol.infer_shape(data=shape, **known)[1])
    except mx.MXNetError:
        return False
