"""Blocks: what a class or an ``nn.Sequential`` is made from, and what the instances of a class differ in.

Two blocks are equal if they compute the same with modules of the same kinds. The arguments of the modules may differ:
where they do, the class takes them as its own. A block that lacks one module of another one, such as the projection of
a shortcut, is an instance of the other one's class, too.
"""
from __future__ import annotations

import collections
import dataclasses
import keyword
import re
from collections.abc import Iterator
from typing import Any

from ..graph import Entry
from .registry import default_of

SEQUENTIAL = "nn.Sequential"
IDENTITY = "nn.Identity"
PARAMETER = "nn.Parameter"
CALL = "{self}({0})"   # of a module with one input
# How the field calls the modules of a block.
NAMES = {"nn.Conv": "conv", "nn.ConvTranspose": "deconv", "BatchNorm": "bn", "nn.Linear": "fc", "nn.MaxPool": "pool",
         "nn.AvgPool": "pool", "nn.Dropout": "dropout", "SharedDropout": "dropout", "nn.Embedding": "embedding",
         "nn.LayerNorm": "norm", "nn.GroupNorm": "norm", "nn.InstanceNorm": "norm", "nn.PReLU": "prelu",
         SEQUENTIAL: "layers", "nn.LocalResponseNorm": "norm"}
# Attributes of every nn.Module that a net may have a layer for. Others have names that no layer has.
ATTRIBUTES = ("apply", "buffers", "children", "compile", "cpu", "cuda", "double", "eval", "float", "forward", "half",
              "modules", "parameters", "to", "train", "training", "type")
Ref = tuple["Item", int]   # an output of an item


@dataclasses.dataclass(eq=False)
class Module:
    """A module that a constructor makes.

    - ``kind``: its class; of an instance of a class of the net's own empty until the class has a name.
    - ``args``: its arguments by name; those of a class of the net's own follow when the class is made.
    - ``children``: the modules of an ``nn.Sequential``.
    - ``state``: parameter or buffer -> the name of the variable.
    - ``block``: what an instance of a class of the net's own computes.
    - ``ties``: parameter -> the other module that has it already, and its name there.
    """
    kind: str = ""
    args: dict[str, Any] = dataclasses.field(default_factory=dict)
    children: list[Module] = dataclasses.field(default_factory=list)
    state: dict[str, str] = dataclasses.field(default_factory=dict)
    block: Block | None = None
    ties: dict[str, tuple[Module, str]] = dataclasses.field(default_factory=dict)

    def key(self) -> tuple:
        """What modules have in common that differ in the numbers of their arguments only."""
        numbers = (int, float, tuple, bool)
        args = tuple((name, None if isinstance(value, numbers) else value) for name, value in self.args.items())
        owner = id(self.block.owner) if self.block else self.kind
        return owner, args, tuple(child.key() for child in self.children)

    def slots(self) -> list[tuple[Module, str]]:
        """All arguments, those of the children included."""
        found = [(self, name) for name in self.args]
        for child in self.children:
            found += child.slots()
        return found

    def values(self) -> list:
        """The values of all arguments."""
        return [owner.args[name] for owner, name in self.slots()]

    def variables(self, prefix: str = "") -> Iterator[tuple[str, str]]:
        """The name in torch and the name in MXNet of each parameter and buffer in it."""
        for name, variable in self.state.items():
            yield f"{prefix}.{name}".strip("."), variable
        inner = {str(number): child for number, child in enumerate(self.children)}
        if self.block:
            inner.update({item.attribute: item.own for item in self.block.items if item.own})
        for name, module in inner.items():
            yield from module.variables(f"{prefix}.{name}")

    def blocks(self) -> Iterator[Block]:
        """The blocks of which it is an instance, or its children are."""
        if self.block:
            yield self.block
        for child in self.children:
            yield from child.blocks()


