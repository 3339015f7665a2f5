"""Notes in the metadata what a net is for, and how images are prepared for it."""
from __future__ import annotations

import contextlib

from ...contract.errors import OpError
from ..model import ExportedModel
from ..preprocessing import Preprocessing
from ..sizes import known_shapes
from ..training_parts import ends_in_softmax


def describe(model: ExportedModel) -> ExportedModel:
    """Complete the metadata of a net for images, so that :func:`gluonops.export.load` can run the file.

    - ``task``: ``detection`` if the outputs are ids, scores and boxes, ``classification`` if it is a score for each
      class. A net whose metadata have a ``task``, and another net, stay as they are.
    - ``output`` of a classifier: ``logits`` or ``probabilities``.
    - ``preprocessing``: all values of :class:`gluonops.export.Preprocessing`, if the net has some.

    Parameters
    ----------
    model : ExportedModel
    """
    model = model.copy()
    if not (model.has_label() or model.metadata.get("training")):
        model.metadata = {**_task(model), **model.metadata}
    preprocessing = model.metadata.get("preprocessing")
    if isinstance(preprocessing, dict):
        with contextlib.suppress(OpError):   # it may not be what gluonops calls preprocessing
            model.metadata["preprocessing"] = Preprocessing.from_metadata(preprocessing).as_dict()
    return model


def _task(model: ExportedModel) -> dict[str, str]:
    """``task``, and ``output`` of a classifier; empty for a net that is neither a detector nor a classifier."""
    if [len(shape) for shape in model.inputs.values()] != [4]:
        return {}
    shape_of = known_shapes(model.graph, model.shapes())
    shapes = [shape_of.get(output, ()) for output in model.graph.outputs]
    if len(shapes) == 3 and [(len(shape), *shape[2:]) for shape in shapes] == [(3, 1), (3, 1), (3, 4)]:
        return {"task": "detection"}
    if len(shapes) == 1 and len(shapes[0]) == 2:
        return {"task": "classification", "output": "probabilities" if ends_in_softmax(model.graph) else "logits"}
    return {}
