"""Finds the blocks of a net in its graph: the scopes from which classes are made.

Each call of a block of a net is a scope: the nodes that it adds to the trace bear its mark. Calls of the same block
become calls of one module. In files only names are left, whose prefixes are the scopes: ``stage1_unit2_conv1`` is
``conv1`` in ``unit2`` in ``stage1``. A scope that cannot be a module (data leave it and come back, or what is not a
call of the same block shares its parameters) is dissolved in the one around.
"""
from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ...runtime import importing
from ..graph import CALL, Entry, Graph, Node
from ..operators.forms import Form

if importing.is_imported() or TYPE_CHECKING:
    import mxnet as mx

    from ...backends.numpy_mode import to_legacy
if TYPE_CHECKING:
    from ..recording.tape import BlockCall

MOST_LOOSE = 3   # operators of a block of several inputs and no parameter that are written where it is called


@dataclasses.dataclass(eq=False)
class Scope:
    """A call of a block, or what the names in a file say of one.

    - ``name``: its name in the block around it.
    - ``kind``: the name of its class, or what its name says of it.
    - ``block``: in Gluon, None for what only names say.
    - ``arguments``: output, as the name of its node and a number -> what ``hybrid_forward`` calls it.
    - ``path``: the calls that it is in, itself last, without that of the net.
    - ``items``: nodes and scopes, in the order of the graph.
    - ``calls``: the scopes of all calls of the same block, which compute the same with the same parameters.
    - ``images``: an output that the first of them reads or makes -> the output that stands for it in this one.
    """
    name: str
    kind: str
    block: mx.gluon.Block | None = None
    arguments: dict[tuple[str, int], str] = dataclasses.field(default_factory=dict)
    path: tuple[Scope, ...] = ()
    items: list[Scope | Node] = dataclasses.field(default_factory=list)
    calls: list[Scope] = dataclasses.field(init=False)
    images: dict[Entry, Entry] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.calls = [self]

    def nodes(self) -> list[Node]:
        """Return the nodes in it, in any depth."""
        return [node for item in self.items for node in nodes_of(item)]

    @functools.cached_property
    def inside(self) -> set[Node]:
        """The nodes in it, which do not change when the scopes in it do."""
        return set(self.nodes())

    def scopes(self) -> Iterator[Scope]:
        """This one and the scopes in it, in any depth."""
        yield self
        for item in self.items:
            if isinstance(item, Scope):
                yield from item.scopes()

    def image(self, entry: Entry) -> Entry:
        """Return what stands for an output of the first call."""
        return self.images.get(entry, entry)


class Recorder:
    """Marks the nodes of a net's trace with the call of a block that makes them, the innermost one.

    A mark is a number in ``calls``. Names do not tell calls apart: a block that is called twice gives them twice. Nodes
    are marked after they are made: an ``mx.AttrScope`` would pass the mark to the constructor of a user's CustomOpProp.
    """

    def __init__(self):
        self.calls = []
        self._around = None   # the call that has not returned, and its number

    @classmethod
    def of_run(cls, calls: Iterable[BlockCall]) -> Recorder:
        """One that knows the calls of a recorded run."""
        recorder = cls()
        for call in calls:
            arguments = {(node.name, index): name for (node, index), name in call.arguments.items()}
            scope = Scope("net", type(call.block).__name__, call.block, arguments)
            if call.around is not None:
                around = recorder.calls[call.around]
                scope.name = _attribute(around.block, call.block)
                scope.path = (*around.path, scope)
            recorder.calls.append(scope)
        return recorder

    def __enter__(self) -> Recorder:
        mx.gluon.HybridBlock.__call__ = lambda block, *inputs: self._called(block, inputs)
        return self

    def __exit__(self, *error: object) -> None:
        del mx.gluon.HybridBlock.__call__   # The base class's own follows.

    def _called(self, block: mx.gluon.HybridBlock, inputs: tuple) -> object:
        """Call a block."""
        around, number = self._around, len(self.calls)
        call = Scope("net", type(block).__name__, block, _named_arguments(block, inputs))
        if around:
            caller, callers_number = around
            call.name = _attribute(caller.block, block)
            call.path = (*caller.path, call)
            _mark(inputs, callers_number)   # The caller has made what it passes on, as far as it has no mark yet.
        elif list(_symbols(inputs)):
            for parameter in block.collect_params().values():
                parameter.var()   # Gluon keeps it: it gets no mark
        self.calls.append(call)
        self._around = call, number
        try:
            outputs = mx.gluon.Block.__call__(block, *inputs)
        finally:
            self._around = around
        _mark(outputs, number)
        return outputs

    def call_of(self, node: Node) -> Scope | None:
        """Return the call that has made a node, or None for a node that was made after the trace."""
        return self.calls[int(node.attrs[CALL])] if CALL in node.attrs else None


