"""Builds blocks from scopes."""
from __future__ import annotations

import collections
import re

from ..graph import Entry, Graph, Node
from ..operators.forms import Form
from .blocks import BUFFER, CALL, PARAMETER, SEQUENTIAL, CompositeModule, Item, Module
from .expressions import Expression
from .scopes import Scope

SHORTEST_CHAIN = 4   # modules that are called one after the other in a block and become an nn.Sequential


class Builder:
    """Makes blocks from scopes.

    - ``parameters``: name -> shape, of states as well; ``constants``: those that no layer has and that are not trained.
    - ``inputs``: names, in the order of the net's arguments.
    """

    def __init__(self, graph: Graph, forms: dict[Node, Form], parameters: dict[str, tuple[int, ...]],
                 constants: set[str], inputs: list[str]):
        self.graph, self.forms, self.parameters, self.constants = graph, forms, parameters, constants
        self.inputs = inputs
        self.readers = graph.readers()
        self.blocks = {}    # the first call of a block -> what is made of it
        self.modules = {}   # what says which module it is -> the module

    def net(self, scope: Scope) -> CompositeModule:
        """Return the whole net."""
        block = self.block(scope)
        variables = {node.name: node for node in self.graph.nodes() if node.is_variable}
        block.inputs, block.results = [(variables[name], 0) for name in self.inputs], list(self.graph.outputs)
        shorten(block, is_net=True)
        return block

    def block(self, scope: Scope) -> CompositeModule:
        items = [item for each in scope.items for item in self._items(each)]
        items = list({tuple(item.makes): item for item in items}.values())   # each parameter once
        makes = dict.fromkeys(entry for item in items for entry in item.makes)
        reads = [entry for item in items for entry in item.reads if entry not in makes]
        outputs = {(node.name, index): (node, index) for node, index in reads}
        arguments = {outputs[output]: name for output, name in scope.arguments.items() if output in outputs}
        block = CompositeModule(scope.kind, _identifier(scope.name), items, list(dict.fromkeys([*arguments, *reads])),
                      [entry for entry in makes if self._leaves(scope, entry)])
        block.names = list(arguments.values())
        return block

    def _leaves(self, scope: Scope, entry: Entry) -> bool:
        """Return whether something outside reads an output of a scope, in one of its calls."""
        return any(reader not in call.inside and call.image(entry) in (reader.inputs if reader else self.graph.outputs)
                   for call in scope.calls for reader in self.readers[call.image(entry)[0]])

    def _items(self, part: Scope | Node) -> list[Item]:
        """Return the step for a part of a scope, behind those for the parameters that it reads."""
        item = self._call(part) if isinstance(part, Scope) else self._step(part)
        return [*(self._parameter(entry) for entry in item.reads if entry[0].name in self.parameters), item]

    def _call(self, scope: Scope) -> Item:
        """Return the call of a block."""
        first = scope.calls[0]
        if first not in self.blocks:
            self.blocks[first] = self.block(first)
            shorten(self.blocks[first])
        block = self.blocks[first]
        expression = Expression.of("{self}(*{inputs})", len(block.inputs))
        return Item(expression, list(map(scope.image, block.inputs)), list(map(scope.image, block.results)), block)

    def _step(self, node: Node) -> Item:
        form, name = self.forms[node], _identifier(node.attrs.get("__scope__", ""))
        state = {key: node.source(index).name for key, index in form.state.items()}
        which = (form.module, repr(form.args), *state.values()) if state else node
        name = "" if re.search(r"\d$", name) else name   # the block's own count reads better than Gluon's: conv0
        module = Module(form.module, dict(form.args), name, state) if form.module else None
        reads = [entry for index, entry in enumerate(node.inputs) if index not in form.state.values()]
        return Item(form.call if form.state or form.text is None else form.text, reads,
                    [(node, index) for index in range(form.outputs)], self.modules.setdefault(which, module))

    def _parameter(self, entry: Entry) -> Item:
        """Return the step that reads a parameter of the block's own."""
        name = entry[0].name
        module = Module(BUFFER if name in self.constants else PARAMETER, {"shape": self.parameters[name]},
                        _identifier(re.sub(r"_?\d*$", "", name).split("_")[-1]), {"": name})
        return Item(Expression.of("{self}"), [], [entry], self.modules.setdefault(name, module))


def _identifier(name: str) -> str:
    """Return a name as that of an attribute. It is empty for a number, as in an ``nn.Sequential``."""
    name = re.sub(r"\W", "_", name).strip("_")
    return "" if not name or name[0].isdigit() else name


def shorten(block: CompositeModule, is_net: bool = False) -> None:
    """Make one ``nn.Sequential`` of the modules in a block that are called one after the other, if there are many."""
    if not is_net and block.is_chain():
        return
    readers = collections.Counter([*(entry for item in block.items for entry in item.reads), *block.results])
    chains = {}   # the output of its last item -> the items
    for item in block.links():
        before, = item.reads
        chain = chains.pop(before) if before in chains and readers[before] == 1 else []
        chains[item.makes[0]] = [*chain, item]
    for chain in chains.values():
        if is_net and len(chain) > 1 and chain[-1].module.kind == "nn.Linear":
            chain.pop()   # the last layer keeps a name of its own
    chains = [chain for chain in chains.values() if len(chain) >= SHORTEST_CHAIN]
    for chain in chains:
        name = "features" if is_net and len(chains) == 1 else ""
        layers = CompositeModule(SEQUENTIAL, name, chain, chain[0].reads, chain[-1].makes)
        layers.become_sequential()
        block.items[block.items.index(chain[-1])] = Item(CALL, layers.inputs, layers.results, layers)
        block.items = [item for item in block.items if item not in chain]
