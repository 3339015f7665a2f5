"""Lists the content of a file as a dict of plain values, and checks files: are they whole, and do they fit together?"""
from __future__ import annotations

import collections
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..contract.errors import OpError
from ..export.cut import cut, places, remaining
from ..export.floats import to_floats
from ..export.graph import FLOATS_NEEDED, OF_8_BITS, Graph, Node, version, version_text
from ..export.metadata import read_metadata
from ..export.operators import traits_of
from ..export.operators.admission import unloadable, with_todays_names
from ..export.operators.eight_bits import is_of_8_bits
from ..export.operators.node_attributes import attributes_of
from ..export.parameters import listed, of_layers, renamed_states, without_tags
from ..export.training_parts import detach_labels, labels, training_only
from ..export.values import NodeValues
from ..io import params, recordio
from .read import ARRAYS, RECORDS, Net, kind_of, net_of

WHERE, CHECK = "files.describe", "files.check"
MOST_PLACES = 10   # The last nodes at which a net may be cut.
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
        The content, in values that JSON can store. ``kind`` is "net", "arrays" or "records".

        - A net has its two files, the version of MXNet that wrote it, inputs, outputs, operators, arrays, and what the
          files beside it say. ``labels`` are the inputs that only a loss reads. ``shapes_needed`` are the other inputs
          whose shape the file does not contain. ``outputs_needed`` are outputs that have to be passed to an export for
          inference, because all outputs are losses. ``cut_at`` are the last nodes that can be passed as ``outputs``.
        - Arrays have the name, the shape and the type of each.
        - Records have their number, the number of their labels, and their formats.

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
            "inputs": [name for name in graph.variables() if name not in names], **_outlook(net, set(names)),
            "outputs": [node.name for node, _ in graph.outputs], "operators": dict(operators.most_common()),
            **net.facts, **stored}


def _outlook(net: Net, names: set[str]) -> dict[str, list[str]]:
    """What an export needs to know about a net, and where the net can be cut. ``names`` are those of its arrays."""
    graph = net.graph.copy()
    to_floats(graph)
    if any(is_of_8_bits(node.op) for node in graph.nodes()):
        return {}
    with_todays_names(graph)
    label_names = labels(graph, names)
    shapes = {**net.facts.get("inputs", {}), **read_metadata(graph).get("inputs", {})}
    parameters = names | of_layers(graph)
    inputs = [name for name in graph.variables() if name not in parameters]
    reasons = training_only(graph, label_names)
    detach_labels(graph)
    below = remaining(graph, {**unloadable(graph), **reasons})
    only_losses = all(node in reasons for node, _ in graph.outputs)
    cut("files", graph, below)
    return {"labels": [name for name in inputs if name in label_names],
            "shapes_needed": [name for name in inputs if name not in {*label_names, *shapes}],
            "outputs_needed": below if only_losses else [],
            "cut_at": list(dict.fromkeys([*(node.name for node, _ in graph.outputs), *places(graph)]))[:MOST_PLACES]}


def _arrays(path: str | os.PathLike) -> dict[str, Any]:
    arrays = params.stored_arrays(WHERE, path)
    return {"values": sum(math.prod(array.shape) for array in arrays),
            "arrays": [{"name": str(number) if array.name is None else array.name, "shape": list(array.shape),
                        "type": array.dtype.name} for number, array in enumerate(arrays)]}


def _records(path: str | os.PathLike) -> dict[str, Any]:
    labels, formats = collections.Counter(), collections.Counter()
    for item in recordio.items(WHERE, path):
        labels[len(item.labels)] += 1
        formats[format_of(item.content)] += 1
    return {"records": sum(labels.values()), "labels": dict(labels), "formats": dict(formats)}


def format_of(content: bytes) -> str:
    """The format of a record's content, as the ending of a file. It is ``bin`` if the format is unknown."""
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
        A sentence for each problem; the list is empty if nothing is wrong. These are problems: operators that need a
        class or a library that is missing, 8-bit layers that an export refuses, parameters without a value, values that
        no node reads, states with other names, shapes that do not fit a layer, and values that are not finite.

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
        return [*_obstacles(net.graph), *_mismatches(net.graph, values), *_not_finite(values)]


def _obstacles(graph: Graph) -> Iterator[str]:
    """Sentences about the nodes that cannot be exported, with the outputs that can be exported instead."""
    graph = graph.copy()
    to_floats(graph)
    refused = unloadable(graph)
    is_our_own = "quantized" in read_metadata(graph)
    quantized = next((node for node in graph.nodes() if is_of_8_bits(node.op)), None)
    if quantized and not is_our_own:
        yield f"the node {quantized.name!r} is the operator {quantized.op}, {OF_8_BITS}. {FLOATS_NEEDED}"
        return
    below = remaining(graph, refused)
    options = " ".join(f"--output {name}" for name in below)
    for node, (what, remedy) in refused.items():
        or_below = f"; the net below it can be exported with {options}" if below else ""
        yield f"the node {node.name!r} {what}. {remedy}{or_below}"


def _not_finite(values: dict[str, np.ndarray]) -> Iterator[str]:
    for name, value in values.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            yield f"{name} has values that are not finite"


def _mismatches(graph: Graph, values: dict[str, np.ndarray]) -> Iterator[str]:
    variables = graph.variables()
    renamed = renamed_states(variables, values)
    for stored, name in renamed.items():
        yield f"{name} is called {stored} in the file"
    values = {renamed.get(name, name): value for name, value in values.items()}
    without_value = of_layers(graph) - values.keys()
    missing = [name for name in variables if name in without_value]
    if missing:
        yield f"no value for {listed(missing)}"
    surplus = [name for name in values if name not in variables]
    if surplus:
        yield f"no node reads {listed(surplus)}"
    for node in graph.nodes():
        try:
            yield from _misfits(node, values)
        except OpError as error:
            yield error.what


def _misfits(layer: Node, values: dict[str, np.ndarray]) -> Iterator[str]:
    """What of a layer's attributes its weight does not fit."""
    rows = traits_of(layer).weight_rows
    if not rows or len(layer.inputs) < 2 or layer.source(1).name not in values:
        return
    name, attributes = layer.source(1).name, attributes_of(layer)
    shape = values[name].shape
    if shape[:1] != (attributes[rows],):
        yield f"{name} has the shape {shape}, and {layer.name} has {rows} {attributes[rows]}"
    elif traits_of(layer).acts_as == "convolution" and not NodeValues(layer, []).has_channels_last:
        if shape[2:] != attributes["kernel"]:
            yield f"{name} has the shape {shape}, and {layer.name} has the kernel {attributes['kernel']}"
