"""What an exported file says of itself: the gluonops that wrote it, the operators it needs, what the net is for.

It is kept in the JSON's ``attrs``, beside MXNet's own version, where stock MXNet reads over it.
"""
import json

import numpy as np

from ..core.errors import OpError
from ..version import __version__
from .graph import is_ours, our_name

KEY = "gluonops"


def stamp(graph, **facts):
    """Note the version, the operators of gluonops in the graph, and further facts; what was noted before stays."""
    noted = {**read(graph), **facts, "version": __version__,
             "needs": sorted({our_name(node) for node in graph.nodes() if is_ours(node)})}
    graph.attrs[KEY] = ["str", json.dumps(noted)]


def read(graph):
    """What was noted; an empty dict in a file of someone else's."""
    note = graph.attrs.get(KEY, ["str", "{}"])
    try:
        kind, text = note
        noted = json.loads(text)
        sound = (kind == "str" and isinstance(noted.get("version", ""), str)
                 and all(isinstance(name, str) for name in noted.get("needs", []))
                 and all(isinstance(size, int) for shape in noted.get("inputs", {}).values() for size in shape)
                 and np.dtype(noted.get("dtype", "float32")))
    except (TypeError, ValueError, AttributeError):
        sound = False
    if not sound:
        raise OpError("export", f"the note of gluonops in the file is damaged: {note!r}", "Export the net again")
    return noted


def origin(graph):
    """Who wrote the file and what it needs, for an error's text."""
    noted = read(graph)
    if "version" not in noted:
        return f"the file does not say which gluonops wrote it; this is gluonops {__version__}"
    needs = ", ".join(noted.get("needs", [])) or "no operator of gluonops"
    return f"the file was written by gluonops {noted['version']} and needs {needs}; this is gluonops {__version__}"


def remedy(graph):
    """What to do where this gluonops lacks what the file needs."""
    version = read(graph).get("version")
    if version in (None, __version__):
        return "Import the package that defines it, or export the net again with this gluonops"
    return f"Install gluonops {version}; or export the net again with this gluonops"


def net_facts(net):
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
    facts = {}
    for owner in (net, getattr(net, "net", None)):
        for name in ("classes", "anchors", "preprocessing"):
            value = _plain(getattr(owner, name, None))
            if value is not None:
                facts[name] = value
    return facts


def _plain(value):
    """``value`` out of lists, dicts, strings and numbers; None where it is something else."""
    if isinstance(value, np.ndarray):
        value = value.astype(str).astype(float).tolist()   # float32 as it is written, 1.08 and not 1.0800000429
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return None
