"""What an exported file says of itself: the gluonops that wrote it, the operators it needs, what the net is for.

It is kept in the JSON's ``attrs``, beside MXNet's own version, where stock MXNet reads over it.
"""
from __future__ import annotations

import json
from typing import Any

import mxnet as mx
import numpy as np

from ..core.errors import OpError
from ..version import __version__
from .graph import Graph, is_ours, our_name

KEY = "gluonops"


def with_origin(graph: Graph, metadata: dict[str, Any]) -> list[str]:
    """Metadata with the version of this gluonops and the operators that a graph needs, as a graph's ``attrs`` keep it.

    Parameters
    ----------
    graph : Graph
    metadata : dict

    Returns
    -------
    list of str
        The type and the value, as JSON.
    """
    needs = sorted({our_name(node) for node in graph.nodes() if is_ours(node)})
    return ["str", json.dumps({**metadata, "version": __version__, "needs": needs})]


def read_metadata(graph: Graph) -> dict[str, Any]:
    """The metadata of a graph; an empty dict in a file that gluonops did not write.

    Raises
    ------
    OpError
        It is damaged.
    """
    note = graph.attrs.get(KEY, ["str", "{}"])
    try:
        kind, text = note
        metadata = json.loads(text)
        is_sound = kind == "str" and _is_sound(metadata)
    except (TypeError, ValueError, AttributeError):
        is_sound = False
    if not is_sound:
        raise OpError("export", f"the note of gluonops in the file is damaged: {note!r}", "Export the net again")
    return metadata


def _is_sound(metadata: dict[str, Any]) -> bool:
    sizes = [size for shape in metadata.get("inputs", {}).values() for size in shape]
    np.dtype(metadata.get("dtype", "float32"))   # raises where there is no such type
    return (isinstance(metadata.get("version", ""), str)
            and all(isinstance(name, str) for name in metadata.get("needs", []))
            and all(isinstance(size, int) for size in sizes))


def origin(graph: Graph) -> str:
    """Who wrote the file and what it needs, for an error's text."""
    metadata = read_metadata(graph)
    if "version" not in metadata:
        return f"the file does not say which gluonops wrote it; this is gluonops {__version__}"
    needs = ", ".join(metadata.get("needs", [])) or "no operator of gluonops"
    return f"the file was written by gluonops {metadata['version']} and needs {needs}; this is gluonops {__version__}"


def remedy(graph: Graph) -> str:
    """What to do where this gluonops lacks what the file needs."""
    version = read_metadata(graph).get("version")
    if version in (None, __version__):
        return "Import the package that defines it, or export the net again with this gluonops"
    return f"Install gluonops {version}; or export the net again with this gluonops"


def metadata_of(net: mx.gluon.HybridBlock) -> dict[str, Any]:
    """What a net says of itself that a program needs to run it, as JSON would store it.

    Parameters
    ----------
    net : HybridBlock
        Its attributes are read where it has them: ``classes`` (names, or their number), ``anchors`` and
        ``preprocessing``; those of the net inside come first where it wraps one as ``net``, like a detector.

    Returns
    -------
    dict
    """
    metadata = {}
    for owner in (net, getattr(net, "net", None)):
        for name in ("classes", "anchors", "preprocessing"):
            value = _plain(getattr(owner, name, None))
            if value is not None:
                metadata[name] = value
    return metadata


def _plain(value: Any) -> Any:
    """``value`` out of lists, dicts, strings and numbers; None where it is something else."""
    if isinstance(value, np.ndarray):
        value = value.astype(str).astype(float).tolist()   # float32 as it is written, 1.08 and not 1.0800000429
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return None
