"""Prevents wrong results of MXNet's fusion.

``Module.bind`` and ``optimize_for(backend="MKLDNN")`` rewrite a graph for inference on the CPU. First they remove
identities, which are copies and dropouts. Then they fuse a convolution with the batch norm, the sum and the
activation behind it, and a dense layer with the activation behind it. From then on each reader of a node in such a
chain reads the chain's result, so a chain must end at a node with several readers. MXNet 1.9.1 overlooks some readers,
and a dense layer that it has rewritten fails on some convolutions' results. :func:`prepare_for_fusion` changes the
graph at these places.
"""
from __future__ import annotations

from collections.abc import Collection

from ..graph import Graph, Node
from ..model import ExportedModel
from ..operators import having

COPY = "_copy"
SUM = "elemwise_add"
IDENTITIES = having("fusion_removes")
BEHIND_CONVOLUTION = having("fuses_behind_convolution")
BEHIND_DENSE = having("fuses_behind_dense")
HIDES_LAYOUT = having("hides_layout")


def prepare_for_fusion(model: ExportedModel, inference: bool = True) -> ExportedModel:
    """Change the nodes that MXNet 1.9.1 would fuse wrongly. The results of the graph stay the same.

    Parameters
    ----------
    model : ExportedModel
        Lowered, or with MXNet's operators only.
    inference : bool, default True
        Whether the graph is for inference only, where dropouts are identities.
    """
    model = model.copy()
    graph = model.graph
    _shorten_identities(graph, IDENTITIES if inference else {COPY})
    _unfuse_sums(graph)
    _copy_outputs(graph)
    _unfuse_dense_layers(graph)
    _copy_convolutions_for_dense_layers(graph)
    return model


def _shorten_identities(graph: Graph, identities: Collection[str]) -> None:
    """Let every identity read what the identities in front of it read.

    MXNet takes an identity out together with the operator in front of it. It fails where that is an identity which
    is still there: the second one behind a variable, or the third one in a row.
    """
    for node in graph.nodes():
        if node.op in IDENTITIES:
            while node.source().op in identities:
                node.inputs = list(node.source().inputs)


def _unfuse_sums(graph: Graph) -> None:
    """Make every sum that MXNet would fuse wrongly an ``add_n``, which it does not fuse.

    MXNet overlooks one kind of reader: a sum that closes a cycle. In ``conv(relu(x)) + x``, with a convolution
    ``x``, the sum cannot be fused with ``x``, because it needs ``conv(relu(x))`` first. MXNet finds the cycle, takes
    the sum off the readers of ``x``, fuses ``x`` with ``relu``, and the sum reads ``relu(x)``. Pre-activation
    ResNets begin like this. ``x + x`` behind a convolution is an error.
    """
    readers = _readers(graph)
    for add in graph.nodes():
        if add.op == SUM:
            left, right = (source.origin(IDENTITIES) for source, _ in add.inputs)
            is_doubled = left is right and _is_fused_with_a_sum(left)
            if is_doubled or _is_overlooked(add, left, right, readers) or _is_overlooked(add, right, left, readers):
                unfuse(add)


def unfuse(add: Node) -> None:
    """Make a sum of two an ``add_n``, in place: MXNet does not fuse it."""
    add.op = "add_n"
    add.attrs = {**add.attrs, "num_args": "2"}


def _copy_outputs(graph: Graph) -> None:
    """Put a copy behind every output in the middle of a convolution's chain: MXNet overlooks outputs too."""
    readers = _readers(graph)
    for node, index in list(graph.outputs):
        computed = node.origin(IDENTITIES)
        if not _is_fused_with_a_sum(computed) and computed.op != SUM:
            continue
        if any(reader.op in BEHIND_CONVOLUTION for reader in readers[computed]):
            copy = _copy(node.name, (node, index))
            node.name = graph.free_name(f"{node.name}_copied")   # the output keeps its name
            graph.outputs = [(copy, 0) if output == (node, index) else output for output in graph.outputs]


def _unfuse_dense_layers(graph: Graph) -> None:
    """Put a copy between a dense layer with several readers and an activation behind it.

    MXNet stops to look for readers of a dense layer when it has found an activation.
    """
    readers = _readers(graph)
    outputs = [node.origin(IDENTITIES) for node, _ in graph.outputs]
    for dense in graph.nodes():
        if dense.op != "FullyConnected" or len(readers[dense]) + outputs.count(dense) < 2:
            continue
        for reader in readers[dense]:
            if reader.op in BEHIND_DENSE:
                reader.inputs[0] = _copy(graph.free_name(f"{reader.name}_input"), reader.inputs[0]), 0


def _copy_convolutions_for_dense_layers(graph: Graph) -> None:
    """Put a copy in front of a dense layer that reads a convolution's result, or what is computed in its memory.

    With AVX-512, oneDNN's convolutions return the channels last. A dense layer converts that, but decides in the first
    forward pass whether it has to. For maps of one pixel it decides not to, and the second pass fails: "We can't
    generate TBlob for MKLDNN data".
    """
    for dense in graph.nodes():
        if dense.op != "FullyConnected":
            continue
        read = _ancestors(dense.source(), HIDES_LAYOUT)
        if any(node.op == "Convolution" for node in read):
            dense.inputs[0] = _copy(graph.free_name(f"{dense.name}_input"), dense.inputs[0]), 0


def _copy(name: str, entry: tuple[Node, int]) -> Node:
    """A node that copies an output, and that MXNet does not take for an identity."""
    return Node("slice_axis", name, {"axis": "0", "begin": "0", "end": "None", **entry[0].marks()}, [entry])


def _readers(graph: Graph) -> dict[Node, list[Node]]:
    """Node -> the nodes that read it once MXNet has taken the identities out."""
    readers = {node: [] for node in graph.nodes()}
    for node in readers:
        for source, _ in node.inputs:
            readers[source.origin(IDENTITIES)].append(node)
    return readers


def _is_overlooked(add: Node, operand: Node, other: Node, readers: dict[Node, list[Node]]) -> bool:
    """Whether MXNet may fuse ``operand`` with another of its readers although the sum reads it too."""
    if not _is_fused_with_a_sum(operand):
        return False
    if not any(reader.op in BEHIND_CONVOLUTION for reader in readers[operand] if reader is not add):
        return False
    return operand in _ancestors(other)


def _is_fused_with_a_sum(node: Node) -> bool:
    """Whether a node is a convolution, or the batch norm of one."""
    if node.op == "BatchNorm":
        node = node.source().origin(IDENTITIES)
    return node.op == "Convolution"


def _ancestors(node: Node, ends: Collection[str] = ()) -> set[Node]:
    """A node and all that it is computed from, but not what the operators ``ends`` are computed from."""
    ancestors, waiting = set(), [node]
    while waiting:
        current = waiting.pop()
        if current not in ancestors:
            ancestors.add(current)
            if current.op not in ends:
                waiting += [source for source, _ in current.inputs]
    return ancestors
