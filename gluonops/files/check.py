"""Checks that a file is whole, and that a net's two files belong together."""
from __future__ import annotations

import os
import re
from collections.abc import Iterator

import numpy as np

from ..core import params, records
from ..export.graph import Graph, Node
from ..export.parameters import listed, of_layers, renamed_states, without_tags
from .read import ARRAYS, RECORDS, kind_of, net_of

WHERE = "files.check"
SIZES = {"Convolution": "num_filter", "FullyConnected": "num_hidden", "Embedding": "input_dim"}   # of the first axis


def check(path: str | os.PathLike, epoch: int | None = None) -> list[str]:
    """Read a file completely, and say what is wrong with it.

    Parameters
    ----------
    path : str or os.PathLike
        A net, or a file that ends in ``.params`` or ``.rec``.
    epoch : int, optional
        Of a net: the number of its parameter file. The default is the highest one.

    Returns
    -------
    list of str
        Each a sentence: parameters without a value, values that no node reads, other names of states, shapes that do
        not fit a layer, values that are not finite. Empty if nothing is wrong.

    Raises
    ------
    OpError
        The file is missing or damaged, so that it cannot be read.
    """
    kind = kind_of(path)
    if kind == RECORDS:
        for _ in records.records(WHERE, path):
            pass
        return []
    if kind == ARRAYS:
        return list(_not_finite(params.read(WHERE, path)))
    with net_of(WHERE, path, epoch) as net:
        values = without_tags(WHERE, net.parameters, params.read(WHERE, net.parameters))
        return [*_mismatches(net.graph, values), *_not_finite(values)]


def _not_finite(values: dict[str, np.ndarray]) -> Iterator[str]:
    for name, value in values.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            yield f"{name} has values that are not finite"


def _mismatches(graph: Graph, values: dict[str, np.ndarray]) -> Iterator[str]:
    variables = graph.variables()
    renamed = renamed_states(variables, values)
    for found, name in renamed.items():
        yield f"{name} is called {found} in the file"
    values = {renamed.get(name, name): value for name, value in values.items()}
    parameters = of_layers(graph)
    missing = [name for name in variables if name in parameters - values.keys() and not name.endswith("label")]
    if missing:
        yield f"no value for {listed(missing)}"
    surplus = [name for name in values if name not in variables]
    if surplus:
        yield f"no node reads {listed(surplus)}"
    for node in graph.nodes():
        yield from _misfits(node, values)


def _misfits(layer: Node, values: dict[str, np.ndarray]) -> Iterator[str]:
    """What of a layer's attributes its weight does not fit."""
    if layer.op not in SIZES or len(layer.inputs) < 2 or layer.source(1).name not in values:
        return
    name = layer.source(1).name
    shape = values[name].shape
    size = layer.attrs.get(SIZES[layer.op], "")
    if not shape or str(shape[0]) != size:
        yield f"{name} has the shape {shape}, and {layer.name} has {SIZES[layer.op]} {size}"
    elif layer.op == "Convolution" and not layer.attrs.get("layout", "").endswith("C"):
        kernel = layer.attrs.get("kernel", "")
        if [str(size) for size in shape[2:]] != re.findall(r"\d+", kernel):   # Python 2 wrote (3L, 3L)
            yield f"{name} has the shape {shape}, and {layer.name} has the kernel {kernel}"
