"""Builds blocks from scopes, and classes from equal blocks."""
from __future__ import annotations

import re

from ..graph import Entry, Graph, Node
from .blocks import IDENTITY, INPUT, PARAMETER, SEQUENTIAL, Block, Class, Item, Module, Ref, as_module, is_chain
from .registry import Form, snippets
from .scopes import Scope, in_order

FEWEST = 3           # equal chains of modules that become a class; fewer are written where they are
SHORTEST_CHAIN = 4   # modules that are called one after the other in a block and become an nn.Sequential


class Builder:
    """Makes blocks from scopes, and classes from blocks."""

    def __init__(self, graph: Graph, forms: dict[Node, Form], parameters: dict[str, tuple[int, ...]],
                 frozen: set[str], inputs: list[str]):
        self.graph, self.forms, self.frozen = graph, forms, frozen
        self.inputs = inputs   # names, in the order of the net's arguments
        self.parameters = parameters   # name -> shape, of states as well
        self.readers = {}
        for node in graph.nodes():
            for entry in node.inputs:
                self.readers.setdefault(entry, []).append(node)

    def net(self, root: Scope) -> tuple[Block, list[Class]]:
        """The block of the whole net, and all classes, inner ones first."""
        block = self.block(root, is_net=True)
        return block, classes_of(block)

    def block(self, scope: Scope, is_net: bool = False) -> Block:
        block = Block(scope.kind)
        inside = set(scope.nodes())
        refs, holders = {}, {}
        if is_net:
            variables = {node.name: node for node in self.graph.nodes() if node.is_variable}
            for name in self.inputs:
                self._ref((variables[name], 0), refs, block)
        self._add_arguments(block, scope, inside, refs)
        for item in in_order(scope)[0]:
            if isinstance(item, Scope):
                self._add_scope(block, item, refs, holders)
            else:
                self._add_node(block, item, refs, holders)
        if is_net:
            block.results = list(self.graph.heads)
        else:
            block.results = [entry for entry in refs if entry[0] in inside and self._leaves(scope, entry)]
        block.returns = [refs[entry] for entry in block.results]
        tie(block)
        shorten(block, is_net)
        return block

    def _leaves(self, scope: Scope, entry: Entry) -> bool:
        """Whether something outside reads an output of a scope, in one of its calls."""
        for call in scope.calls:
            inside, image = set(call.nodes()), call.image(entry)
            if image in self.graph.heads or any(node not in inside for node in self.readers.get(image, ())):
                return True
        return False

    def _add_arguments(self, block: Block, scope: Scope, inside: set[Node], refs: dict) -> None:
        """Add what a block reads in the order of its arguments in Gluon, with their names."""
        read = {(source.name, index): (source, index) for node in inside for source, index in node.inputs
                if source not in inside}
        for output, name in (scope.call.arguments if scope.call else {}).items():
            if output in read:
                self._ref(read[output], refs, block)
                block.names.append(name)

    def _ref(self, entry: Entry, refs: dict, block: Block) -> Ref:
        """Where an item finds what it reads."""
        if entry not in refs:
            node = entry[0]
            if node.is_variable and node.name in self.parameters:
                args = {"shape": self.parameters[node.name], "requires_grad": node.name not in self.frozen}
                module = Module(PARAMETER, args, state={"": node.name})
                name = re.sub(r"_?\d*$", "", node.name).split("_")[-1]
                block.items.append(Item("{self}", [], module, _identifier(name)))
                refs[entry] = len(block.items) - 1, 0
            else:
                block.inputs.append(entry)
                refs[entry] = INPUT, len(block.inputs) - 1
        return refs[entry]

    def _add_scope(self, block: Block, scope: Scope, refs: dict, holders: dict) -> None:
        """Add the call of a block. Further calls of it share its module."""
        first = scope.calls[0]
        shared, inner = holders.get(first) or (None, self.block(first))
        read = [self._ref(scope.image(entry), refs, block) for entry in inner.inputs]
        text = "{self}(" + ", ".join(f"{{{place}}}" for place in range(len(read))) + ")"
        item = Item(text, read, inner.module, _identifier(scope.name), len(inner.results), shared)
        holders[first] = (len(block.items) if shared is None else shared), inner
        block.items.append(item)
        for place, entry in enumerate(inner.results):
            refs[scope.image(entry)] = len(block.items) - 1, place

    def _add_node(self, block: Block, node: Node, refs: dict, holders: dict) -> None:
        form = self.forms[node]
        positions = range(len(node.inputs)) if form.data is None else form.data
        read = [self._ref(node.inputs[position], refs, block) for position in positions]
        name = _identifier(node.attrs.get("__scope__", ""))
        if form.module is None or (form.text is not None and not form.state):
            item = Item(form.text, read, outputs=form.outputs)
            if form.module is not None:   # a chain needs it
                item.as_module = Module(form.module, dict(form.args))
        else:
            state = {key: node.source(position).name for key, position in form.state.items()}
            holder = (form.module, repr(form.args), *state.values())
            shared = holders.get(holder) if state else None
            module = Module(form.module, dict(form.args), state=state)
            item = Item(form.call, read, module, "" if _is_counted(name) else name, form.outputs, shared)
            holders.setdefault(holder, len(block.items))
        block.items.append(item)
        for place in range(form.outputs):
            refs[node, place] = len(block.items) - 1, place


