"""The metadata of exported files: the version of gluonops, the operators that the graph needs, and facts about the net.

They are an entry in the ``attrs`` of the JSON, beside MXNet's version. MXNet ignores it.
"""
from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..contract.errors import OpError, quoted
from ..version import __version__
from .graph import Graph, is_ours, our_name

if TYPE_CHECKING:
    import mxnet as mx

KEY = "gluonops"
DTYPES = ("float32", "float64", "float16", "uint8", "int8", "int32", "int64", "bool")   # MXNet's
MOST_CLASSES = 2 ** 20
ANY, VNNI = "any", "VNNI"   # processors that a net in 8 bits is right on
ATTRIBUTES = ("classes", "anchors", "preprocessing", "threshold", "nms", "topk")   # a net may have them


def with_origin(graph: Graph, metadata: dict[str, Any]) -> list[str]:
    """The entry in a graph's ``attrs``: metadata, the version of this gluonops and the operators that it needs."""
    needs = sorted({our_name(node) for node in graph.nodes() if is_ours(node)})
    return ["str", json.dumps({**metadata, "version": __version__, "needs": needs})]


def read_metadata(graph: Graph) -> dict[str, Any]:
    """The metadata of a graph; empty for files that gluonops did not write.

    An OpError is raised if the entry is damaged.
    """
    note = graph.attrs.get(KEY, ["str", "{}"])
    try:
        kind, text = note
        metadata = json.loads(text)
        is_sound = kind == "str" and _is_sound(metadata)
    except (TypeError, ValueError, AttributeError, RecursionError):
        is_sound = False
    if not is_sound:
        raise OpError("export", f"what gluonops has noted in the file is damaged: {quoted(note)}",
                      "Export the net again")
    return metadata


def _is_sound(metadata: dict[str, Any]) -> bool:
    texts = [metadata.get("version", ""), *metadata.get("needs", [])]
    sizes = [size for shape in metadata.get("inputs", {}).values() for size in shape]
    return (metadata.get("dtype", "float32") in DTYPES and isinstance(metadata.get("parameters", {}), dict)
            and all(isinstance(text, str) for text in texts)
            and all(type(size) is int and 0 <= size < 2 ** 63 for size in sizes))


def classes_of(where: str, path: str, classes: object) -> tuple[str, ...]:
    """The names of the classes.

    An OpError is raised if a file says something else of them than the names, or their number.
    """
    if type(classes) is int and 0 < classes <= MOST_CLASSES:
        return tuple(map(str, range(classes)))
    is_list = isinstance(classes, list) and 0 < len(classes) <= MOST_CLASSES
    if is_list and all(isinstance(name, (str, int, float)) for name in classes):
        return tuple(map(str, classes))
    raise OpError(where, f"{path} has the classes {quoted(classes)}; expected a list of names, or their number, from 1 "
                  f"to {MOST_CLASSES}", "Export the net again, with its attribute classes")


def origin(graph: Graph) -> str:
    """The version that wrote the file and the operators that it needs, for the text of an error."""
    metadata = read_metadata(graph)
    if "version" not in metadata:
        return f"the file does not say which gluonops wrote it; this is gluonops {__version__}"
    needs = ", ".join(metadata.get("needs", [])) or "no operator of gluonops"
    return f"the file was written by gluonops {metadata['version']} and needs {needs}; this is gluonops {__version__}"


def remedy(graph: Graph) -> str:
    """What to do if this gluonops lacks an operator that the file needs."""
    version = read_metadata(graph).get("version")
    if version in (None, __version__):
        return "Import the package that defines it, or export the net again with this gluonops"
    return f"Install gluonops {version}; or export the net again with this gluonops"


def metadata_of_int8(layers: Iterable[str], vnni_only: bool) -> dict[str, Any]:
    """What the files of a net in 8 bits say of that: which layers are, and for which processors."""
    return {"quantized": sorted(layers), "processor": VNNI if vnni_only else ANY}


def metadata_of(net: mx.gluon.HybridBlock) -> dict[str, Any]:
    """Facts about a net that a program needs to run it, as values that JSON can store.

    They are attributes of the net. If it wraps a net as its attribute ``net``, like a detector, the attributes of that
    net come first.
    """
    metadata = {}
    for owner in (net, getattr(net, "net", None)):
        for name in ATTRIBUTES:
            value = _plain(getattr(owner, name, None))
            if value is not None:
                metadata[name] = value
    return metadata


def plain_metadata(where: str, metadata: dict[str, Any] | None) -> dict[str, Any]:
    """The values that a user adds to the metadata. An OpError is raised if JSON cannot store them."""
    metadata = {} if metadata is None else metadata
    try:
        if not isinstance(metadata, dict) or not all(isinstance(name, str) for name in metadata):
            raise TypeError("its names are strings")
        return json.loads(json.dumps(metadata))
    except (TypeError, ValueError) as error:
        raise OpError(where, f"metadata is {metadata!r}; expected a dict of what JSON can store ({error})",
                      "Pass strings, numbers, lists and dicts, and for an array its tolist()") from error


def _plain(value: Any) -> Any:
    """``value`` as lists, dicts, strings and numbers; None if JSON cannot store it."""
    if isinstance(value, np.ndarray):
        value = value.astype(str).astype(float).tolist()   # 1.08, and not 1.0800000429
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return None
