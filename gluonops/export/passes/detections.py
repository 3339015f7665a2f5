"""Gives a net in SSD's style the outputs of a detector."""
from __future__ import annotations

import mxnet as mx

from ..graph import Entry, Graph
from ..model import ExportedModel
from ..operators import having, traits_of
from ..sizes import known_shapes, with_batch

DETECTION = "_contrib_MultiBoxDetection"
PRIOR = "_contrib_MultiBoxPrior"
PASSES_ON = having("moves") & having("is_identity", "is_loss")
IMAGES = 2   # anchors have another first size


def detections(model: ExportedModel) -> ExportedModel:
    """Give a net in SSD's style the outputs ids, scores and boxes in pixels, instead of all others.

    They are the columns of MultiBoxDetection. A net that returns anchors, scores and offsets gets that operator. The
    number of classes is noted, unless their names are. Other nets stay as they are.

    Parameters
    ----------
    model : ExportedModel
        For inference. The shape of its input is known.
    """
    shapes = [shape for shape in model.inputs.values() if len(shape) == 4]
    model = model.copy()
    graph = model.graph
    origins = [node.origin(PASSES_ON) for node, _ in graph.outputs]
    detection = next((node for node in origins if node.op == DETECTION), None)
    if not shapes or (detection is None and not any(node.op == PRIOR for node in graph.nodes())):
        return model
    entry = (detection, 0) if detection else _added(model)
    if entry is None:
        return model
    height, width = shapes[0][2:]
    columns = [mx.sym.slice_axis(mx.sym.var("rows"), axis=2, begin=i, end=i + 1) for i in range(6)]
    sides = [column * side for column, side in zip(columns[2:], (width, height) * 2)]
    graph.outputs = graph.splice(mx.sym.Group([*columns[:2], mx.sym.concat(*sides, dim=2)]), {"rows": entry})
    scores, = _shapes(model, [entry[0].inputs[0]])
    model.metadata = {"classes": scores[1] - 1, **model.metadata}
    return model


def _added(model: ExportedModel) -> Entry | None:
    """The rows of a MultiBoxDetection of the net's anchors, scores and offsets; None if it does not return them."""
    outputs = dict(zip(model.graph.outputs, _shapes(model, model.graph.outputs)))
    anchors = [output for output, shape in outputs.items() if len(shape) == 3 and shape[0] == 1 and shape[2] == 4]
    if len(anchors) != 1:
        return None
    count = outputs[anchors[0]][1]
    offsets = [output for output, shape in outputs.items() if shape in ((IMAGES, 4 * count), (IMAGES, count, 4))]
    scores = [output for output, shape in outputs.items()
              if len(shape) == 3 and count in shape[1:] and output not in (*anchors, *offsets)]
    if len(offsets) != 1 or len(scores) != 1:
        return None
    rows = mx.sym.var("scores")
    if outputs[scores[0]][1] == count:
        rows = mx.sym.transpose(rows, axes=(0, 2, 1))
    if not traits_of(scores[0][0].origin(PASSES_ON)).is_softmax:
        rows = mx.sym.softmax(rows, axis=1)
    rows = mx.sym.contrib.MultiBoxDetection(rows, mx.sym.flatten(mx.sym.var("offsets")), mx.sym.var("anchors"))
    made, = model.graph.splice(rows, {"scores": scores[0], "offsets": offsets[0], "anchors": anchors[0]})
    return made


def _shapes(model: ExportedModel, entries: list[Entry]) -> list[tuple[int, ...]]:
    graph = Graph(entries, model.graph.attrs)
    of_variables = {**model.shapes(), **with_batch(model.inputs, lambda _: IMAGES)}
    shape_of = known_shapes(graph, of_variables)
    return [shape_of.get(entry, ()) for entry in entries]
