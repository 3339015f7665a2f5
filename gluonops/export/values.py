"""The attributes of a node, which are text, as values."""
from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from .graph import Node


class NodeValues:
    """A node with its attributes as values. ``shapes``: those of its inputs."""

    def __init__(self, node: Node, shapes: list):
        self.node = node
        self.shapes = shapes

    @property
    def attributes(self) -> Mapping[str, Any]:
        """All attributes with MXNet's types and defaults, by name. An OpError if MXNet does not take one."""
        from .operators.attributes import attributes_of  # here: the families of operators import this module

        return attributes_of(self.node)

    @property
    def operands(self) -> list:
        """What a function of a family of operators takes as inputs: here their shapes."""
        return self.shapes

    def text(self, name: str, default: str | None = None) -> str | None:
        """An attribute as a string."""
        return self.node.attrs.get(name, default)

    def value(self, name: str, default: Any = None) -> Any:
        """An attribute as a number, a tuple or None. A ValueError if it is something else."""
        text = self.node.attrs.get(name)
        if text is None:
            return default
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return float(text)   # nan, inf
        if value is not None and not isinstance(value, (int, float, tuple, list)):
            raise ValueError(f"{text} is no number")
        return value

    def ints(self, name: str, default: Any) -> Any:
        """An attribute as a tuple of numbers; ``default`` if it is absent or empty."""
        value = self.value(name)
        if value is None or value == () or value == []:
            return default
        return tuple(value) if isinstance(value, (tuple, list)) else (value,)

    def flag(self, name: str, default: bool = False) -> bool:
        """An attribute as a boolean."""
        return self.node.flag(name, default)

    @property
    def has_channels_last(self) -> bool:
        """Whether the layout of a convolution or a pooling has the channels behind the pixels."""
        return str(self.text("layout")).endswith("C")

    def axis(self, name: str = "axis", default: int = -1) -> int:
        """An attribute as an axis of the first input, from 0."""
        return self.from_front(self.value(name, default))

    def from_front(self, axis: int) -> int:
        """An axis of the first input, from 0."""
        return axis % len(self.shapes[0])

    def window(self) -> tuple[tuple[int, ...], ...]:
        """Kernel, strides, padding and dilations of a convolution or a pooling, along the axes of the pixels."""
        attributes = self.attributes
        kernel = attributes["kernel"]
        ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
        return kernel, attributes["stride"] or ones, attributes["pad"] or zeros, attributes.get("dilate") or ones
