"""Makes each operator of gluonops one node, whatever backend it was emitted for."""
from __future__ import annotations

from ..canonical import canonicalize_graph
from ..model import ExportedModel


def canonicalize(model: ExportedModel) -> ExportedModel:
    """Make each operator of gluonops a single ``Custom`` node under its own name.

    The nodes that the emitter inserted around it are removed; the emitter has marked them.

    Parameters
    ----------
    model : ExportedModel

    Raises
    ------
    OpError
        This gluonops does not have the operator or one of its attributes. The message has the version that wrote the
        file.
    """
    model = model.copy()
    canonicalize_graph(model.graph)
    return model
