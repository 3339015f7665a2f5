"""Every operator of gluonops as one node, whatever backend it was emitted for."""
from __future__ import annotations

from typing import TYPE_CHECKING

from ..canonical import canonicalize_graph

if TYPE_CHECKING:
    from ..model import ExportedModel


def canonicalize(model: ExportedModel) -> ExportedModel:
    """Make every custom and native node of gluonops a single ``Custom`` node under the operator's own name.

    The nodes that the emitter inserted around it, which it marked, go.

    Parameters
    ----------
    model : ExportedModel

    Returns
    -------
    ExportedModel

    Raises
    ------
    OpError
        This gluonops does not have the operator or one of its attributes; the message says which gluonops wrote the
        file.
    """
    model = model.copy()
    canonicalize_graph(model.graph)
    return model
