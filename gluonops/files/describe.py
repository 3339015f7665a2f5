"""What is in a file, as a dict of plain values; and whether it is whole, and a net's two files belong together."""
from __future__ import annotations

import collections
import math
import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core import params, recordio
from ..export.graph import Graph, Node, version, version_text
from ..export.parameters import listed, of_layers, renamed_states, without_tags
from .read import ARRAYS, RECORDS, kind_of, net_of

WHERE, CHECK = "files.describe", "files.check"
SIZES = {"Convolution": "num_filter", "FullyConnected": "num_hidden", "Embedding": "input_dim"}   # their first size
# How files of pictures begin.
BEGINNINGS = {b"\xff\xd8\xff": "jpg", b"\x89PNG\r\n\x1a\n": "png", b"\x93NUMPY": "npy"}


def describe(path: str | os.PathLike, epoch: int | None = None) -> dict[str, Any]:
    """List what a file has. Values of arrays are not read.

    Parameters
    ----------
    path : str or os.PathLike
        A net, or a file that ends in ``.params`` or ``.rec``.
    epoch : int, optional
        Of a net: the number of its parameter file. The default is the highest one.

    Returns
    -------
    dict
        ``kind``, and what JSON can store of it. Of a net: its two files, the version of MXNet that wrote it, inputs,
        outputs, operators, arrays and what the files beside it say. Of arrays: name, shape and type of each. Of
        records: how many there are, how many labels they have, and their formats.

    Raises
    ------
    OpError
        The file is missing or damaged.
    """
    kind = kind_of(path)
    if kind == ARRAYS:
        return {"kind": kind, **_arrays(path)}
    if kind == RECORDS:
        return {"kind": kind, **_records(path)}
    with net_of(WHERE, path, epoch) as net:
        graph = net.graph
        stored = _arrays(net.parameters)
        names = without_tags(WHERE, net.parameters, dict.fromkeys(item["name"] for item in stored["arrays"]))
        operators = collections.Counter(node.op for node in graph.nodes() if not node.is_variable)
        return {
            "kind": kind, "symbol": os.path.basename(net.symbol), "parameters": os.path.basename(net.parameters),
            "mxnet": version_text(version(graph)),
            "inputs": [name for name in graph.variables() if name not in names],
            "outputs": [node.name for node, _ in graph.outputs], "operators": dict(operators.most_common()),
            **net.facts, **stored}


def _arrays(path: str | os.PathLike) -> dict[str, Any]:
    entries = params.entries(WHERE, path)
    return {"values": sum(math.prod(entry.shape) for entry in entries),
            "arrays": [{"name": str(number) if entry.name is None else entry.name, "shape": list(entry.shape),
                        "type": entry.dtype.name} for number, entry in enumerate(entries)]}


def _records(path: str | os.PathLike) -> dict[str, Any]:
    labels, formats = collections.Counter(), collections.Counter()
    for item in recordio.items(WHERE, path):
        labels[len(item.labels)] += 1
        formats[format_of(item.content)] += 1
    return {"records": sum(labels.values()), "labels": dict(labels), "formats": dict(formats)}


def format_of(content: bytes) -> str:
    """The format of a record's content, as the ending of a file: ``bin`` if it is not known."""
    return next((ending for beginning, ending in BEGINNINGS.items() if content.startswith(beginning)), "bin")


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
        for _ in recordio.records(CHECK, path):
            pass
        return []
    if kind == ARRAYS:
        return list(_not_finite(params.read(CHECK, path)))
    with net_of(CHECK, path, epoch) as net:
        values = without_tags(CHECK, net.parameters, params.read(CHECK, net.parameters))
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