def _mark(values: object, number: int) -> None:
    """Mark the nodes that symbols are computed by with the number of a call, as far as they have no mark yet."""
    waiting = [output for symbol in _symbols(values) for output in symbol]
    while waiting:
        output = waiting.pop()
        children = output.get_children()
        children = [] if children is None else list(children)
        is_variable = not children and output.list_inputs()
        if not is_variable and output.attr(CALL) is None:
            output._set_attr(**{CALL: str(number)})
            waiting += children


def _named_arguments(block: mx.gluon.Block, inputs: tuple) -> dict[tuple[str, int], str]:
    """See :class:`Scope`. The states of a cell are numbered, if there are several."""
    _, *parameters = inspect.signature(block.hybrid_forward).parameters.values()   # the first one is F
    names = {}
    for value, parameter in zip(inputs, parameters):
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            symbols = list(_symbols(value))
            for number, symbol in enumerate(symbols, 1):
                output, index = re.fullmatch(r"(.*?)(?:_output(\d*))?", symbol.list_outputs()[0]).groups()
                names[output, int(index or 0)] = parameter.name if len(symbols) == 1 else f"{parameter.name}{number}"
    return names


def _attribute(block: mx.gluon.Block, child: mx.gluon.Block) -> str:
    """Return the attribute that holds a block, or in the singular the one that holds its container, such as ``stages``.

    Gluon may know a block by a number only.
    """
    holders = {name: value for name, value in vars(block).items() if isinstance(value, mx.gluon.Block)}
    names = [name for name, value in holders.items() if value is child]
    if child not in block._children.values():
        names += [re.sub("(?<=[^s])s$", "", name) for name, value in holders.items() if _holds(value, child)]
    return next(iter(names), "")


def _holds(block: mx.gluon.Block, other: mx.gluon.Block) -> bool:
    """Return whether a block is another one, or has it in any depth."""
    return block is other or any(_holds(child, other) for child in block._children.values())


def _symbols(values: object) -> Iterator[mx.sym.Symbol]:
    """Yield the symbols among values, those of NumPy mode as legacy ones of the same nodes."""
    if isinstance(values, (list, tuple)):
        for value in values:
            yield from _symbols(value)
    elif hasattr(values, "get_internals"):
        yield to_legacy(values)


def tree_of(graph: Graph, recorder: Recorder | None, parameters: set[str], forms: dict[Node, Form]) -> Scope:
    """Return the scopes of a graph. ``parameters`` are the names of its parameters and states."""
    root = Scope("net", "Net")
    scope_of, readers = {}, graph.readers()
    paths = _paths(graph, recorder, readers)
    for node in filter(forms.get, graph.nodes()):
        scope = root
        for step in paths[node]:
            if (scope, step) not in scope_of:
                scope_of[scope, step] = step if isinstance(step, Scope) else Scope(*step)
                scope.items.append(scope_of[scope, step])
            scope = scope_of[scope, step]
        scope.items.append(node)
    _join_calls(root, parameters, forms)
    _dissolve_impossible(root, readers, parameters)
    _simplify(root)
    return root


def _paths(graph: Graph, recorder: Recorder | None, readers: dict) -> dict[Node, tuple]:
    """Return the scopes that each node is in: calls, or names and kinds.

    A node that the export has put in front of a layer is beside the layer.
    """
    names = _paths_of_names(graph, readers)
    if recorder is None:
        return names
    paths = {}
    for node in reversed(graph.nodes()):
        call = recorder.call_of(node)
        reader = next(filter(None, readers[node]), None)
        if call and _is_layer(call.block):   # its activation is beside it
            paths[node] = call.path[:-1]
            node.attrs["__scope__"] = call.name
        elif call:
            is_file = isinstance(call.block, mx.gluon.SymbolBlock)
            paths[node] = call.path + (names[node] if is_file else ())
        elif reader:
            paths[node] = paths[reader][:-1] if recorder.call_of(reader) else paths[reader]
        else:
            paths[node] = ()
    return paths


def _is_layer(block: mx.gluon.Block) -> bool:
    """Return whether a block is a layer of Gluon's with parameters."""
    return type(block).__module__.startswith("mxnet.gluon.nn") and bool(block._reg_params)


def _join_calls(root: Scope, parameters: set[str], forms: dict[Node, Form]) -> None:
    """Let scopes know the other calls of the same block, if all compute the same."""
    groups = {}
    for scope in root.scopes():
        if scope.block is not None:
            groups.setdefault(scope.block, []).append(scope)
    for scopes in groups.values():
        described = [_described(scope, parameters, forms) for scope in scopes]
        first, entries = described[0]
        if all(steps == first for steps, _ in described):
            for scope, (_, images) in zip(scopes, described):
                scope.calls, scope.images = scopes, dict(zip(entries, images))


