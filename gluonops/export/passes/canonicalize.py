"""Makes each operator of gluonops one node, whatever backend it was emitted for."""
from __future__ import annotations

from typing import TYPE_CHECKING

from ..canonical import canonicalize_graph

if TYPE_CHECKING:
    from ..model import ExportedModel


def canonicalize(model: ExportedModel) -> ExportedModel:
    """Make each operator of gluonops a single ``Custom`` node under its own name.

    See :func:`gluonops.export.canonical.canonicalize_graph`, which does it in place.

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