@dataclasses.dataclass(eq=False)
class Item:
    """A step of a block: a call of a module, or an expression.

    - ``text``: with ``{0}``, ``{1}``, ... for what it reads, and ``{self}`` for the module that it calls.
    - ``module``: that it calls, or that computes the same as an expression; None if there is none.
    - ``name``: what the net, or the file, calls it. ``attribute``: that holds the module in net.py.
    - ``shared``: the item that has the module already; None if this one has it.
    - ``is_tied``: whether the module has a parameter in common with another one of the block.
    - ``is_missing``: whether it is an identity in place of what other instances of a class have.
    """
    text: str
    refs: list[Ref]
    module: Module | None = None
    name: str = ""
    outputs: int = 1
    shared: Item | None = None
    is_tied: bool = False
    is_missing: bool = False
    attribute: str = ""

    @property
    def calls(self) -> bool:
        return "{self}" in self.text

    @property
    def own(self) -> Module | None:
        """The module that it calls, if no item in front of this one has it."""
        return self.module if self.calls and not self.shared else None

    def in_sequence(self) -> Module | None:
        """What an ``nn.Sequential`` holds for it; None if it cannot hold it."""
        if self.is_tied or self.shared or len(self.refs) != 1 or self.outputs != 1:
            return None
        return self.module if self.text == CALL or not self.calls else None


INPUT = Item("", [])   # its outputs are the inputs of a block


class Block:
    """What a scope computes.

    - ``inputs``: the outputs of other scopes that it reads; ``names``: what Gluon calls the first ones, if it does.
    - ``returns``: its own outputs that others read.
    - ``owner``: the class that it is an instance of.
    """

    def __init__(self, kind: str):
        self.kind = kind
        self.items: list[Item] = []
        self.inputs: list[Entry] = []
        self.names: list[str] = []
        self.results: list[Entry] = []
        self.returns: list[Ref] = []
        self.owner: Class | None = None
        self.module = Module(block=self)

    def add(self, item: Item) -> Item:
        self.items.append(item)
        return item

    def inner(self) -> Iterator[Block]:
        """The blocks of its modules."""
        for item in self.items:
            if item.own:
                yield from item.own.blocks()

    def holder(self, module: Module) -> Item:
        """The item that has a module."""
        return next(item for item in self.items if item.module is module)

    def is_complete(self) -> bool:
        """Whether it has all items of its class."""
        return not any(item.is_missing for item in self.items)

    def become_sequential(self) -> None:
        """Make its module an ``nn.Sequential``, in place."""
        self.module.kind, self.module.block = SEQUENTIAL, None
        self.module.children = [item.in_sequence() for item in self.items if not item.is_missing]

    def key(self, without: Item | None = None) -> tuple:
        """Equal for blocks of the same class. ``without``: an item to leave out."""
        items = [item for item in self.items if item is not without]
        places = {item: place for place, item in enumerate([INPUT, *items])}

        def placed(ref: Ref) -> tuple[int, int]:
            while ref[0] is without:
                ref = without.refs[0]
            return places[ref[0]], ref[1]

        keys = []
        for item in items:
            ties = item.own.ties.items() if item.own else ()
            ties = tuple((name, places[self.holder(other)], key) for name, (other, key) in ties)
            keys.append((item.text, item.own and item.own.key(), places.get(item.shared), ties,
                         tuple(map(placed, item.refs))))
        return tuple(keys), tuple(map(placed, self.returns)), len(self.inputs)


