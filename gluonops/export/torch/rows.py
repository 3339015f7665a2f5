"""Makes scopes of what repeats in rows of layers: parts with several ways for the data, and convolutions."""
from __future__ import annotations

import collections

from ..graph import Entry, Graph, Node, is_ours, our_name
from .blocks import CONV_BLOCK
from .scopes import Scope, can_be_a_module, nodes_of

ACTIVATIONS = ("Activation", "LeakyReLU", "relu", "clip", "mish", "swish", "hard_swish", "gelu")
# A convolution and these behind it become a block where that repeats in a long row of layers.
BEHIND_CONVOLUTION = ("BatchNorm", *ACTIVATIONS)
FEWEST = 3   # times that it repeats; items of a part that becomes a block, and items that a row has beside a part
# What joins the ways through a part -> the name of its class.
JOINS = {"elemwise_add": "Residual", "broadcast_add": "Residual", "broadcast_mul": "Gate", "elemwise_mul": "Gate"}


def group_rows(root: Scope, graph: Graph, parameters: set[str]) -> None:
    """Make scopes of what repeats in the scopes of a net, in place."""
    readers, uses = graph.readers(), collections.defaultdict(list)
    for node in graph.nodes():
        for entry in node.inputs:
            uses[entry].append(node)
    for entry in graph.outputs:
        uses[entry].append(None)
    while _group_parts(root, readers, uses, parameters):   # parts form around the new scopes
        pass
    for scope in list(root.scopes()):
        _group_layers(scope, readers, parameters)


def _group_parts(root: Scope, readers: dict, uses: dict, parameters: set[str]) -> bool:
    """Make scopes of the parts of rows that have several, where similar ones repeat. Whether it has made some."""
    found = [(scope, _Row(scope, uses, parameters).parts()) for scope in root.scopes()]
    found = [(scope, part) for scope, parts in found if len(parts) > 1 for part in parts]
    counts = collections.Counter(_operators(part) for _, part in found)
    has_made = False
    for scope, part in found:
        joins = [node.op for item in part for node in nodes_of(item) if len(_data(node, parameters)) > 1]
        block = Scope("block", JOINS.get(joins[-1], "Block"), items=part)
        if counts[_operators(part)] > 1 and can_be_a_module(block, readers, parameters):
            scope.items[scope.items.index(part[-1])] = block
            scope.items = [item for item in scope.items if item not in part]
            has_made = True
    return has_made


def _operators(items: list[Scope | Node]) -> tuple[str, ...]:
    return tuple(sorted({_op(node) for item in items for node in nodes_of(item)}))


def _data(node: Node, parameters: set[str]) -> list[Entry]:
    """What a node reads that is no parameter."""
    return [entry for entry in node.inputs if entry[0].name not in parameters]


class _Row:
    """The items of a scope, with the outputs that each reads and makes, and the items that read an output."""

    def __init__(self, scope: Scope, uses: dict[Entry, list[Node | None]], parameters: set[str]):
        self.items = scope.items
        owner = {node: item for item in self.items for node in nodes_of(item)}
        self.reads = {item: {entry for node in nodes_of(item) for entry in _data(node, parameters)
                             if owner.get(entry[0]) is not item} for item in self.items}
        self.users = {entry: {owner.get(reader) for reader in readers} - {owner.get(entry[0], entry)}
                      for entry, readers in uses.items()}   # None stands for what is outside
        self.makes = {item: [] for item in self.items}
        for entry, users in self.users.items():
            if users and entry[0] in owner:
                self.makes[owner[entry[0]]].append(entry)
        self.has_layers = {item for item in self.items
                           if any(entry[0].name in parameters for node in nodes_of(item) for entry in node.inputs)}

    def parts(self) -> list[list[Scope | Node]]:
        """The innermost parts of one input, where several ways of the data begin, and one result, where they meet."""
        parts = [self._part(entry) for entry, users in self.users.items() if len(users) > 1]
        parts = [part for part in parts if part and len(part) <= len(self.items) - FEWEST
                 and (len(part) >= FEWEST or _op(part[-1]) == "Concat") and self.has_layers.intersection(part)]
        return [part for part in parts if not any(set(part) > set(other) for other in parts)]

    def _part(self, entry: Entry) -> list[Scope | Node]:
        """The items between an output and the item where all ways meet; none if other data reach them or leave them."""
        part, made, waiting = [], {entry}, set(self.users[entry])
        open_ends = len(waiting)
        for item in self.items:
            if item not in waiting:
                continue
            if not self.reads[item] <= made:
                return []
            part.append(item)
            open_ends -= len(self.reads[item])
            if open_ends == 0:
                return [*part, *self._activation(item)] if len(self.makes[item]) == 1 else []
            for output in self.makes[item]:
                made.add(output)
                waiting |= self.users[output]
                open_ends += len(self.users[output])
        return []

    def _activation(self, item: Scope | Node) -> list[Node]:
        """The activation behind an item, if nothing else reads the item."""
        readers = list(self.users[self.makes[item][0]])
        is_one = len(readers) == 1 and _op(readers[0]) in ACTIVATIONS and len(self.reads[readers[0]]) == 1
        return readers if is_one else []


def _group_layers(scope: Scope, readers: dict, parameters: set[str]) -> None:
    """Make a scope of each convolution and the layers behind it, where enough of them are alike."""
    groups = []
    for item in scope.items:
        first, last = (groups[-1][0], groups[-1][-1]) if groups else (None, None)
        if _op(first) == "Convolution" and _op(item) in BEHIND_CONVOLUTION and readers[last] == [item]:
            groups[-1].append(item)
        else:
            groups.append([item])
    kinds = [tuple(map(_op, group)) for group in groups]
    if len(set(kinds)) == 1 and len(kinds) <= FEWEST:   # the scope is one of them, or has nothing else
        scope.kind = CONV_BLOCK if "Sequential" in scope.kind and list(map(len, kinds)) == [3] else scope.kind
        return
    scope.items = []
    for kind, group in zip(kinds, groups):
        block = Scope("conv", CONV_BLOCK, items=group)
        is_block = len(group) > 1 and kinds.count(kind) >= FEWEST and can_be_a_module(block, readers, parameters)
        scope.items += [block] if is_block else group


def _op(item: Scope | Node | None) -> str:
    """The operator of a node; empty for a scope."""
    if not isinstance(item, Node):
        return ""
    return our_name(item) if is_ours(item) else item.op
