"""Decodes an activated map into candidates: boxes with a class and a score each.

Sources: Redmon et al., "You Only Look Once" (2015); Redmon and Farhadi, "YOLO9000" (2016); Choi et al., "Gaussian
YOLOv3" (2019); ``src/region_layer.c``, ``src/yolo_layer.c``, ``src/detection_layer.c``, ``src/tree.c`` and
``src/gaussian_yolo_layer.c``.
"""
from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np

from ..backends.emitter import Array
from ..backends.layer import EitherModeBlock
from .blocks import Float32Block, add_constants
from .tree import Ancestors, Tree

TREE_THRESHOLD = 0.5   # a class of a tree is found above this probability


class Boxes(EitherModeBlock):
    """The candidates of an activated map: a box and a score for each class, anchor and cell.

    The boxes of a float16 map are computed in float32, because float16 cannot hold half pixels above 1024.

    Parameters
    ----------
    anchors : array_like
        (A, 2), widths and heights in pixels. They are a constant parameter, so that an export contains them.
    classes : int
        Number of classes.
    stride : int
        Pixels from one cell to the next.

    Inputs:
        - **data**: the output of ``Region``, (B, A*(5+classes), H, W).

    Outputs:
        - **out**: (B, classes*A*H*W, 6): class, objectness times class probability, and left, top, right, bottom in
          pixels.
    """

    def __init__(self, anchors: np.ndarray, classes: int, stride: int, **kwargs):
        super().__init__(**kwargs)
        anchors = np.asarray(anchors, "float32")
        self._anchors = len(anchors)
        self._classes = classes
        self._stride = stride
        self._takes_float16 = False
        add_constants(self, anchors=anchors.reshape(1, -1, 2, 1), ids=np.arange(classes).reshape(self._ids_shape))

    def cast(self, dtype: str | np.dtype) -> None:
        """Change the type of the maps that the block takes.

        Parameters
        ----------
        dtype : str or numpy.dtype
        """
        self._takes_float16 = np.dtype(dtype) == np.float16
        super().cast("float32" if self._takes_float16 else dtype)

    def hybrid_forward(self, F, data: Array, anchors: Array, ids: Array) -> Array:
        if self._takes_float16:
            data = F.cast(data, dtype="float32")
        cells = F.reshape(data, shape=(0, self._anchors, self._fields + self._classes, -1))   # B, A, 5+K, H*W
        centres = F.broadcast_add(self._offsets(F, cells, anchors), _grid(F, data)) * self._stride
        halves = F.broadcast_mul(self._factors(F, cells), anchors) / 2
        corners = _corners(F, centres, halves, axis=2)
        return _rows(F, *self._classes_and_scores(F, cells, ids), corners)

    _fields = 5   # numbers of an anchor in front of its classes
    _ids_shape = (1, 1, -1, 1)

    def _offsets(self, F, cells: Array, anchors: Array) -> Array:
        """The columns and rows of the centres, counted from the corner of their cells, (B, A, 2, H*W)."""
        return F.slice_axis(cells, axis=2, begin=0, end=2)

    def _factors(self, F, cells: Array) -> Array:
        """Widths and heights divided by those of the anchors, (B, A, 2, H*W)."""
        return F.exp(F.slice_axis(cells, axis=2, begin=2, end=4))

    def _classes_and_scores(self, F, cells: Array, ids: Array) -> tuple[Array, Array]:
        """Classes and their scores, (B, A, K, H*W)."""
        probabilities = F.slice_axis(cells, axis=2, begin=5, end=None)
        objectness = F.slice_axis(cells, axis=2, begin=4, end=5)
        return ids, F.broadcast_mul(probabilities, objectness)


class SquaredBoxes(Boxes):
    """The candidates of a ``[yolo]`` with ``new_coords``: sides are ``(2 * number)**2`` anchors. See :class:`Boxes`."""

    def _factors(self, F, cells: Array) -> Array:
        return F.square(2 * F.slice_axis(cells, axis=2, begin=2, end=4))