def _identifier(name: str) -> str:
    """A name as an attribute; empty if it is a number, as in an ``nn.Sequential``."""
    name = re.sub(r"\W", "_", name).strip("_")
    return "" if not name or name[0].isdigit() else name


def _is_counted(name: str) -> bool:
    """Whether a name is Gluon's count of a layer, such as ``conv0``: the block's own count reads better."""
    return bool(re.search(r"\d$", name))


def tie(block: Block) -> None:
    """Let a module that has a parameter of one in front of it, such as an embedding's weight, take it from there."""
    owners = {}
    for item in block.items:
        if item.module is None or item.shared is not None:
            continue
        for key, name in item.module.state.items():
            owner, place = owners.setdefault(name, (item, key))
            if (owner, place) != (item, key):
                item.module.ties[key] = owner.module, place
                item.is_tied = owner.is_tied = True


def shorten(block: Block, is_net: bool) -> None:
    """Make one ``nn.Sequential`` of the modules in a block that are called one after the other, if there are many."""
    if not is_net and is_chain(block):
        return
    read = [ref for item in block.items for ref in item.refs] + block.returns
    chains, following = [], {}
    for number, item in enumerate(block.items):
        is_single = as_module(item) is not None and not any(other.shared == number for other in block.items)
        before = item.refs[0] if is_single else None
        if is_single and before in following and read.count(before) == 1:
            chain = following.pop(before)
        elif is_single:
            chain = []
            chains.append(chain)
        else:
            continue
        chain.append(number)
        following[number, 0] = chain
    for chain in chains:
        if is_net and len(chain) > 1 and block.items[chain[-1]].module is not None:
            if block.items[chain[-1]].module.kind == "nn.Linear":
                chain.pop()   # the last layer keeps a name of its own
    _join(block, [chain for chain in chains if len(chain) >= SHORTEST_CHAIN], is_net)


def _join(block: Block, chains: list[list[int]], is_net: bool) -> None:
    """Replace each chain of items by an item for an ``nn.Sequential``."""
    joined = {chain[-1]: chain for chain in chains}
    gone = {number for chain in chains for number in chain[:-1]}
    places, items = {INPUT: INPUT}, []
    for number, item in enumerate(block.items):
        if number in gone:
            continue
        refs = item.refs
        if number in joined:
            chain = [block.items[place] for place in joined[number]]
            module = Module(SEQUENTIAL, children=[as_module(each) for each in chain])
            refs = chain[0].refs
            item = Item("{self}({0})", refs, module, "features" if is_net and len(chains) == 1 else "")
        item.refs = [(places[place], index) for place, index in refs]
        if item.shared is not None:
            item.shared = places[item.shared]
        places[number] = len(items)
        items.append(item)
    block.items = items
    block.returns = [(places[place], index) for place, index in block.returns]