def _described(scope: Scope, parameters: set[str], forms: dict[Node, Form]) -> tuple[list, list[Entry]]:
    """Return the steps of a scope, which are equal if two compute the same, and the outputs that it reads and makes."""
    nodes = scope.nodes()
    made = [(node, index) for node in nodes for index in range(forms[node].outputs)]
    read = [entry for node in nodes for entry in node.inputs]
    entries = list(dict.fromkeys([*made, *read]))
    numbers = {entry: entry[0].name if entry[0].name in parameters else index for index, entry in enumerate(entries)}
    return [(forms[node], [numbers[entry] for entry in node.inputs]) for node in nodes], entries


def _paths_of_names(graph: Graph, readers: dict) -> dict[Node, tuple]:
    """Return the scopes that names say.

    A sum without a name is in the scope that made one of its terms and made or read the others.

    MXNet calls it ``_plus3``, or ``concat0``.
    """
    paths, order = {}, {}
    for index, node in enumerate(graph.nodes()):
        paths[node], order[node] = _path_of_name(node.name), index
        terms = [source for source, _ in node.inputs if not source.is_variable]
        if len(terms) > 1 and not paths[node]:
            path = paths[max(terms, key=order.get)]
            while path and not all(any(paths.get(user, ())[:len(path)] == path for user in [term, *readers[term]])
                                   for term in terms):
                path = path[:-1]
            paths[node] = path
    return paths


def _path_of_name(name: str) -> tuple[tuple[str, str], ...]:
    """Return the scopes that a name says: its parts but the last one. A number belongs to the part in front of it."""
    words = [word for word in re.sub(r"_(?=\d+(_|$))", "", name).split("_") if word]
    return tuple((word, re.sub(r"\d+$", "", word)) for word in words[:-1])


def _dissolve_impossible(root: Scope, readers: dict, parameters: set[str]) -> None:
    """Dissolve the scopes that cannot be modules."""
    impossible = [scope for scope in root.scopes() if not can_be_a_module(scope, readers, parameters)]
    _dissolve(root, {call for scope in impossible for call in scope.calls})
    for scope in list(root.scopes()):
        if len(_in_order(scope)) < len(scope.items):   # some read each other, so that none can be called first
            _, *inner = scope.scopes()
            _dissolve(root, {call for each in inner for call in each.calls})


def _dissolve(owner: Scope, unwanted: set[Scope]) -> None:
    """Put the items of unwanted scopes into the scopes around them."""
    items = []
    for item in owner.items:
        if isinstance(item, Scope):
            _dissolve(item, unwanted)
        items += item.items if item in unwanted else [item]
    owner.items = items


def can_be_a_module(scope: Scope, readers: dict, parameters: set[str]) -> bool:
    """Return whether a scope can be a module.

    No data leaves it and comes back, only calls of the same block read its parameters, and it is no sum.

    A sum, and other short expressions of several inputs, read better where they are.
    """
    calls = set().union(*(call.inside for call in scope.calls))
    read = [entry for node in scope.inside for entry in node.inputs]
    if any(source.name in parameters and not calls.issuperset(readers[source]) for source, _ in read):
        return False
    if len(scope.inside) <= MOST_LOOSE and len({entry for entry in read if entry[0] not in scope.inside}) > 1 \
            and not any(source.name in parameters for source, _ in read):
        return False
    before = set(Graph(read, {}).nodes()) - scope.inside
    return not any(source in scope.inside for node in before for source, _ in node.inputs)


def nodes_of(item: Scope | Node) -> list[Node]:
    return item.nodes() if isinstance(item, Scope) else [item]


def _in_order(scope: Scope) -> list[Scope | Node]:
    """Return the items so that each comes behind what it reads, without those for which there is no such order."""
    owner = {node: item for item in scope.items for node in nodes_of(item)}
    needed = {item: {owner.get(source) for node in nodes_of(item) for source, _ in node.inputs} - {None, item}
              for item in scope.items}
    ordered, rest = {}, list(scope.items)
    while ready := next((item for item in rest if needed[item] <= ordered.keys()), None):
        ordered[ready] = None
        rest.remove(ready)
    return list(ordered)


def _simplify(scope: Scope) -> None:
    """Replace scopes of one item by the item, and order the items. A node gets the name of the outermost scope."""
    for index, item in enumerate(scope.items):
        if isinstance(item, Scope):
            _simplify(item)
            if len(item.items) == 1:
                only, = item.items   # a node
                only.attrs["__scope__"] = item.name or only.attrs.get("__scope__", "")
                scope.items[index] = only
    while len(scope.items) == 1 and isinstance(scope.items[0], Scope):
        scope.items = scope.items[0].items
    scope.items = _in_order(scope)
