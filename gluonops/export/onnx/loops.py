"""Unrolls loops whose number of steps is known."""
from __future__ import annotations

import ast

from ..graph import Entry, Graph, Node
from .model import refusal
from .sizes import Sizes

LOOP = "_foreach"


def unroll(graph: Graph, sizes: Sizes) -> bool:
    """Replace the first loop over the first axis of its data by its steps, in place. Returns whether there was one.

    An OpError if the number of steps depends on the batch.
    """
    loop = next((node for node in graph.nodes() if node.op == LOOP), None)
    if loop is None:
        return False
    of_data, of_states, of_others = (ast.literal_eval(loop.attrs[name]) for name in (
        "in_data_locs", "in_state_locs", "remain_locs"))
    data = loop.inputs[:len(of_data)]
    states = loop.inputs[len(of_data):len(of_data) + len(of_states)]
    others = loop.inputs[len(of_data) + len(of_states):]
    count = sizes.shape[data[0]][0]
    if not isinstance(count, int):
        raise refusal(loop, "has as many steps as the batch has images")

    slices = [_split(f"{loop.name}_data{i}", entry, count) for i, entry in enumerate(data)]
    made = []   # the outputs of each step that are no states
    returned = int(loop.attrs["num_out_data"])
    for number in range(count):
        entries = [(each, number) for each in slices] + states + others
        variables = dict(zip(of_data + of_states + of_others, entries))
        heads = _step(loop, number, variables)
        made.append(heads[:returned])
        states = heads[returned:]
    stacked = [(_stack(f"{loop.name}_output{i}", parts), 0) for i, parts in enumerate(zip(*made))]
    graph.replace({(loop, i): entry for i, entry in enumerate(stacked + states)})
    return True


def _step(loop: Node, number: int, variables: dict[int, Entry]) -> list[Entry]:
    """The outputs of one step. ``variables``: what to read in place of each variable of the loop's graph."""
    step = loop.subgraphs[0].copy()
    nodes = step.nodes()
    positions = {node: i for i, node in enumerate(node for node in nodes if node.is_variable)}
    for node in nodes:
        node.name = f"{loop.name}_step{number}_{node.name}"
    step.replace({(node, 0): variables[i] for node, i in positions.items()})
    return step.heads


def _split(name: str, entry: Entry, count: int) -> Node:
    return Node("SliceChannel", name, {"num_outputs": str(count), "axis": "0", "squeeze_axis": "True"}, [entry])


def _stack(name: str, parts: tuple[Entry, ...]) -> Node:
    return Node("stack", name, {"axis": "0", "num_args": str(len(parts))}, parts)
