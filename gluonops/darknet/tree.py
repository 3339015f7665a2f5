"""Trees of classes: YOLO9000's WordTree.

Each class of a tree but the roots has a parent, and classes with the same parent are a group. A network returns, for
each class, its probability under the condition that its parent is right: a softmax over each group. The probability of
a class itself is the product of these numbers on the way from the root to the class. For example, if "animal" has 0.9
and "dog" has 0.5 among the animals, "dog" has 0.45.

Sources: Redmon and Farhadi, "YOLO9000" (2016), section 4; ``src/tree.c``, ``src/region_layer.c``.
"""
from __future__ import annotations

import itertools
import os

import numpy as np

from ..backends.emitter import Array
from ..contract.attributes import Int
from ..contract.errors import OpError, quoted
from ..io.files import read_lines
from .blocks import Float32Block, add_constants

WHERE = "darknet.read_tree"
OUT_OF_GROUP = -1e30   # an input whose exponential is 0


class Tree:
    """A tree of classes.

    Parameters
    ----------
    names : list of str
        Names of the classes.
    parents : list of int
        Number of each class's parent, which is smaller than its own; -1 for a root.

    Attributes
    ----------
    groups : list of tuple of int
        (first class, number of classes) of each group. Classes of a group follow each other.
    """

    def __init__(self, names: list[str], parents: list[int]):
        self.names = names
        self.parents = parents
        self.groups = []
        for _, members in itertools.groupby(range(len(parents)), parents.__getitem__):
            first, *others = members
            self.groups.append((first, 1 + len(others)))

    def __len__(self) -> int:
        return len(self.parents)

    @property
    def depth(self) -> int:
        """The number of classes on the longest way from a root."""
        depths = []
        for parent in self.parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        return max(depths)


def read_tree(path: str | os.PathLike) -> Tree:
    """Read a tree of classes, such as ``9k.tree``: a line for each class, its name and the number of its parent.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Raises
    ------
    OpError
        The file cannot be read or is empty. Or a line is not a name and a number, or the number is not that of an
        earlier class: the message then has the line.
    """
    lines = read_lines(WHERE, path, "Pass the path of a tree", "the tree")
    name = os.path.basename(os.fspath(path))
    names, parents = [], []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words:
            raise OpError(WHERE, f"{name}, line {number} is empty; expected a name and the number of its parent",
                          "Remove the line")
        count = len(parents)
        parent = _class(words[1], -1, count) if len(words) > 1 else -1   # Darknet does so
        if parent is None:
            raise OpError(WHERE, f"{name}, line {number}: the parent is {words[1]!r}; expected -1 or the number of an "
                          f"earlier class, up to {count - 1}", "Correct the line")
        names.append(words[0])
        parents.append(parent)
    if not names:
        raise OpError(WHERE, f"{name} is empty; expected a line for each class", "Pass the path of a tree")
    return Tree(names, parents)


def read_map(path: str | os.PathLike, classes: int) -> tuple[int, ...]:
    """Read a map of classes, such as ``coco9k.map``.

    The file has a line for each class of the ground truth, with the number of a class of the net. An OpError is raised
    if the file cannot be read or is empty, or if a line is not a class of the net. The message has the line.
    """
    name = os.path.basename(os.fspath(path))
    numbers = []
    for line, word in enumerate(read_lines(WHERE, path, "Pass the path of a map", "the map"), 1):
        number = _class(word, 0, classes)
        if number is None:
            raise OpError("darknet.load", f"{name}, line {line} is {quoted(word)}; expected a class from 0 to "
                          f"{classes - 1}", "Correct the line")
        numbers.append(number)
    if not numbers:
        raise OpError("darknet.load", f"{name} is empty; expected a line for each class", "Pass the path of a map")
    return tuple(numbers)


def _class(text: str, low: int, end: int) -> int | None:
    """The integer that a text is, if ``low <= integer < end``. None for any other text."""
    try:
        number = Int(low).parse(text)
    except ValueError:
        return None
    return number if number < end else None


class TreeSoftmax(Float32Block):
    """A softmax over each group of a tree's classes, (B, classes, N), computed in float32.

    The input is divided by ``temperature`` first.
    """

    def __init__(self, tree: Tree, temperature: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self._dtype = "float32"
        self._temperature = temperature
        self._widths = []
        positions = np.zeros(len(tree), int)   # each class's index, group by group
        begin = 0
        for width, groups in _by_width(tree).items():
            index, outside = _padded(groups, width)
            for row, (first, count) in enumerate(groups):
                positions[first:first + count] = begin + row * width + np.arange(count)
            begin += index.size
            self._widths.append((width, len(groups)))
            add_constants(self, **{f"index{width}": index.ravel(), f"outside{width}": outside[None, :, :, None]})
        add_constants(self, back=positions)

    def cast(self, dtype: str | np.dtype) -> None:
        """Change the type of the output, not of the constants: float16 cannot count to 9418."""
        self._dtype = np.dtype(dtype).name

    def hybrid_forward(self, F, data: Array, back: Array, **constants: Array) -> Array:
        data = F.cast(data, dtype="float32")
        if self._temperature != 1:
            data = data / self._temperature
        groups_of_levels = []
        for width, count in self._widths:
            groups = F.take(data, constants[f"index{width}"], axis=1)
            groups = F.reshape(groups, shape=(0, -4, count, width, 0))
            groups = F.softmax(F.broadcast_add(groups, constants[f"outside{width}"]), axis=2)
            groups_of_levels.append(F.reshape(groups, shape=(0, -3, 0)))
        together = F.concat(*groups_of_levels, dim=1) if len(groups_of_levels) > 1 else groups_of_levels[0]
        return F.cast(F.take(together, back, axis=1), dtype=self._dtype)


def _by_width(tree: Tree) -> dict[int, list[tuple[int, int]]]:
    """The groups of a tree, by the power of 2 to which they are padded."""
    widths = {}
    for first, count in tree.groups:
        widths.setdefault(1 << (count - 1).bit_length(), []).append((first, count))
    return widths


def _padded(groups: list[tuple[int, int]], width: int) -> tuple[np.ndarray, np.ndarray]:
    """The classes of every group, padded to ``width`` with its first class, and numbers that hide the padding."""
    firsts, counts = (np.array(numbers)[:, None] for numbers in zip(*groups))
    columns = np.arange(width)
    inside = columns < counts
    return firsts + columns * inside, np.where(inside, 0, OUT_OF_GROUP)


class Ancestors(Float32Block):
    """Multiplies the number of each class by the numbers of all classes above it in the tree, (B, classes, N)."""

    def __init__(self, tree: Tree, **kwargs):
        super().__init__(**kwargs)
        count = len(tree)
        above = np.array([*(parent if parent >= 0 else count for parent in tree.parents), count])
        self._steps = (tree.depth - 1).bit_length()
        for step in range(self._steps):   # each step doubles the number of classes in a product
            add_constants(self, **{f"above{step}": above})
            above = above[above]

    def hybrid_forward(self, F, data: Array, **above: Array) -> Array:
        ones = F.ones_like(F.slice_axis(data, axis=1, begin=0, end=1))
        products = F.concat(data, ones, dim=1)   # the last one is above the roots
        for step in range(self._steps):
            products = products * F.take(products, above[f"above{step}"], axis=1)
        return F.slice_axis(products, axis=1, begin=0, end=-1)