class GaussianBoxes(Boxes):
    """The candidates of a ``[Gaussian_yolo]``, of the output of ``GaussianYolo``. See :class:`Boxes`.

    A score is objectness times class probability times 1 minus the mean uncertainty of the box. ``shift`` is 0, 0.5 or
    -0.5, the distance of a box from its point, in its own sides: the point is the centre, the left top or the right
    bottom.
    """

    _fields = 9

    def __init__(self, anchors: np.ndarray, classes: int, stride: int, shift: float = 0.0, **kwargs):
        super().__init__(anchors, classes, stride, **kwargs)
        self._shift = shift

    def _offsets(self, F, cells: Array, anchors: Array) -> Array:
        points = F.slice(cells, begin=(None, None, 0, None), end=(None, None, 4, None), step=(1, 1, 2, 1))
        if not self._shift:
            return points
        sides = F.broadcast_mul(self._factors(F, cells), anchors)
        return points + sides * (self._shift / self._stride)

    def _factors(self, F, cells: Array) -> Array:
        return F.exp(F.slice(cells, begin=(None, None, 4, None), end=(None, None, 8, None), step=(1, 1, 2, 1)))

    def _classes_and_scores(self, F, cells: Array, ids: Array) -> tuple[Array, Array]:
        uncertainties = F.slice(cells, begin=(None, None, 1, None), end=(None, None, 8, None), step=(1, 1, 2, 1))
        certainty = 1 - F.mean(uncertainties, axis=2, keepdims=True)
        objectness = F.slice_axis(cells, axis=2, begin=8, end=9) * certainty
        return ids, F.broadcast_mul(F.slice_axis(cells, axis=2, begin=9, end=None), objectness)


class TreeBoxes(Float32Block, Boxes):
    """The candidates of a ``[region]`` with a tree of classes: the most special class of each box, (B, A*H*W, 6).

    A box gets the deepest class of the tree whose probability is above 0.5. The two programs differ:

    - pjreddie's multiplies the probability of a class once more by those of all classes above it. If no class is above
      0.5, the box gets the most probable root. Its score is the objectness.
    - AlexeyAB's takes the probability of the class as the score. It drops a box without a class above 0.5, and one
      whose objectness is not above the threshold.
    """

    threshold = 0.25   # the detector's; DarknetNet.detector sets it
    _ids_shape = (1, -1, 1)

    def __init__(self, anchors: np.ndarray, tree: Tree, stride: int, dialect: str, **kwargs):
        super().__init__(anchors, len(tree), stride, **kwargs)
        self._takes_float16 = True
        self._scores_by_class = dialect == "alexeyab"
        _, self._roots = tree.groups[0]
        with self.name_scope():
            self.ancestors = Ancestors(tree)

    def _classes_and_scores(self, F, cells: Array, ids: Array) -> tuple[Array, Array]:
        objectness = F.slice_axis(cells, axis=2, begin=4, end=5)                    # B, A, 1, H*W
        conditional = F.reshape(F.slice_axis(cells, axis=2, begin=5, end=None), shape=(-3, 0, 0))
        objectness = F.reshape(objectness, shape=(-3, 0, 0))
        probabilities = self.ancestors(conditional)
        if self._scores_by_class:
            deepest = self._deepest(F, probabilities, ids)
            index = F.reshape(F.maximum(deepest, 0), shape=(0, -1))
            score = F.pick(probabilities, index, axis=1, keepdims=True)
            counts = (deepest >= 0) * (objectness > self.threshold)
            classes, scores = F.maximum(deepest, 0), score * counts
        else:
            deepest = self._deepest(F, self.ancestors(probabilities), ids)
            roots = F.slice_axis(conditional, axis=1, begin=0, end=self._roots)
            classes = F.where(deepest >= 0, deepest, F.argmax(roots, axis=1, keepdims=True))
            scores = objectness
        shape = (-4, -1, self._anchors, 0, 0)
        return F.reshape(classes, shape=shape), F.reshape(scores, shape=shape)

    def _deepest(self, F, probabilities: Array, ids: Array) -> Array:
        """The most special class above the threshold, -1 if there is none, (B*A, 1, H*W)."""
        above = F.broadcast_mul(probabilities > TREE_THRESHOLD, ids + 1)   # a class has a larger number than its parent
        return F.max(above, axis=1, keepdims=True) - 1


