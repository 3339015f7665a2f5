"""Removes losses and labels. Loss heads become what they compute at inference."""
from __future__ import annotations

import numpy as np

from ...contract import registry
from ...contract.op import Op
from ..cut import HeadError, remaining
from ..graph import Entry, Graph, Node, is_ours, our_name
from ..model import ExportedModel
from ..operators import traits_of
from ..operators.attributes import attributes_of
from ..sizes import known_shapes, known_types
from ..training_parts import is_builtin_head, labels, training_only

ONEDNNS = 4   # dimensions


def inference(model: ExportedModel) -> ExportedModel:
    """Remove losses and labels.

    A loss head (``softmax_output``, MXNet's ``SoftmaxOutput`` and similar ones) becomes the operator that computes its
    predictions. An output that depends on a loss or a label is removed. A variable is a
    label if everything that is computed from it ends in losses, and no other output needs it. A ``MakeLoss`` with a
    ``grad_scale`` of 0 is no loss.

    Parameters
    ----------
    model : ExportedModel
        Canonical.

    Returns
    -------
    ExportedModel
        Its ``notes`` list what was removed.

    Raises
    ------
    OpError
        Every output is a loss.
    """
    model = model.copy()
    model.notes += _without_losses(model)
    if model.metadata.get("training"):
        model.metadata["training"] = False
    variables = set(model.graph.variables())
    model.inputs = {name: shape for name, shape in model.inputs.items() if name in variables}
    return model


def _without_losses(model: ExportedModel) -> list[str]:
    """Remove losses and labels in place. Returns what was removed, in words."""
    graph = model.graph
    before, names = graph.variables(), labels(graph, model.parameters)
    notes = [_replace_loss_head(model, node) for node in graph.nodes()]
    notes = [note for note in notes if note is not None]

    reasons = training_only(graph, names)
    predictions = [output for output in graph.outputs if output[0] not in reasons]
    if not predictions:
        losses = sorted({reasons[node] for node, _ in graph.outputs})
        raise HeadError("export", f"every output is a loss ({', '.join(losses)}); expected a net that predicts",
                        "Export the net without its loss, or with training=True as symbol JSON or PyTorch, to train it "
                        "on", remaining(graph, reasons))
    notes += [f"the output {node.name!r}, a loss ({reasons[node]})" for node, _ in graph.outputs if node in reasons]
    graph.outputs = predictions

    removed = sorted(set(before) - set(graph.variables()))
    return notes + [f"the input {name!r}" for name in removed if name not in model.parameters]


def predictions(model: ExportedModel) -> list[int]:
    """The positions of the outputs that :func:`inference` keeps."""
    model = model.copy()
    names = labels(model.graph, model.parameters)
    for node in model.graph.nodes():
        _replace_loss_head(model, node)
    reasons = training_only(model.graph, names)
    return [position for position, (node, _) in enumerate(model.graph.outputs) if node not in reasons]


def _replace_loss_head(model: ExportedModel, node: Node) -> str | None:
    """Replace a node that is a loss head. Returns what was replaced, in words, or None for other nodes."""
    graph = model.graph
    entry = registry.entries().get(our_name(node)) if is_ours(node) else None
    if entry is not None and entry.op.inference is not None:
        made = _at_inference(entry.op, node)
    elif node.op == "SoftmaxOutput":
        made = _softmax_output(model, node)
    elif traits_of(node).predicts:
        made = _made(node, traits_of(node).predicts)
    elif is_builtin_head(node):
        graph.replace({(node, 0): node.inputs[1]})
        return "a loss head"
    else:
        return None
    graph.replace({(node, 0): (made, 0)})
    return f"the loss head {node.name!r}"


def _at_inference(head: Op, node: Node) -> Node:
    """The canonical node that replaces a loss head of gluonops, from its contract."""
    becomes = head.inference
    op = registry.get(becomes.operator).op
    inputs = dict(zip((arg.name for arg in head.inputs), node.inputs))
    values = op.parse({name: node.attrs[name] for name in becomes.attrs if name in node.attrs})
    attrs = {"op_type": op.graph_name, **op.strings(values)}
    return Node("Custom", node.name, attrs, [inputs[name] for name in becomes.inputs])


def _made(node: Node, op: str, attrs: dict[str, str] | None = None, data: Entry | None = None) -> Node:
    """A node with the name of a loss head. It reads ``data``, by default the head's first input."""
    return Node(op, node.name, {**(attrs or {}), **node.marks()}, [data or node.inputs[0]])


def _softmax_output(model: ExportedModel, node: Node) -> Node:
    """What MXNet 1.9.1 computes at inference on the CPU: a softmax over all axes but the batch.

    Flags say otherwise, and float32 of four dimensions: there oneDNN takes the last axis. If the number of dimensions
    is not known yet, the head stays, with its data for a label: it computes nothing from that.
    """
    attributes, source = attributes_of(node), node.source()
    if attributes["multi_output"]:
        return _made(node, "softmax", {"axis": "1"})
    is_flat = source.op == "Flatten" or (source.op == "FullyConnected" and attributes_of(source)["flatten"])
    if is_flat or attributes["preserve_shape"]:
        return _made(node, "softmax", {"axis": "-1"})
    dimensions, dtype = _kind_of(model, node.inputs[0])
    if not dimensions:
        return Node(node.op, node.name, node.attrs, node.inputs[:1] * 2)
    if dimensions == ONEDNNS and dtype == np.float32:
        return _made(node, "softmax", {"axis": "-1"})
    rows = Node("Reshape", f"{node.name}_rows", {"shape": "(0, -1)"}, node.inputs[:1])
    softmax = Node("softmax", f"{node.name}_softmax", {"axis": "-1"}, [(rows, 0)])
    made = _made(node, "reshape_like", data=(softmax, 0))
    made.inputs.append(node.inputs[0])
    return made


def _kind_of(model: ExportedModel, entry: Entry) -> tuple[int, np.dtype]:
    """The number of dimensions of an output, 0 if it is not known, and its type; float32 if that is not known."""
    part = Graph([entry], model.graph.attrs)
    types = {name: value.dtype for name, value in model.parameters.items()}
    if "dtype" in model.metadata:
        types.update(dict.fromkeys(model.inputs, model.metadata["dtype"]))
    shape = known_shapes(part, model.shapes()).get(entry, ())
    return len(shape), known_types(part, types).get(entry, np.dtype("float32"))
