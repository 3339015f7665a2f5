"""Builds blocks from scopes, and classes from equal blocks."""
from __future__ import annotations

import re

from ..graph import Entry, Graph, Node
from .blocks import CALL, IDENTITY, INPUT, PARAMETER, SEQUENTIAL, Block, Class, Item, Module, Ref, is_chain
from .registry import Form, snippets
from .scopes import Scope

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

    def block(self, scope: Scope, is_net: bool = False) -> Block:
        block = Block(scope.kind)
        inside = set(scope.nodes())
        refs, holders = {}, {}
        if is_net:
            variables = {node.name: node for node in self.graph.nodes() if node.is_variable}
            for name in self.inputs:
                self._ref((variables[name], 0), refs, block)
        self._add_arguments(block, scope, inside, refs)
        for item in scope.items:
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
        for output, name in scope.arguments.items():
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
                refs[entry] = block.add(Item("{self}", [], module, _identifier(name))), 0
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
        item = block.add(Item(text, read, inner.module, _identifier(scope.name), len(inner.results), shared))
        holders[first] = shared or item, inner
        for place, entry in enumerate(inner.results):
            refs[scope.image(entry)] = item, place

    def _add_node(self, block: Block, node: Node, refs: dict, holders: dict) -> None:
        form = self.forms[node]
        read = [self._ref(entry, refs, block) for place, entry in enumerate(node.inputs)
                if place not in form.state.values()]
        text = form.call if form.state or form.text is None else form.text
        state = {key: node.source(place).name for key, place in form.state.items()}
        module = Module(form.module, dict(form.args), state=state) if form.module else None
        name = _identifier(node.attrs.get("__scope__", ""))
        holder = (form.module, repr(form.args), *state.values())
        shared = holders.get(holder) if state else None
        item = block.add(Item(text, read, module, "" if _is_counted(name) else name, form.outputs, shared))
        holders.setdefault(holder, item)
        for place in range(form.outputs):
            refs[node, place] = item, place


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
        for key, name in item.own.state.items() if item.own else ():
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
    for item in block.items:
        if not item.in_sequence() or any(other.shared is item for other in block.items):
            continue
        before = item.refs[0]
        if before in following and read.count(before) == 1:
            chain = following.pop(before)
        else:
            chain = []
            chains.append(chain)
        chain.append(item)
        following[item, 0] = chain
    for chain in chains:
        if is_net and len(chain) > 1 and chain[-1].own and chain[-1].own.kind == "nn.Linear":
            chain.pop()   # the last layer keeps a name of its own
    chains = [chain for chain in chains if len(chain) >= SHORTEST_CHAIN]
    for chain in chains:
        _join(block, chain, "features" if is_net and len(chains) == 1 else "")


def _join(block: Block, chain: list[Item], name: str) -> None:
    """Let the last item of a chain call an ``nn.Sequential`` of all of them."""
    last = chain[-1]
    last.module = Module(SEQUENTIAL, children=[item.in_sequence() for item in chain])
    last.text, last.name, last.refs = CALL, name, chain[0].refs
    block.items = [item for item in block.items if item not in chain[:-1]]


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
    heights = dict.fromkeys(blocks[::-1], 1)   # inner ones first
    _lift(heights)
    for _ in range(max(heights.values())):
        for kind in {block.kind for block in blocks if "Sequential" not in block.kind} - nested:
            alike = [block for block in blocks if block.kind == kind]
            heights.update(dict.fromkeys(alike, max(heights[block] for block in alike)))
        _lift(heights)
    return heights


def _lift(heights: dict[Block, int]) -> None:
    """Lift each block above those in it, in place."""
    for block in heights:
        heights[block] = max([heights[block], *(1 + heights[inner] for inner in block.inner())])


def _with_optional(groups: dict[tuple, list[Block]]) -> list[list[Block]]:
    """Join the blocks that lack one module of others to the others."""
    for key in list(groups):
        for larger, blocks in list(groups.items()):
            item = _lacking(key, larger, blocks[0]) if key in groups else None
            if item:
                for block in groups.pop(key):
                    _insert_identity(block, blocks[0], item)
                    blocks.append(block)
    return list(groups.values())


def _lacking(key: tuple, larger: tuple, block: Block) -> Item | None:
    """The item without which a block has this key; None if there is none."""
    if len(larger[0]) != len(key[0]) + 1 or len(key[0]) < 2:
        return None
    for item in block.items:
        is_module = item.own and item.own.kind != PARAMETER and item.text == CALL
        is_shared = any(other.shared is item for other in block.items)
        if is_module and not is_shared and block.key(without=item) == key:
            return item
    return None


def _insert_identity(block: Block, model: Block, lacking: Item) -> None:
    """Give a block the item of a model that it lacks, as an identity."""
    block.items.insert(model.items.index(lacking), Item(CALL, [], Module(IDENTITY), is_missing=True))
    same = {INPUT: INPUT, **dict(zip(model.items, block.items))}
    for item, other in zip(block.items, model.items):
        item.refs = [(same[source], place) for source, place in other.refs]
    block.returns = [(same[source], place) for source, place in model.returns]


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
