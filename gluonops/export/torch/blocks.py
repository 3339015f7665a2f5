"""Blocks: the steps of which a class or an ``nn.Sequential`` is made, and the modules that the steps call."""
from __future__ import annotations

import collections
import dataclasses
import itertools
import re
from collections.abc import Iterator
from typing import Any

from ..graph import Entry
from ..operators.forms import default_of
from .expressions import Expression

SEQUENTIAL = "nn.Sequential"
CONV_BLOCK = "ConvBlock"   # a convolution and the layers behind it
IDENTITY = "nn.Identity"   # stands for a module that an instance of a class does not have
PARAMETER, BUFFER = "nn.Parameter", "torch.empty"   # stand for tensors that a class holds
CALL = Expression.of("{self}({0})")   # It calls a module with one input.
# How the field calls the modules of a block.
NAMES = {"nn.Conv": "conv", "nn.ConvTranspose": "deconv", "BatchNorm": "bn", "nn.Linear": "fc", "nn.MaxPool": "pool",
         "nn.AvgPool": "pool", "nn.Dropout": "dropout", "nn.Embedding": "embedding",
         "nn.LayerNorm": "norm", "nn.GroupNorm": "norm", "nn.InstanceNorm": "norm", "nn.PReLU": "prelu",
         SEQUENTIAL: "layers", "nn.LocalResponseNorm": "norm", "Convolution": "conv"}


@dataclasses.dataclass(eq=False)
class Module:
    """A module that a constructor makes.

    - ``kind``: its class.
    - ``args``: the arguments of the constructor by name.
    - ``name``: what the net, or the file, calls it. ``attribute``: that holds it in net.py.
    - ``state``: parameter or buffer -> the name of the variable.
    """
    kind: str
    args: dict[str, Any] = dataclasses.field(default_factory=dict)
    name: str = ""
    state: dict[str, str] = dataclasses.field(default_factory=dict)
    attribute: str = ""

    @property
    def usual_name(self) -> str:
        """What the field calls it."""
        kind = re.sub(r"\dd$", "", self.kind)
        return NAMES.get(kind) or kind.split(".")[-1].lower()

    def key(self) -> tuple:
        """Return what modules have in common that differ in the numbers of their arguments only."""
        numbers = (int, float, tuple, bool)
        return self.kind, *((name, None if isinstance(value, numbers) else value) for name, value in self.args.items())

    def default(self, name: str) -> Any:
        """Return the default of an argument, or None if it has none."""
        return default_of(self.kind, name)

    def slots(self) -> list[tuple[Module, str]]:
        """Return the modules and the names of the arguments that its constructor call says."""
        return [(self, name) for name in self.args]

    def variables(self, prefix: str = "") -> Iterator[tuple[str, str]]:
        """Yield the name in torch and the name in MXNet of each parameter and buffer in it."""
        for name, variable in self.state.items():
            yield f"{prefix}{name}".strip("."), variable


@dataclasses.dataclass(eq=False)
class Item:
    """A step of a block: a call of a module, or an expression.

    - ``expression``: with the places 0, 1, ... for what it reads, and ``self`` for the module that it calls.
    - ``reads``, ``makes``: outputs of the graph.
    - ``module``: that it calls, or that computes the same as an expression; None if there is none.
    """
    expression: Expression
    reads: list[Entry]
    makes: list[Entry]
    module: Module | None = None

    @property
    def calls(self) -> bool:
        return self.expression.calls_module


class CompositeModule(Module):
    """An instance of a class of the net's own, or an ``nn.Sequential``.

    - ``kind``: what Gluon calls the class, until the class has a name.
    - ``inputs``: the outputs of other blocks that it reads; ``names``: what Gluon calls the first ones, if it does.
    - ``results``: its own outputs that others read.
    - ``owner``: its ``classes.Class``; None for an ``nn.Sequential``.
    """

    def __init__(self, kind: str, name: str, items: list[Item], inputs: list[Entry], results: list[Entry]):
        super().__init__(kind, name=name)
        self.items, self.inputs, self.results = items, inputs, results
        self.names: list[str] = []
        self.owner: Any = None

    @property
    def usual_name(self) -> str:
        words = re.findall("[A-Z]+(?![a-z])|[A-Z][a-z]+", self.kind)
        is_short = len(words) < 3 and "".join(words) == self.kind
        return NAMES.get(self.kind, "_".join(words).lower() if is_short else "block")

    @property
    def children(self) -> list[Module]:
        """The modules that it calls, in order, each of them once."""
        return list(dict.fromkeys(item.module for item in self.items if item.calls))

    def blocks(self) -> Iterator[CompositeModule]:
        """Yield the blocks in it in any depth, inner ones first, and itself."""
        for child in self.children:
            if isinstance(child, CompositeModule):
                yield from child.blocks()
        yield self

    def key(self) -> tuple:
        return (id(self.owner),) if self.owner else (self.kind, *(child.key() for child in self.children))

    def default(self, name: str) -> Any:
        return self.owner.parameters[name]

    def slots(self) -> list[tuple[Module, str]]:
        return super().slots() if self.owner else [slot for child in self.children for slot in child.slots()]

    def variables(self, prefix: str = "") -> Iterator[tuple[str, str]]:
        for child in self.children:
            yield from child.variables(f"{prefix}{child.attribute}.")

    def structure(self, without: Item | None = None) -> tuple:
        """Return what blocks of one class have in common. ``without`` is an item to leave out."""
        count, holders, steps = itertools.count(), {}, []
        numbers = dict(zip(self.inputs, count))
        for item in self.items:
            if item is without:
                numbers[item.makes[0]] = numbers[item.reads[0]]
                continue
            module = item.module if item.calls else None
            # A step in front of this one may hold the module, or one of its parameters, as well.
            parts = [module, *module.state.values()] if module else []
            held = [holders.setdefault(part, (len(steps), index)) for index, part in enumerate(parts)]
            steps.append((item.expression.outline, module and module.key(),
                          tuple(numbers[entry] for entry in item.reads),
                          tuple((index, holder) for index, holder in enumerate(held) if holder[0] < len(steps))))
            numbers.update(zip(item.makes, count))
        return tuple(steps), tuple(numbers[entry] for entry in self.results), len(self.inputs)

    def links(self) -> list[Item]:
        """Return the items that an ``nn.Sequential`` can hold."""
        uses = collections.Counter(item.module for item in self.items)
        owners = collections.Counter(name for module in self.children for name in module.state.values())
        return [item for item in self.items
                if item.module and uses[item.module] == len(item.reads) == len(item.makes) == 1
                and (item.expression == CALL or not item.calls)
                and all(owners[name] == 1 for name in item.module.state.values())]

    def is_chain(self) -> bool:
        """Return whether the items are modules that are called one after the other."""
        steps = [self.inputs, *(item.makes for item in self.items)]
        return self.links() == self.items and [*(item.reads for item in self.items), self.results] == steps

    def become_sequential(self) -> None:
        """Make it an ``nn.Sequential``, or an instance of a class that derives from it, in place."""
        for number, item in enumerate(self.items):
            item.expression, item.module.attribute = CALL, str(number)
