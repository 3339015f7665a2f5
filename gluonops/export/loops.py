"""Replaces loops whose number of steps is known by their steps, and branches by a choice between their results."""
from __future__ import annotations

from collections.abc import Callable

from ..contract.errors import OpError
from .graph import Entry, Graph, Node
from .operators.attributes import attributes_of
from .sizes import Sizes

Refusal = Callable[[Node, str], OpError]   # the error of a target for a node, and why
WRITERS: dict[str, Callable[[Node, Refusal], list[Entry]]] = {}   # operator with conditions -> what its outputs become
MOST_STEPS = 1000   # All steps of a while loop are written.


def without_branches(graph: Graph, refusal: Refusal) -> None:
    """Replace while loops and branches by nodes without one, in place.

    MXNet does not infer their shapes, and fails on those in loops over data. The error ``refusal`` is raised if there
    may be very many steps.
    """
    while node := next((node for node in graph.nodes() if node.op in WRITERS), None):
        graph.replace({(node, i): entry for i, entry in enumerate(WRITERS[node.op](node, refusal))})


def unroll(graph: Graph, sizes: Sizes, refusal: Refusal) -> bool:
    """Replace the first loop over the first axis of its data by its steps, in place. Returns whether there was one.

    The error ``refusal`` is raised if the number of steps depends on the batch.
    """
    loop = next((node for node in graph.nodes() if node.op == "_foreach"), None)
    if loop is None:
        return False
    of_data, of_states, of_others = (_input_indices(loop, name) for name in (
        "in_data_locs", "in_state_locs", "remain_locs"))
    data = loop.inputs[:len(of_data)]
    states = loop.inputs[len(of_data):len(of_data) + len(of_states)]
    others = loop.inputs[len(of_data) + len(of_states):]
    count = sizes.shape[data[0]][0]
    if not isinstance(count, int):
        raise refusal(loop, "has as many steps as the batch has images")

    options = {"num_outputs": str(count), "axis": "0", "squeeze_axis": "True"}
    slices = [_node(loop, f"data{i}", "SliceChannel", [entry], **options) for i, entry in enumerate(data)]
    indices = of_data + of_states + of_others
    made = []   # the outputs of each step that are no states
    returned = attributes_of(loop)["num_out_data"]
    for number in range(count):
        entries = [(node, number) for node, _ in slices] + states + others
        outputs = _part(loop, 0, f"step{number}", [entries[indices.index(i)] for i in range(len(indices))])
        made.append(outputs[:returned])
        states = outputs[returned:]
    graph.replace({(loop, i): entry for i, entry in enumerate(_stacked(loop, made) + states)})
    return True


def _writes(name: str) -> Callable:
    def enter(function: Callable) -> Callable:
        WRITERS[name] = function
        return function
    return enter


@_writes("_while_loop")
def _while_loop(loop: Node, refusal: Refusal) -> list[Entry]:
    """All steps that there may be. Those behind the end give zeros, and leave the variables as they are."""
    count, returned = (attributes_of(loop)[name] for name in ("max_iterations", "num_out_data"))
    if count > MOST_STEPS:
        raise refusal(loop, f"has up to {count} steps; expected at most {MOST_STEPS}, because each is written")
    of_condition, of_step = _input_indices(loop, "cond_input_locs"), _input_indices(loop, "func_input_locs")
    variables = [of_step[i] for i in _input_indices(loop, "func_var_locs")]
    inputs, goes_on, made = list(loop.inputs), None, []
    for number in range(count):
        label = f"step{number}"
        holds, = _part(loop, 0, f"condition{number}", [inputs[i] for i in of_condition])
        goes_on = holds if goes_on is None else _node(loop, f"{label}_goes_on", "broadcast_logical_and",
                                                      [goes_on, holds])
        outputs = _part(loop, 1, label, [inputs[i] for i in of_step])
        zeros = [_node(loop, f"{label}_zeros{i}", "zeros_like", outputs[i:i + 1]) for i in range(returned)]
        before = zeros + [inputs[i] for i in variables]
        outputs = [_chosen(loop, f"{label}_{i}", goes_on, *pair) for i, pair in enumerate(zip(outputs, before))]
        made.append(outputs[:returned])
        for i, output in zip(variables, outputs[returned:]):
            inputs[i] = output
    return _stacked(loop, made) + [inputs[i] for i in variables]


@_writes("_cond")
def _cond(branch: Node, refusal: Refusal) -> list[Entry]:
    """Both results are computed, and one is chosen."""
    (holds,), ones, others = (
        _part(branch, i, name, [branch.inputs[j] for j in _input_indices(branch, f"{name}_input_locs")])
        for i, name in enumerate(("cond", "then", "else")))
    return [_chosen(branch, f"output{i}", holds, *pair) for i, pair in enumerate(zip(ones, others))]


def _input_indices(node: Node, name: str) -> list[int]:
    return list(attributes_of(node)[name])


def _part(owner: Node, number: int, label: str, entries: list[Entry]) -> list[Entry]:
    """The outputs of a copy of a graph inside of a node. ``entries`` are what to read in place of its variables."""
    part = owner.subgraphs[number].copy()
    nodes = part.nodes()
    for node in nodes:
        node.name = f"{owner.name}_{label}_{node.name}"
    part.replace({(node, 0): entry for node, entry in zip([node for node in nodes if node.is_variable], entries)})
    return part.outputs


def _node(owner: Node, label: str, op: str, inputs: list[Entry], **attrs: str) -> Entry:
    return Node(op, f"{owner.name}_{label}", attrs, inputs), 0


def _chosen(owner: Node, label: str, holds: Entry, one: Entry, other: Entry) -> Entry:
    """``one`` where a condition of one number holds, or else ``other``."""
    flag = _node(owner, f"{label}_flag", "Reshape", [holds], shape="(-1,)")
    of_rows = _node(owner, f"{label}_flags", "broadcast_like", [flag, one], lhs_axes="(0,)", rhs_axes="(0,)")
    return _node(owner, label, "where", [of_rows, one, other])


def _stacked(loop: Node, made: list[list[Entry]]) -> list[Entry]:
    """The outputs of all steps, one behind the other."""
    return [_node(loop, f"output{i}", "stack", list(parts), axis="0", num_args=str(len(parts)))
            for i, parts in enumerate(zip(*made))]
