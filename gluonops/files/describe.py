"""What is in a file, as a dict of plain values."""
from __future__ import annotations

import collections
import math
import os
from typing import Any

from ..core import params, records
from ..export.graph import version, version_text
from ..export.parameters import without_tags
from .read import ARRAYS, RECORDS, kind_of, net_of

WHERE = "files.describe"
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
            "outputs": [node.name for node, _ in graph.heads], "operators": dict(operators.most_common()),
            **net.facts, **stored}


def _arrays(path: str | os.PathLike) -> dict[str, Any]:
    entries = params.entries(WHERE, path)
    return {"values": sum(math.prod(entry.shape) for entry in entries),
            "arrays": [{"name": str(number) if entry.name is None else entry.name, "shape": list(entry.shape),
                        "type": entry.dtype.name} for number, entry in enumerate(entries)]}


def _records(path: str | os.PathLike) -> dict[str, Any]:
    labels, formats = collections.Counter(), collections.Counter()
    for item in records.items(WHERE, path):
        labels[len(item.labels)] += 1
        formats[format_of(item.content)] += 1
    return {"records": sum(labels.values()), "labels": dict(labels), "formats": dict(formats)}


def format_of(content: bytes) -> str:
    """The format of a record's content, as the ending of a file: ``bin`` if it is not known."""
    return next((ending for beginning, ending in BEGINNINGS.items() if content.startswith(beginning)), "bin")
