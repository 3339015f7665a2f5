"""Blocks: what a class or an ``nn.Sequential`` is made from, and what the instances of a class differ in.

Two blocks are equal if they compute the same with modules of the same kinds. The arguments of the modules may differ:
where they do, the class takes them as its own. A block that lacks one module of another one, such as the projection of
a shortcut, is an instance of the other one's class, too.
"""
from __future__ import annotations

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
# How the field calls the modules of a block.
NAMES = {"nn.Conv": "conv", "nn.ConvTranspose": "deconv", "BatchNorm": "bn", "nn.Linear": "fc", "nn.MaxPool": "pool",
         "nn.AvgPool": "pool", "nn.Dropout": "dropout", "SharedDropout": "dropout", "nn.Embedding": "embedding",
         "nn.LayerNorm": "norm", "nn.GroupNorm": "norm", "nn.InstanceNorm": "norm", "nn.PReLU": "prelu",
         SEQUENTIAL: "layers", "nn.LocalResponseNorm": "norm"}
# Attributes of every nn.Module that a net may have a layer for. Others have names that no layer has.
ATTRIBUTES = ("apply", "buffers", "children", "compile", "cpu", "cuda", "double", "eval", "float", "forward", "half",
              "modules", "parameters", "to", "train", "training", "type")
Ref = tuple[int, int]   # an output of an item; the item INPUT is the block's inputs
INPUT = -1


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

    def blocks(self) -> Iterator[Block]:
        """The blocks of which it is an instance, or its children are."""
        if self.block:
            yield self.block
        for child in self.children:
            yield from child.blocks()


@dataclasses.dataclass(eq=False)
class Item:
    """A step of a block: a call of a module, or an expression.

    - ``text``: with ``{0}``, ``{1}``, ... for what it reads, and ``{self}`` for the module.
    - ``module``: that it calls; None for an expression.
    - ``name``: what the net, or the file, calls it.
    - ``shared``: the number of the item that has the module already; None if this one has it.
    - ``as_module``: the module that an ``nn.Sequential`` holds for an expression.
    - ``is_tied``: whether the module has a parameter in common with another one of the block.
    """
    text: str
    refs: list[Ref]
    module: Module | None = None
    name: str = ""
    outputs: int = 1
    shared: int | None = None
    as_module: Module | None = None
    is_tied: bool = False