class Class:
    """A class of the net's own.

    - ``blocks``: its instances. ``template``: the one from which its source is written.
    - ``parameters``: of its constructor -> default, None for none.
    - ``expressions``: an argument of one of the template's modules -> what of the parameters it is.
    - ``optional``: item of the template -> the parameter that says whether it is there.
    - ``is_sequential``: whether it derives from ``nn.Sequential``.
    """

    def __init__(self, blocks: list[Block]):
        self.blocks = blocks
        self.template = next(block for block in blocks if block.is_complete())
        self.name = ""
        self.parameters: dict[str, Any] = {}
        self.expressions: dict[tuple[int, str], str] = {}
        self.optional: dict[Item, str] = {}
        self.is_sequential = is_chain(self.template) and self.template.kind != "Net"
        _name_modules(self.template)
        for block in blocks:
            block.owner = self
            for number, (item, of_template) in enumerate(zip(block.items, self.template.items)):
                if self.is_sequential:   # its base class calls the modules
                    item.text, item.attribute = CALL, str(number)
                else:
                    item.attribute = of_template.attribute
        self._take_arguments()

    def _take_arguments(self) -> None:
        """Find the arguments that differ between the instances, and make them parameters of the class."""
        vectors = {}   # parameter -> its value in each instance
        instances = dict(zip(self.template.items, zip(*(block.items for block in self.blocks))))
        optional = [item for item, others in instances.items() if any(other.is_missing for other in others)]
        for item in sorted(instances, key=optional.__contains__):
            for place, (module, name) in enumerate(item.own.slots() if item.own else ()):
                values = [None if other.is_missing else other.module.values()[place] for other in instances[item]]
                is_known = item in optional and name in vectors and _merge(values, vectors[name])
                if is_known or len({value for value in values if value is not None}) > 1:
                    expression = self._expression(values, vectors, name, item.attribute, module)
                    self.expressions[id(module), name] = expression
        for item in optional:
            name = (item.name or _name_of(item.module.kind)) if self.is_sequential else item.attribute
            self.optional[item] = name
            vectors[name] = [not other.is_missing for other in instances[item]]
            self.parameters[name] = False
        ordered = sorted(self.parameters, key=lambda name: self.parameters[name] is not None)
        self.parameters = {name: self.parameters[name] for name in ordered}
        for place, block in enumerate(self.blocks):
            block.module.args = {name: _filled(vectors[name])[place] for name in self.parameters}

    def _expression(self, values: list, vectors: dict, name: str, item: str, module: Module) -> str:
        """What of the parameters has these values: one of them, a multiple, or a new one."""
        for parameter, vector in vectors.items():
            if _merge(values, vector):
                return parameter
        for parameter, vector in vectors.items():
            factor = _factor(values, vector)
            if factor is not None:
                return f"{factor} * {parameter}"
            divisor = _factor(vector, values)
            if divisor is not None:
                return f"{parameter} // {divisor}"
        parameter = {"num_features": "channels"}.get(name, name)   # as most classes call it
        if parameter in vectors and parameter == "out_channels":
            parameter = "hidden_channels"
        if parameter in vectors:
            parameter = f"{_name_of(module.kind) if item[0].isdigit() else item}_{parameter}"
        while parameter in vectors:
            parameter += "_"
        vectors[parameter] = list(values)
        self.parameters[parameter] = default_of(module.kind, name) if module.block is None else None
        return parameter


def _merge(values: list, vector: list) -> bool:
    """Whether two vectors agree where both are known. If so, what only the first one knows is added to the second."""
    if any(left is not None and right is not None and (left != right or type(left) is not type(right))
           for left, right in zip(values, vector)):
        return False
    for place, value in enumerate(values):
        if vector[place] is None:
            vector[place] = value
    return True


def _factor(values: list, vector: list) -> int | None:
    """The integer of at least 2 that makes ``values`` of ``vector``; None if there is none."""
    pairs = [(left, right) for left, right in zip(values, vector) if left is not None]
    if not all(type(left) is int and type(right) is int and right > 1 and left % right == 0 for left, right in pairs):
        return None
    factors = {left // right for left, right in pairs}
    return factors.pop() if len(factors) == 1 and min(factors) > 1 else None


def _filled(vector: list) -> list:
    """A vector with its first known value where an instance does not need one."""
    known = next(value for value in vector if value is not None)
    return [known if value is None else value for value in vector]


def _name_modules(block: Block) -> None:
    """Name the attributes that hold the modules."""
    wanted = {item: item.name or _name_of(item.own.kind) for item in block.items if item.own}
    counts, taken = collections.Counter(), {*ATTRIBUTES, *keyword.kwlist}
    for item, name in wanted.items():
        if list(wanted.values()).count(name) > 1:
            counts[name] += 1
            name = f"{name}{counts[name]}"
        while name in taken:
            name += "_"
        item.attribute = name
        taken.add(name)
    for item in block.items:
        if item.shared:
            item.attribute = item.shared.attribute


def _name_of(kind: str) -> str:
    short = re.sub(r"\dd$", "", kind)
    return NAMES.get(short) or short.split(".")[-1].lower() or "block"


def is_chain(block: Block) -> bool:
    """Whether the items are modules that are called one after the other."""
    items = [INPUT, *block.items]
    if len(block.inputs) != 1 or block.returns != [(items[-1], 0)]:
        return False
    return all(item.in_sequence() and item.refs == [(before, 0)] for before, item in zip(items, block.items))
