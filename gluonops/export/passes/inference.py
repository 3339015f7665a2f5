"""A model without its losses and labels: loss heads become what they compute at inference, losses and labels go."""
from __future__ import annotations

from typing import TYPE_CHECKING

from ...core import registry
from ...core.contract import Op
from ...core.errors import OpError
from ..canonical import custom_node
from ..graph import Entry, Graph, Node, is_ours, our_name

if TYPE_CHECKING:
    from ..model import ExportedModel

IDENTITY, MAKE_LOSS = "_copy", ("make_loss", "MakeLoss")
LOSSES = (*MAKE_LOSS, "softmax_cross_entropy", "CTCLoss", "ctc_loss", "_contrib_ctc_loss", "_contrib_CTCLoss")


def inference(model: ExportedModel) -> ExportedModel:
    """Take losses and labels out.

    A loss head (``softmax_output``, MXNet's ``SoftmaxOutput`` and its like) becomes the probabilities or values that
    it outputs. An output that comes out of a loss, or that cannot be computed without a label, goes. A label is a
    variable whose name ends in ``label``.

    Parameters
    ----------
    model : ExportedModel
        Canonical.

    Returns
    -------
    ExportedModel
        Its ``notes`` say what went.

    Raises
    ------
    OpError
        Every output is a loss.
    """
    model = model.copy()
    model.notes += _without_losses(model.graph)
    if model.metadata.get("training"):
        model.metadata["training"] = False
    kept = set(model.graph.variables())
    model.inputs = {name: shape for name, shape in model.inputs.items() if name in kept}
    return model


def _without_losses(graph: Graph) -> list[str]:
    """Do it in place; returns what went, in words."""
    before = set(graph.variables())
    notes = [_replace_head(graph, node) for node in graph.nodes()]
    tainted = _tainted(graph)
    kept = [head for head in graph.heads if head[0] not in tainted]
    if not kept:
        losses = sorted({tainted[node] for node, _ in graph.heads})
        raise OpError("export", f"every output is a loss ({', '.join(losses)}); expected a net that predicts",
                      "Export the net without its loss, or with training=True as symbol JSON to train the file on")
    notes += [f"the output {node.name!r}, a loss ({tainted[node]})" for node, _ in graph.heads if node in tainted]
    graph.heads = kept
    gone = sorted(before - set(graph.variables()))
    return [note for note in notes if note] + [f"the input {name!r}" for name in gone if name.endswith("label")]


def loss_names() -> set[str]:
    """The operators of gluonops that are losses, by their contracts."""
    return {name for name, entry in registry.entries().items() if entry.op.role == "loss"}


def _tainted(graph: Graph) -> dict[Node, str]:
    """Node -> the loss, or the label, that it cannot do without."""
    ours, tainted = loss_names(), {}
    for node in graph.nodes():
        if node.is_variable:
            if node.name.endswith("label"):
                tainted[node] = f"it needs {node.name!r}"
        elif is_ours(node) and our_name(node) in ours:
            tainted[node] = our_name(node)
        elif node.op in LOSSES:
            tainted[node] = node.op
        else:
            behind = [tainted[source] for source, _ in node.inputs if source in tainted]
            if behind:
                tainted[node] = behind[0]
    return tainted


def _replace_head(graph: Graph, node: Node) -> str | None:
    """Put inference's form in a loss head's place; returns what was done, or None."""
    entry = registry.entries().get(our_name(node)) if is_ours(node) else None
    if entry is not None and entry.op.inference is not None:
        made = _at_inference(entry.op, node)
    elif node.op in _HEADS:
        made = _HEADS[node.op](node)
    elif node.op == "where" and node.source().op == "ones_like":
        # How the builtin form of softmax_output carries its loss behind its output.
        graph.replace({(node, 0): node.inputs[1]})
        return "a loss head"
    else:
        return None
    graph.replace({(node, 0): (made, 0)})
    return f"the loss head {node.name!r}"


def _at_inference(head: Op, node: Node) -> Node:
    """The operator that the contract of a loss head names."""
    becomes = head.inference
    inputs = dict(zip((arg.name for arg in head.inputs), node.inputs))
    attrs = {name: node.attrs[name] for name in becomes.attrs if name in node.attrs}
    return custom_node(registry.get(becomes.operator).op, node.name, [inputs[name] for name in becomes.inputs], attrs)


def _made(node: Node, op: str, attrs : dict[str, str] | None= None, data : Entry | None= None) -> Node:
    """A node of one input, the head's own where none is named, in the head's place."""
    return Node(op, node.name, {**(attrs or {}), **node.marks()}, [data or node.inputs[0]])


def _softmax_output(node: Node) -> Node:
    """By its definition a softmax over all but the batch, where no flag says otherwise.

    MXNet 1.9.1 computes that too, but for float32 of four dimensions at inference on the CPU: there oneDNN takes the
    last axis, which is not what the head was trained as.
    """
    if node.flag("multi_output"):
        return _made(node, "softmax", {"axis": "1"})
    if node.flag("preserve_shape") or _has_two_dimensions(node.source()):
        return _made(node, "softmax", {"axis": "-1"})
    rows = Node("Reshape", f"{node.name}_rows", {"shape": "(0, -1)"}, node.inputs[:1])
    softmax = Node("softmax", f"{node.name}_softmax", {"axis": "-1"}, [(rows, 0)])
    made = _made(node, "reshape_like", data=(softmax, 0))
    made.inputs.append(node.inputs[0])
    return made


def _has_two_dimensions(node: Node) -> bool:
    return node.op in ("Flatten", "flatten") or (node.op == "FullyConnected" and node.flag("flatten", True))


def _identity(node: Node) -> Node:
    return _made(node, IDENTITY)


_HEADS = {"SoftmaxOutput": _softmax_output, "Softmax": _softmax_output, "LinearRegressionOutput": _identity,
          "MAERegressionOutput": _identity, "SVMOutput": _identity, "IdentityAttachKLSparseReg": _identity,
          "LogisticRegressionOutput": lambda node: _made(node, "sigmoid")}