class Block:
    """What a scope computes.

    - ``inputs``: the outputs of other scopes that it reads; ``names``: what Gluon calls the first ones, if it does.
    - ``returns``: its own outputs that others read.
    - ``owner``: the class that it is an instance of.
    - ``lacking``: the numbers of the items that this instance replaces by an identity.
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
        self.lacking: set[int] = set()

    def inner(self) -> Iterator[Block]:
        """The blocks of its modules."""
        for item in self.items:
            if item.module is not None and item.shared is None:
                yield from item.module.blocks()

    def holder(self, module: Module) -> int:
        """The number of the item that has a module."""
        return next(number for number, item in enumerate(self.items) if item.module is module)

    def height(self) -> int:
        return 1 + max((block.height() for block in self.inner()), default=0)

    def become_sequential(self) -> None:
        """Make its module an ``nn.Sequential``, in place."""
        self.module.kind, self.module.block = SEQUENTIAL, None
        self.module.children = [as_module(item) for number, item in enumerate(self.items) if number not in self.lacking]

    def key(self, without: int | None = None) -> tuple:
        """Equal for blocks of the same class. ``without``: the number of an item to leave out."""
        places, keys = {INPUT: INPUT}, []

        def placed(ref: Ref) -> Ref:
            while ref[0] == without:
                ref = self.items[without].refs[0]
            return places[ref[0]], ref[1]

        for number, item in enumerate(self.items):
            if number == without:
                continue
            module = item.module.key() if item.module and item.shared is None else None
            shared = None if item.shared is None else places[item.shared]
            ties = item.module.ties.items() if module else ()
            ties = tuple((name, self.holder(other), key) for name, (other, key) in ties)
            keys.append((item.text, module, shared, ties, tuple(map(placed, item.refs))))
            places[number] = len(places) - 1
        return tuple(keys), tuple(map(placed, self.returns)), len(self.inputs)

    def slots(self) -> list[list[tuple[Module, str]]]:
        """For each item the arguments of its module."""
        return [item.module.slots() if item.module and item.shared is None else [] for item in self.items]


class Class:
    """A class of the net's own.

    - ``blocks``: its instances. ``template``: the one from which its source is written.
    - ``parameters``: of its constructor -> default, None for none.
    - ``expressions``: an argument of one of the template's modules -> what of the parameters it is.
    - ``optional``: item -> the parameter that says whether it is there.
    - ``is_sequential``: whether it derives from ``nn.Sequential``.
    """

    def __init__(self, blocks: list[Block]):
        self.blocks = blocks
        self.template = next((block for block in blocks if not block.lacking), blocks[0])
        self.name = ""
        self.parameters: dict[str, Any] = {}
        self.expressions: dict[tuple[int, str], str] = {}
        self.optional: dict[int, str] = {}
        self.is_sequential = is_chain(self.template) and self.template.kind != "Net"
        self.names = _names(self.template)
        if self.is_sequential:   # its base class calls the modules
            for block in blocks:
                for item in block.items:
                    item.module = as_module(item)
            self.names = {number: str(number) for number in range(len(self.template.items))}
        for block in blocks:
            block.owner = self
        self._take_arguments()

    def _take_arguments(self) -> None:
        """Find the arguments that differ between the instances, and make them parameters of the class."""
        vectors = {}   # parameter -> its value in each instance
        lacking = sorted({number for block in self.blocks for number in block.lacking})
        slots = [block.slots() for block in self.blocks]
        for number in [number for number in range(len(self.template.items)) if number not in lacking] + lacking:
            for place, (module, name) in enumerate(self.template.slots()[number]):
                values = [slot[number][place][0].args[name] if number not in block.lacking else None
                          for block, slot in zip(self.blocks, slots)]
                is_known = number in lacking and name in vectors and _merge(values, vectors[name])
                if is_known or len({value for value in values if value is not None}) > 1:
                    expression = self._expression(values, vectors, name, self.names[number], module)
                    self.expressions[id(module), name] = expression
        for number in lacking:
            item = self.template.items[number]
            name = (item.name or _name_of(item.module.kind)) if self.is_sequential else self.names[number]
            self.optional[number] = name
            vectors[name] = [number not in block.lacking for block in self.blocks]
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


def _names(block: Block) -> dict[int, str]:
    """Item -> the attribute that holds its module."""
    wanted = {}
    for number, item in enumerate(block.items):
        if item.module is not None and item.shared is None:
            wanted[number] = item.name or _name_of(item.module.kind)
    names, counts = {}, {}
    for number, name in wanted.items():
        if list(wanted.values()).count(name) > 1:
            counts[name] = counts.get(name, 0) + 1
            name = f"{name}{counts[name]}"
        while name in names.values() or name in ATTRIBUTES or keyword.iskeyword(name):
            name += "_"
        names[number] = name
    for number, item in enumerate(block.items):
        if item.shared is not None:
            names[number] = names[item.shared]
    return names


def _name_of(kind: str) -> str:
    short = re.sub(r"\dd$", "", kind)
    return NAMES.get(short) or short.split(".")[-1].lower() or "block"


def as_module(item: Item) -> Module | None:
    """What an ``nn.Sequential`` holds for an item; None if it cannot hold it."""
    if item.is_tied or item.shared is not None or len(item.refs) != 1 or item.outputs != 1:
        return None
    if item.module is not None:
        return item.module if item.text == "{self}({0})" else None
    return item.as_module


def is_chain(block: Block) -> bool:
    """Whether the items are modules that are called one after the other."""
    if len(block.inputs) != 1 or block.returns != [(len(block.items) - 1, 0)]:
        return False
    return all(as_module(item) is not None and item.refs == [(number - 1, 0)]
               for number, item in enumerate(block.items))
