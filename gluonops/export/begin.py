"""Finds the node where what was exported begins to differ from MXNet."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .draws import Values
from .graph import Entry, Graph, Node, kind
from .sides import InMXNet, InOnnxruntime

SEED = 1
Differs = Callable[[np.ndarray, np.ndarray, np.ndarray], bool]   # (expected, found, expected after rounding)


def where_symbols_begin(theirs: InMXNet, ours: InMXNet, position: int, values: Values, differs: Differs) -> str:
    """The end of a message: where symbol JSON begins to differ in an output. Nodes are compared by their names."""
    names = {node.name for node in ours.model.graph.nodes()}
    entries = [entry for entry in computed(theirs.model.graph) if entry[0].name in names]
    return begin_of(theirs, entries, lambda: ours.inside(entries)(values), position, values, differs)


def where_onnx_begins(theirs: InMXNet, source: str | bytes, position: int, values: Values, differs: Differs) -> str:
    """The end of a message: where an ONNX file begins to differ in an output.

    The names of its nodes begin with those of MXNet's: the last of them makes the node's output.
    """
    import onnx
    model = onnx.load(source) if isinstance(source, str) else onnx.load_model_from_string(source)
    tensors = {node.name.rsplit("/", 1)[0]: node.output[0] for node in model.graph.node if "/" in node.name}
    entries = [entry for entry in computed(theirs.model.graph) if entry[0].name in tensors and entry[1] == 0]
    del model.graph.output[:]
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in dict.fromkeys(
        tensors[node.name] for node, _ in entries))
    inside = InOnnxruntime("export.compare", model.SerializeToString())

    def run() -> list[np.ndarray]:
        array_of = dict(zip(inside.names, inside(values)))
        return [array_of[tensors[node.name]] for node, _ in entries]

    return begin_of(theirs, entries, run, position, values, differs)


def computed(graph: Graph) -> list[Entry]:
    """The first output of each node that is no variable."""
    return [(node, 0) for node in graph.nodes() if not node.is_variable]


def begin_of(theirs: InMXNet, entries: list[Entry], run: Callable[[], list[np.ndarray]], position: int, values: Values,
             differs: Differs) -> str:
    """The end of a message: the node of MXNet's graph where an output begins to differ; empty if it is not found.

    ``run``: computes the entries as they were exported.
    """
    if not entries:
        return ""
    try:
        inside = theirs.inside(entries)
        computed, expected, others = run(), inside(values), inside(values, np.random.RandomState(SEED))
    except Exception:   # The difference itself is what the user has to know.
        return ""
    is_wrong = {node: differs(*arrays) for (node, _), *arrays in zip(entries, expected, computed, others)}
    start = _named(theirs.model.graph, theirs.entries[position][0].name)
    node = begin(start, is_wrong)
    return f". The two begin to differ at the node {node.name!r} ({kind(node)})"


def _named(graph: Graph, name: str) -> Node:
    return next(node for node in graph.nodes() if node.name == name)


def begin(start: Node, is_wrong: dict[Node, bool]) -> Node:
    """The node, at or before one that differs, that differs although all nodes that it is computed from agree.

    Only nodes that are in ``is_wrong`` were compared. The walk goes through others, and stops at those that agree.
    """
    node = start
    while True:
        before = next((each for each in _compared_before(node, is_wrong) if is_wrong[each]), None)
        if before is None:
            return node
        node = before


def _compared_before(node: Node, is_wrong: dict[Node, bool]) -> list[Node]:
    """The nearest nodes in front of one that were compared."""
    compared, visited, waiting = [], set(), [source for source, _ in node.inputs]
    while waiting:
        source = waiting.pop()
        if source in visited or source.is_variable:
            continue
        visited.add(source)
        if source in is_wrong:
            compared.append(source)
        else:
            waiting += [each for each, _ in source.inputs]
    return compared
