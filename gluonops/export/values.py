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

    def recurrent_parameters(self, width: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the matrices and biases in the vector of an RNN, in their order. ``width``: of its data."""
        size, ends = self.value("state_size"), "lr" if self.flag("bidirectional") else "l"
        rows = {"lstm": 4, "gru": 3}.get(self.text("mode"), 1) * size
        cells = [f"{end}{layer}" for layer in range(self.value("num_layers")) for end in ends]
        matrices = {}
        for i, cell in enumerate(cells):
            matrices[f"{cell}_i2h_weight"] = rows, width if i < len(ends) else len(ends) * size
            matrices[f"{cell}_h2h_weight"] = rows, size
        return {**matrices, **{f"{cell}_{part}_bias": (rows,) for cell in cells for part in ("i2h", "h2h")}}

    def squeezed_axes(self) -> tuple[int, ...]:
        """The axes that a squeeze removes: the named ones, or all of one element."""
        named = self.value("axis")
        if named is None:
            return tuple(axis for axis, size in enumerate(self.shapes[0]) if size == 1)
        return tuple(named) if isinstance(named, (tuple, list)) else (named,)

    def replaced_axes(self) -> list[tuple[int, int]]:
        """The axes of both inputs of a reshape_like, first and behind the last: one range replaces the other."""
        ranges = []
        for side, shape in zip(("lhs", "rhs"), self.shapes):
            begin, end = self.value(f"{side}_begin") or 0, self.value(f"{side}_end")
            end = len(shape) if end is None else end
            ranges.append((begin % max(len(shape), 1), end if end >= 0 else end + len(shape)))
        return ranges

    def matched_axes(self) -> dict[int, int]:
        """Axes of the first input -> those of the second one whose sizes they get, as in a slice_like."""
        ranks = [len(shape) for shape in self.shapes]
        if self.node.op == "Crop":
            return {2: 2, 3: 3}
        if self.node.op == "slice_like":
            return {axis % ranks[0]: axis % ranks[0] for axis in self.ints("axes", range(ranks[0]))}
        left = self.ints("lhs_axes", ())   # MXNet reads rhs_axes beside them only
        axes = zip(left, self.ints("rhs_axes", range(ranks[1]))) if left else ((axis, axis) for axis in range(ranks[0]))
        return {axis % ranks[0]: other for axis, other in axes}

    def bounds(self) -> dict[int, tuple[int | None, ...]]:
        """A slice's axes, which may count from the end -> begin, end and step there, as in Python's slices."""
        if self.node.op == "slice_axis":
            return {self.value("axis"): (self.value("begin") or None, self.value("end"), None)}
        begins = self.ints("begin", ())
        return dict(enumerate(zip(begins, self.ints("end", ()), self.ints("step", (None,) * len(begins)))))

    def split_begins(self, length: int) -> list[int]:
        """Where the parts of a split_v2 begin, of an axis of some length."""
        sections = self.value("sections", 0)
        return [part * length // sections for part in range(sections)] or list(self.ints("indices", ()))

    def reorg(self) -> tuple[int, str, bool]:
        """What makes channels of pixels: the size of the blocks, the mode, and whether it is the inverse."""
        if self.node.op in ("space_to_depth", "depth_to_space"):
            return self.value("block_size"), "DCR", self.node.op == "depth_to_space"
        return self.value("stride"), self.text("mode", "darknet"), self.flag("reverse")

    def ranking(self) -> tuple[str, bool, int]:
        """What a sort or a topk returns, whether the least comes first, and how many elements, 0 for all."""
        is_topk = self.node.op == "topk"
        kind = {"argsort": "indices", "sort": "value"}.get(self.node.op) or self.text("ret_typ", "indices")
        return kind, self.flag("is_ascend", not is_topk), int(self.value("k", 1)) if is_topk else 0