class CellBoxes(Float32Block):
    """The candidates of a ``[detection]``: YOLOv1's. See :class:`Boxes`.

    It takes numbers in the order of :func:`numbers_of_cells`, and returns (B, side*side*boxes*classes, 6). ``size`` is
    (height, width) of an image in pixels. ``square`` says that the network returns the square roots of widths and
    heights.
    """

    def __init__(self, side: int, boxes: int, classes: int, size: tuple[int, int], square: bool, **kwargs):
        super().__init__(**kwargs)
        self._cells = side * side
        self._boxes = boxes
        self._classes = classes
        self._square = square
        height, width = size
        rows, columns = np.divmod(np.arange(side * side), side)
        grid = np.stack([columns, rows], axis=1).reshape(1, -1, 1, 2)
        add_constants(self, grid=grid, cell=[[[[width / side, height / side]]]], size=[[[[width, height]]]],
                      ids=np.arange(classes).reshape(1, 1, 1, -1))

    def hybrid_forward(self, F, data: Array, grid: Array, cell: Array, size: Array, ids: Array) -> Array:
        data = F.Flatten(F.cast(data, dtype="float32"))   # it may be an image, behind a convolution
        probabilities, objectness, numbers = numbers_of_cells(F, data, self._cells, self._boxes, self._classes)
        offsets = F.slice_axis(numbers, axis=3, begin=0, end=2)
        sides = F.slice_axis(numbers, axis=3, begin=2, end=4)
        if self._square:
            sides = F.square(sides)
        centres = F.broadcast_mul(F.broadcast_add(offsets, grid), cell)
        corners = _corners(F, centres, F.broadcast_mul(sides, size) / 2, axis=3)
        return _rows(F, ids, F.broadcast_mul(objectness, probabilities), corners)


def numbers_of_cells(F: ModuleType, rows: Array, cells: int, boxes: int, classes: int) -> tuple[Array, Array, Array]:
    """Split the row of numbers that YOLOv1 returns for an image.

    A row has the classes of all cells first, then the objectness of all boxes, and then x, y, w, h of all boxes. With L
    cells, N boxes per cell and K classes, the results are (B, L, 1, K), (B, L, N, 1) and (B, L, N, 4).
    """
    first, second = cells * classes, cells * (classes + boxes)
    parts = ((0, first, (1, classes)), (first, second, (boxes, 1)), (second, None, (boxes, 4)))
    return tuple(F.reshape(F.slice_axis(rows, axis=1, begin=begin, end=end), shape=(0, cells, *shape))
                 for begin, end, shape in parts)


def _corners(F: ModuleType, centres: Array, halves: Array, axis: int) -> list[Array]:
    """The left, top, right and bottom of boxes, from centres and half sides whose coordinates lie along ``axis``."""
    corners = F.concat(centres - halves, centres + halves, dim=axis)
    return [F.slice_axis(corners, axis=axis, begin=i, end=i + 1) for i in range(4)]


def _grid(F: ModuleType, data: Array) -> Array:
    """Column and row of each cell of a map, (1, 1, 2, H*W)."""
    columns = F.reshape(F.contrib.arange_like(data, axis=3), shape=(1, 1, 1, -1))
    rows = F.reshape(F.contrib.arange_like(data, axis=2), shape=(1, 1, -1, 1))
    first_image = F.slice_axis(data, axis=0, begin=0, end=1)
    zeros = F.zeros_like(F.slice_axis(first_image, axis=1, begin=0, end=1))
    grid = F.concat(F.broadcast_add(zeros, columns), F.broadcast_add(zeros, rows), dim=1)
    return F.reshape(grid, shape=(1, 1, 2, -1))


def _rows(F: ModuleType, ids: Array, scores: Array, corners: Sequence[Array]) -> Array:
    """Join columns into candidates, (B, N, 6). Each column is repeated to the shape of ``scores``, (B, ...), first."""
    columns = [F.broadcast_like(ids, scores), scores]
    columns += [F.broadcast_like(corner, scores) for corner in corners]
    return F.reshape(F.stack(*columns, axis=-1), shape=(0, -1, 6))
