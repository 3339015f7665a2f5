"""What a rule is, and what it is a function of."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Union

from ..graph import Entry, Node
from ..values import NodeValues

Shape = tuple[int, ...]
Rule = Callable[["Call"], Union[Shape, list[Shape]]]
RULES: dict[str, Rule] = {}   # operator of MXNet -> rule; the contracts of gluonops's operators have theirs
OPEN = 0   # a size that follows from what else a reader reads, as the batch of a recurrent layer's first states


class Misfit(Exception):
    """Why an operator does not take its inputs."""


class Call(NodeValues):
    """A node with the shapes of its inputs, as far as they are known."""

    def __init__(self, node: Node, found: dict[Entry, Shape | None]):
        super().__init__(node, [found.get(entry) for entry in node.inputs])
        self._found = found

    @property
    def data(self) -> Shape:
        """The shape of the first input."""
        return self.shapes[0]

    def axis(self, name: str = "axis", default: int = -1) -> int:
        axis, rank = self.value(name, default), len(self.data)
        self.check(-rank <= axis < rank, 0, f"an axis {axis}")
        return axis % rank

    def expect(self, position: int, shape: Shape) -> None:
        """Check the shape of an input. What is not known of it follows."""
        if position >= len(self.shapes):
            return
        known = self.shapes[position]
        if known is not None:
            self.check(len(known) == len(shape) and all(
                old == new or OPEN in (old, new) for old, new in zip(known, shape)), position, shape)
            shape = tuple(old or new for old, new in zip(known, shape))
        self.shapes[position] = self._found[self.node.inputs[position]] = shape

    def check(self, fits: bool, position: int, expected: object) -> None:
        """Raise a Misfit unless an input fits."""
        if not fits:
            source = self.node.source(position)
            raise Misfit(f"{self.node.name!r} ({self.node.op}) reads {source.name!r} of shape {self.shapes[position]}; "
                         f"expected {expected}")

    def alike(self, positions: Iterable[int] | None = None) -> Shape:
        """The shape that inputs have in common, by default all."""
        positions = range(len(self.shapes)) if positions is None else positions
        for one in [*positions, *positions]:   # a size that is open may follow from a later input
            for other in positions:
                if self.shapes[one] is not None:
                    self.expect(other, self.shapes[one])
        return self.data


def shape_of(*names: str) -> Callable[[Rule], Rule]:
    """Enter the decorated rule for these operators."""
    def enter(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule
    return enter
