"""Finds the blocks of a net in its graph: the scopes from which classes are made.

A block of a net is known from its call: the nodes that the call adds to the trace are the block's. In files only names
are left, whose prefixes are the scopes: ``stage1_unit2_conv1`` is ``conv1`` in ``unit2`` in ``stage1``. A scope that
cannot be a module (data leave it and come back, or another one shares its parameters) is dissolved in the one around.
"""
from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..graph import Graph, Node

if TYPE_CHECKING:
    import mxnet as mx

# A convolution and these behind it become a block where that repeats in a long row of layers.
BEHIND_CONVOLUTION = ("BatchNorm", "Activation", "LeakyReLU", "relu", "clip")
FEWEST = 3   # times that it repeats


class Scope:
    """A block.

    - ``name``: its name in the block around it.
    - ``kind``: the name of its class, or what its name says of it.
    - ``items``: nodes and scopes, in the order of the graph.
    - ``arguments``: output that its call in Gluon is given -> what ``hybrid_forward`` calls it.
    """

    def __init__(self, name: str, kind: str = ""):
        self.name = name
        self.kind = kind
        self.items = []
        self.arguments = {}

    def nodes(self) -> Iterator[Node]:
        """The nodes in it, in any depth."""
        for item in self.items:
            if isinstance(item, Scope):
                yield from item.nodes()
            else:
                yield item

    def scopes(self) -> Iterator[Scope]:
        """The scopes in it, in any depth, inner ones first."""
        for item in self.items:
            if isinstance(item, Scope):
                yield from item.scopes()
                yield item


Path = tuple[tuple[str, str], ...]   # from the net inwards: the name and the class of each block


class Recorder:
    """Records to which block of a net the nodes of its trace belong.

    - ``paths``: node -> the blocks that it is in.
    - ``prefixes``: node -> the prefix of the names in the innermost one.
    - ``arguments``: block -> see :class:`Scope`; an output is the name of its node and a number.
    """

    def __init__(self, net: mx.gluon.Block):
        self.paths, self.prefixes, self.arguments = {}, {}, {}
        self._handles = []
        self._add(net, ())

    def _add(self, block: mx.gluon.Block, path: Path) -> None:
        def record(block: mx.gluon.Block, inputs: tuple, outputs: object) -> None:
            _, *parameters = inspect.signature(block.hybrid_forward).parameters.values()   # the first one is F
            self.arguments[path] = {
                _outputs(symbol)[-1]: parameter.name for symbol, parameter in zip(inputs, parameters)
                if hasattr(symbol, "get_internals") and parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD}
            before = {name for symbol in _symbols(inputs) for name, _ in _outputs(symbol)}
            for symbol in _symbols(outputs):
                for name, _ in _outputs(symbol):
                    if name not in before and name not in self.paths:
                        self.paths[name] = path
                        self.prefixes[name] = block.prefix

        self._handles.append(block.register_forward_hook(record))
        for name, child in block._children.items():
            self._add(child, (*path, (self._attribute(block, name, child), type(child).__name__)))

    @staticmethod
    def _attribute(block: mx.gluon.Block, name: str, child: mx.gluon.Block) -> str:
        """The attribute that holds a child: Gluon may know it by a number only."""
        return next((key for key, value in vars(block).items() if value is child), name)

    def detach(self) -> None:
        for handle in self._handles:
            handle.detach()


def _symbols(values: object) -> Iterator[mx.sym.Symbol]:
    if isinstance(values, (list, tuple)):
        for value in values:
            yield from _symbols(value)
    elif hasattr(values, "get_internals"):
        yield values


def _outputs(symbol: mx.sym.Symbol) -> list[tuple[str, int]]:
    """All outputs in a symbol, its own last: the name of the node and the number."""
    found = [re.fullmatch(r"(.*?)(?:_output(\d*))?", name) for name in symbol.get_internals().list_outputs()]
    return [(name, int(number or 0)) for name, number in (match.groups() for match in found)]


def tree_of(graph: Graph, recorder: Recorder | None, parameters: set[str]) -> Scope:
    """The scopes of a graph. ``parameters``: the names of its parameters and states."""
    root = Scope("net", "Net")
    known = {(): root}
    for node in graph.nodes():
        if node.is_variable:
            continue
        path = _path(node, recorder)
        for depth in range(1, len(path) + 1):
            if path[:depth] not in known:
                scope = known[path[:depth]] = Scope(*path[depth - 1])
                scope.arguments = recorder.arguments.get(path[:depth], {}) if recorder else {}
                known[path[:depth - 1]].items.append(scope)
        known[path].items.append(node)
    _dissolve_impossible(root, graph, parameters)
    _simplify(root)
    readers = graph.readers()
    for scope in [root, *root.scopes()]:
        _group_layers(scope, readers, parameters)
    return root


