"""Tells which variables of a graph are parameters, and under what names files have their values. Needs no MXNet."""
from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from ..contract.errors import OpError
from .graph import Graph, Node
from .operators import traits_of

# Two names for each state of a batch norm, at the end of a variable's name: of Module's files and of Gluon's.
STATES = (("moving_mean", "running_mean"), ("moving_var", "running_var"))
MOST_NAMES = 20   # A message names no more.
Value = TypeVar("Value")


def is_layer(node: Node) -> bool:
    """Whether a node is one of MXNet's layers with parameters."""
    return node.op == "RNN" or traits_of(node).has_parameters


def of_layers(graph: Graph) -> set[str]:
    """The names of the variables that are a layer's parameters."""
    names = set()
    for node in graph.nodes():
        if is_layer(node):   # an RNN also has states as inputs
            parameters = node.inputs[1:2] if node.op == "RNN" else node.inputs[1:]
            names.update(source.name for source, _ in parameters)
    return names


def without_tags(where: str, path: str, values: Mapping[str, Value]) -> dict[str, Value]:
    """The values of a file without ``arg:`` and ``aux:`` in front of their names.

    An OpError is raised if two have one name.
    """
    plain = {}
    for tagged, value in values.items():
        name = re.sub("^(arg|aux):", "", tagged)
        if name in plain:
            raise OpError(where, f"{path} has two values for {name}", "Remove one of them")
        plain[name] = value
    return plain


def renamed_states(variables: Iterable[str], names: Collection[str]) -> dict[str, str]:
    """States that a file has under the other name: their names in the file -> those in the graph."""
    variables, renamed = set(variables), {}
    for name in sorted(variables.difference(names)):
        for ending, other in (*STATES, *(pair[::-1] for pair in STATES)):
            renamed_state = name[:-len(ending)] + other
            if name.endswith(ending) and renamed_state in names and renamed_state not in variables:
                renamed[renamed_state] = name
    return renamed


def listed(names: Iterable[str], most: int = MOST_NAMES) -> str:
    """Names for a message: the first ``most``, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
