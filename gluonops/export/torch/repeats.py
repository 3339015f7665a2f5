"""Makes scopes of what repeats among layers: segments with several ways for the data, and convolutions."""
from __future__ import annotations

import collections

from ..graph import Entry, Graph, Node, is_ours, our_name
from ..operators import traits_of
from .blocks import CONV_BLOCK
from .scopes import Scope, can_be_a_module, nodes_of

FEWEST = 3   # times that it repeats; items of a segment that becomes a block, and items that a scope has beside it
JOINS = {"sum": "Residual", "product": "Gate"}   # What joins the ways through a segment -> the name of its class.


def group_repeats(root: Scope, graph: Graph, parameters: set[str]) -> None:
    """Make scopes of what repeats in the scopes of a net, in place."""
    readers, uses = graph.readers(), collections.defaultdict(list)
    for node in graph.nodes():
        for entry in node.inputs:
            uses[entry].append(node)
    for entry in graph.outputs:
        uses[entry].append(None)
    while _group_segments(root, readers, uses, parameters):   # segments form around the new scopes
        pass
    for scope in list(root.scopes()):
        _group_layers(scope, readers, parameters)


def _group_segments(root: Scope, readers: dict, uses: dict, parameters: set[str]) -> bool:
    """Make scopes of the segments of scopes that have several, where similar ones repeat. Whether it has made some."""
    several = [(scope, _Dataflow(scope, uses, parameters).segments()) for scope in root.scopes()]
    pairs = [(scope, segment) for scope, segments in several if len(segments) > 1 for segment in segments]
    counts = collections.Counter(_operators(segment) for _, segment in pairs)
    has_made = False
    for scope, segment in pairs:
        joins = [traits_of(node).acts_as for item in segment for node in nodes_of(item)
                 if len(_data(node, parameters)) > 1]
        block = Scope("block", JOINS.get(joins[-1], "Block"), items=segment)
        if counts[_operators(segment)] > 1 and can_be_a_module(block, readers, parameters):
            scope.items[scope.items.index(segment[-1])] = block
            scope.items = [item for item in scope.items if item not in segment]
            has_made = True
    return has_made


def _operators(items: list[Scope | Node]) -> tuple[str, ...]:
    return tuple(sorted({_op(node) for item in items for node in nodes_of(item)}))


def _data(node: Node, parameters: set[str]) -> list[Entry]:
    """Return what a node reads that is no parameter."""
    return [entry for entry in node.inputs if entry[0].name not in parameters]


class _Dataflow:
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

    def segments(self) -> list[list[Scope | Node]]:
        """Return the innermost segments: they have one input, where data branches, and one result, where it joins."""
        segments = [self._segment(entry) for entry, users in self.users.items() if len(users) > 1]
        segments = [segment for segment in segments if segment and len(segment) <= len(self.items) - FEWEST
                 and (len(segment) >= FEWEST or _op(segment[-1]) == "Concat") and self.has_layers.intersection(segment)]
        return [segment for segment in segments if not any(set(segment) > set(other) for other in segments)]

    def _segment(self, entry: Entry) -> list[Scope | Node]:
        """Return the items between an output and the item where all branches join.

        There are none if other data enters or leaves them.
        """
        segment, made, waiting = [], {entry}, set(self.users[entry])
        open_ends = len(waiting)
        for item in self.items:
            if item not in waiting:
                continue
            if not self.reads[item] <= made:
                return []
            segment.append(item)
            open_ends -= len(self.reads[item])
            if open_ends == 0:
                return [*segment, *self._activation(item)] if len(self.makes[item]) == 1 else []
            for output in self.makes[item]:
                made.add(output)
                waiting |= self.users[output]
                open_ends += len(self.users[output])
        return []

    def _activation(self, item: Scope | Node) -> list[Node]:
        """Return the activation behind an item, if nothing else reads the item."""
        readers = list(self.users[self.makes[item][0]])
        is_one = len(readers) == 1 and _has_trait(readers[0], "is_activation") and len(self.reads[readers[0]]) == 1
        return readers if is_one else []


def _group_layers(scope: Scope, readers: dict, parameters: set[str]) -> None:
    """Make a scope of each convolution and the layers behind it, where enough of them are alike."""
    groups = []
    for item in scope.items:
        first, last = (groups[-1][0], groups[-1][-1]) if groups else (None, None)
        is_behind = _has_trait(item, "uses_statistics") or _has_trait(item, "is_activation")
        is_convolution = isinstance(first, Node) and traits_of(first).acts_as == "convolution"
        if is_behind and is_convolution and readers[last] == [item]:
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


def _has_trait(item: Scope | Node | None, word: str) -> bool:
    return isinstance(item, Node) and getattr(traits_of(item), word)


def _op(item: Scope | Node | None) -> str:
    """Return the operator of a node. It is empty for a scope."""
    if not isinstance(item, Node):
        return ""
    return our_name(item) if is_ours(item) else item.op