def classes_of(net: Block) -> list[Class]:
    """The classes of all blocks, inner ones first. Each instance gets the arguments of its constructor."""
    waiting, blocks = [net], []
    while waiting:
        block = waiting.pop()
        blocks.append(block)
        waiting += block.inner()
    heights = _heights(blocks)
    classes = []
    for height in sorted(set(heights.values())):
        groups = {}
        for block in blocks[::-1]:
            if heights[block] == height:
                groups.setdefault(block.key(), []).append(block)
        for group in _with_optional(groups):
            is_plain = len(group) < FEWEST or "Sequential" in group[0].kind
            if is_plain and net not in group and is_chain(group[0]):
                for block in group:
                    block.become_sequential()
            else:
                classes.append(Class(group))
    taken = {"Net", *snippets()}
    for owner in classes:
        owner.name = "Net" if net in owner.blocks else _class_name(owner.template.kind, taken)
        for block in owner.blocks:
            block.module.kind = owner.name
    return classes


def _heights(blocks: list[Block]) -> dict[Block, int]:
    """Block -> a number above those of the blocks in it, and the same for blocks of a kind where that is possible."""
    nested = {block.kind for block in blocks if any(inner.kind == block.kind for inner in block.inner())}
    heights = {block: block.height() for block in blocks}
    for _ in range(max(heights.values())):
        for block in blocks[::-1]:
            heights[block] = max([heights[block], *(1 + heights[inner] for inner in block.inner())])
        for kind in {block.kind for block in blocks if "Sequential" not in block.kind} - nested:
            alike = [block for block in blocks if block.kind == kind]
            heights.update(dict.fromkeys(alike, max(heights[block] for block in alike)))
    for block in blocks[::-1]:
        heights[block] = max([heights[block], *(1 + heights[inner] for inner in block.inner())])
    return heights


def _with_optional(groups: dict[tuple, list[Block]]) -> list[list[Block]]:
    """Join the blocks that lack one module of others to the others."""
    for key in list(groups):
        for larger, blocks in list(groups.items()):
            number = _lacking(key, larger, blocks[0]) if key in groups else None
            if number is not None:
                for block in groups.pop(key):
                    _insert_identity(block, blocks[0], number)
                    blocks.append(block)
    return list(groups.values())


def _lacking(key: tuple, larger: tuple, block: Block) -> int | None:
    """The number of the item without which a block has this key; None if there is none, or one is missing already."""
    if len(larger[0]) != len(key[0]) + 1 or len(key[0]) < 2 or block.lacking:
        return None
    for number, item in enumerate(block.items):
        is_module = item.module is not None and item.shared is None and item.text == "{self}({0})"
        is_shared = any(other.shared == number for other in block.items)
        if is_module and not is_shared and item.module.kind != PARAMETER and block.key(number) == key:
            return number
    return None


def _insert_identity(block: Block, model: Block, number: int) -> None:
    """Give a block the item that it lacks, as an identity."""
    def moved(place: int) -> int:
        return place + 1 if place >= number else place

    for item in block.items:
        item.refs = [(moved(place), index) for place, index in item.refs]
        if item.shared is not None:
            item.shared = moved(item.shared)
    items = iter(block.items)
    block.items = [Item("{self}({0})", [], Module(IDENTITY)) if place == number else next(items)
                   for place in range(len(model.items))]
    for item, other in zip(block.items, model.items):
        item.refs = list(other.refs)
    block.returns = list(model.returns)
    block.lacking = {number, *map(moved, block.lacking)}


def _class_name(kind: str, taken: set[str]) -> str:
    """A name that no other class has."""
    kind = re.sub(r"\W|^_+|^Hybrid(?!Seq)", "", kind)
    kind = "Block" if not kind.isidentifier() or "Sequential" in kind else kind[0].upper() + kind[1:]
    name, number = kind, 1
    while name in taken:
        number += 1
        name = f"{kind}{number}"
    taken.add(name)
    return name
