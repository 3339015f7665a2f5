"""A graph without its losses and labels: loss heads become what they compute at inference, losses and labels go."""
from ..core import registry
from ..core.errors import OpError
from .graph import Node, is_ours, our_name
from .nodes import bare

IDENTITY, MAKE_LOSS = "_copy", ("make_loss", "MakeLoss")
LOSSES = (*MAKE_LOSS, "softmax_cross_entropy", "CTCLoss", "ctc_loss", "_contrib_ctc_loss", "_contrib_CTCLoss",
          "IdentityAttachKLSparseReg")


def without_losses(graph):
    """Take losses and labels out, in place.

    A loss head (``softmax_output``, MXNet's ``SoftmaxOutput`` and its like) becomes the probabilities or values that
    it outputs. An output that comes out of a loss, or that cannot be computed without a label, goes. A label is a
    variable whose name ends in ``label``.

    Returns
    -------
    list of str
        What went, in words; empty where the graph had no loss.

    Raises
    ------
    OpError
        Every output is a loss.
    """
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


def loss_names():
    """The operators of gluonops that are losses: those whose block is in ``gluonops.loss``."""
    from .. import loss
    modules = {getattr(loss, name).__module__ for name in loss.__all__}
    return {name for name in registry.entries() if f"gluonops.ops.{name}.block" in modules}


def _tainted(graph):
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


def _replace_head(graph, node):
    """Put inference's form in a loss head's place; returns what was done, or None."""
    if is_ours(node) and our_name(node) == "softmax_output":
        softmax = registry.get("softmax").op
        made = bare(softmax, node.name, node.inputs[:1], {"axis": node.attrs["axis"]})
    elif node.op in _HEADS:
        op, attrs = _HEADS[node.op](node)
        made = Node(op, node.name, {**attrs, **node.marks()}, node.inputs[:1])
    elif node.op == "where" and node.source().op == "ones_like":
        # How the builtin form of softmax_output carries its loss behind its output.
        graph.replace({(node, 0): node.inputs[1]})
        return "a loss head"
    else:
        return None
    graph.replace({(node, 0): (made, 0)})
    return f"the loss head {node.name!r}"


def _softmax_output(node):
    if node.flag("multi_output"):
        return "softmax", {"axis": "1"}
    return ("softmax", {"axis": "-1"}) if node.flag("preserve_shape") else ("SoftmaxActivation", {})


def _identity(_):
    return IDENTITY, {}


_HEADS = {"SoftmaxOutput": _softmax_output, "Softmax": _softmax_output, "LinearRegressionOutput": _identity,
          "MAERegressionOutput": _identity, "SVMOutput": _identity,
          "LogisticRegressionOutput": lambda _: ("sigmoid", {})}