def _path(node: Node, recorder: Recorder | None) -> Path:
    """The scopes that a node is in."""
    if recorder is None or node.name not in recorder.paths:
        return _path_of_name(node.name)
    prefix = recorder.prefixes[node.name]
    rest = node.name[len(prefix):] if node.name.startswith(prefix) else ""
    return recorder.paths[node.name] + _path_of_name(rest)


def _path_of_name(name: str) -> Path:
    """The scopes that a name says: its parts but the last one. A number belongs to the part in front of it."""
    words = [word for word in re.sub(r"_(?=\d+(_|$))", "", name).split("_") if word]
    return tuple((word, re.sub(r"\d+$", "", word)) for word in words[:-1])


def _dissolve_impossible(root: Scope, graph: Graph, parameters: set[str]) -> None:
    """Dissolve the scopes that cannot be modules."""
    readers = graph.readers()
    _dissolve(root, {scope for scope in root.scopes() if not _can_be_a_module(scope, readers, parameters)})
    while True:
        circle = _in_circles(root)
        if not circle:
            return
        _dissolve(root, {circle[-1]})


def _dissolve(owner: Scope, unwanted: set[Scope]) -> None:
    """Put the items of unwanted scopes into the scopes around them."""
    items = []
    for item in owner.items:
        if isinstance(item, Scope):
            _dissolve(item, unwanted)
        items += item.items if item in unwanted else [item]
    owner.items = items


def _can_be_a_module(scope: Scope, readers: dict, parameters: set[str]) -> bool:
    inside = set(scope.nodes())
    for node in inside:
        for source, _ in node.inputs:
            is_parameter = source.is_variable and source.name in parameters
            if is_parameter and not inside.issuperset(readers[source]):
                return False
    seen, waiting = set(), [reader for node in inside for reader in readers[node] if reader not in inside]
    while waiting:   # the nodes behind it
        node = waiting.pop()
        if node in inside:
            return False
        if node is not None and node not in seen:
            seen.add(node)
            waiting += readers[node]
    return True


def _in_circles(root: Scope) -> list[Scope]:
    """Scopes that read each other, so that none of them can be called first."""
    for scope in [root, *root.scopes()]:
        found = [item for item in in_order(scope)[1] if isinstance(item, Scope)]
        if found:
            return found
    return []


def members(item: Scope | Node) -> list[Node]:
    return list(item.nodes()) if isinstance(item, Scope) else [item]


def in_order(scope: Scope) -> tuple[list, list]:
    """The items so that each comes behind what it reads, and those for which there is no such order."""
    owner = {node: item for item in scope.items for node in members(item)}
    needed = {}
    for item in scope.items:
        sources = {owner.get(source) for node in members(item) for source, _ in node.inputs}
        needed[item] = sources - {None, item}
    ordered, rest = [], list(scope.items)
    while rest:
        ready = next((item for item in rest if needed[item].issubset(ordered)), None)
        if ready is None:
            break
        ordered.append(ready)
        rest.remove(ready)
    return ordered, rest


def _simplify(scope: Scope) -> None:
    """Replace scopes of one item by the item, and order the items."""
    for item in scope.items:
        if isinstance(item, Scope):
            _simplify(item)
    scope.items = [_only(item) for item in scope.items]
    while len(scope.items) == 1 and isinstance(scope.items[0], Scope):
        scope.items = scope.items[0].items
    scope.items = in_order(scope)[0]


def _only(item: Scope | Node) -> Scope | Node:
    """A scope without the scopes that have nothing but one item. A node keeps the name of the scope around it."""
    if isinstance(item, Scope) and len(item.items) == 1:
        inner = item.items[0]
        if isinstance(inner, Scope):
            return inner
        inner.attrs.setdefault("__scope__", item.name)
        return inner
    return item


def _group_layers(scope: Scope, readers: dict, parameters: set[str]) -> None:
    """Make a scope of each convolution and the layers behind it, where enough of them are alike."""
    groups = []
    for item in scope.items:
        before = groups[-1] if groups else None
        if before and _is_behind(item, before, readers):
            before.append(item)
        else:
            groups.append([item])
    kinds = [tuple(item.op if isinstance(item, Node) else "" for item in group) for group in groups]
    if len(set(kinds)) == 1:   # the scope is one of them, or has nothing else
        return
    scope.items = []
    for kind, group in zip(kinds, groups):
        block = Scope("conv", "ConvBlock")
        block.items = group
        is_block = len(group) > 1 and kinds.count(kind) >= FEWEST and _can_be_a_module(block, readers, parameters)
        scope.items += [block] if is_block else group


def _is_behind(item: Scope | Node, group: list, readers: dict) -> bool:
    """Whether an item is the only reader of a group that begins with a convolution, and belongs to it."""
    nodes = [item, *group]
    return (all(isinstance(node, Node) for node in nodes) and group[0].op == "Convolution"
            and item.op in BEHIND_CONVOLUTION and readers[group[-1]] == [item])
