"""The attributes of a node, which are text, as values."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .graph import Node


class NodeValues:
    """A node with its attributes as values. ``shapes`` are those of its inputs."""

    def __init__(self, node: Node, shapes: list):
        self.node = node
        self.shapes = shapes

    @property
    def attributes(self) -> Mapping[str, Any]:
        """All attributes with MXNet's types and defaults, by name. An OpError is raised if MXNet does not take one."""
        from .operators.node_attributes import attributes_of  # here: the families of operators import this module

        return attributes_of(self.node)

    @property
    def operands(self) -> list:
        """What a function of a family of operators takes as inputs: here their shapes."""
        return self.shapes

    @property
    def has_channels_last(self) -> bool:
        """Whether the layout of a convolution or a pooling has the channels behind the pixels."""
        return str(self.attributes.get("layout")).endswith("C")

    def from_front(self, axis: int) -> int:
        """An axis of the first input, from 0."""
        return axis % len(self.shapes[0])

    def window(self) -> tuple[tuple[int, ...], ...]:
        """Kernel, strides, padding and dilations of a convolution or a pooling, along the axes of the pixels."""
        attributes = self.attributes
        kernel = attributes["kernel"]
        ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
        return kernel, attributes["stride"] or ones, attributes["pad"] or zeros, attributes.get("dilate") or ones
