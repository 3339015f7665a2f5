"""The loss of ``[detection]``: YOLOv1's.

Sources: Redmon et al., "You Only Look Once" (2015); ``src/detection_layer.c``, which is the same in both programs;
``fill_truth_region`` in ``src/data.c``.
"""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..backends.emitter import Array
from ..ops._region.boxes import iou
from ..ops._region.counting import CountingLoss
from ..ops._region.yolo_reference import truths_of
from .boxes import numbers_of_cells

SMALLEST = 0.005       # Darknet leaves out objects with a smaller side
SMALL_AREA = 0.1       # smaller objects belong to the second box, if `forced`
RANDOM_IMAGES = 64000  # the box is drawn while fewer images are seen, if `random`
RECALL_IOU = 0.5


class _Targets(NamedTuple):
    """What the cells should have found. Sizes in shapes: B images, L cells, K classes."""
    occupied: Array         # (B, L, 1), 1 for cells with an object
    box: Array              # (B, L, 4): the centre in the cell from 0 to 1, width and height in fractions of the image
    classes: Array          # (B, L, K), 1 at the object's class
    nan_if_invalid: Array   # (B,), NaN for an image with an invalid row, else 1


class _Options(NamedTuple):
    object_scale: float     # weight of the objectness of responsible boxes
    noobject_scale: float   # the same of all others
    class_scale: float      # weight of the classes
    coord_scale: float      # weight of the boxes' numbers
    sqrt: bool              # the net returns roots of widths and heights
    rescore: bool           # the objectness target of a responsible box is its IoU, as a constant, instead of 1
    softmax: bool           # the classes have a softmax, and their loss is the cross-entropy
    forced: bool            # the first box is responsible for a tenth of the image and more, the second for less
    random: bool            # the responsible box is drawn while fewer than 64000 images are seen


class CellLoss(CountingLoss):
    """The loss of YOLOv1 per image: half the weighted squared errors, so that its gradient is minus Darknet's delta.

    An object belongs to the cell of its centre, and the first object of a cell counts. Of the cell's boxes, the one
    with the largest IoU is responsible, or the nearest one if none overlaps the object. All other boxes have the
    objectness 0. It is computed in float32; after ``cast("float64")`` in float64. There are ``side`` x
    ``side`` cells with so many ``boxes``, which share the classes.

    Inputs:
        - **pred**: (B, side*side*(classes + 5*boxes)), or with more axes: the classes of all cells, then the objectness
          of all boxes, then their x, y, w, h.
        - **truth**: ground truth, (B, T, 5): centre x, centre y, w, h from 0 to 1, class; padded with rows of zeros.

    Outputs:
        - **loss**: (B,).
    """

    def __init__(self, side: int, boxes: int, classes: int, **options):
        super().__init__(classes)
        self._settings = _Options(**options)
        self._side = side
        self._boxes = boxes
        self.classes = classes
        self._dtype = "float32"

    def cast(self, dtype: str | np.dtype) -> None:
        """Compute in float64 if this is the type, else in float32."""
        self._dtype = "float64" if np.dtype(dtype) == np.float64 else "float32"

    def hybrid_forward(self, F, pred: Array, truth: Array, seen: Array) -> tuple[Array, Array, Array]:
        seen = self._count(F, pred, seen)
        rows = F.Flatten(F.cast(pred, dtype=self._dtype))
        classes, objectness, boxes = numbers_of_cells(F, rows, self._side**2, self._boxes, self.classes)   # B, L, N, 4
        classes, objectness = F.squeeze(classes, axis=2), F.squeeze(objectness, axis=3)   # B, L, K and B, L, N
        targets = self._targets(F, F.cast(truth, dtype=self._dtype), F.BlockGrad(classes))
        overlap, distance = self._compare(F, F.BlockGrad(boxes), targets.box)
        best = self._responsible_box(F, overlap, distance, targets.box, seen)
        numbers = F.reshape(F.contrib.arange_like(F.BlockGrad(objectness), axis=2), shape=(1, 1, -1))
        responsible = F.broadcast_mul(F.broadcast_equal(numbers, best), targets.occupied)         # B, L, N

        has_object = responsible * overlap if self._settings.rescore else responsible
        error = objectness - has_object
        weights = responsible * self._settings.object_scale + (1 - responsible) * self._settings.noobject_scale
        squares = weights * F.square(error) / 2
        box_error = self._box_error(F, boxes, targets.box)
        box_error = F.broadcast_mul(box_error, F.expand_dims(responsible, axis=3))
        probabilities, class_terms = self._class_terms(F, classes, targets.classes)
        class_terms = F.broadcast_mul(class_terms, targets.occupied) * self._settings.class_scale

        def image_sum(values):
            return F.sum(values, axis=0, exclude=True) * targets.nan_if_invalid

        terms = [image_sum(F.square(box_error)) * (self._settings.coord_scale / 2), image_sum(squares * responsible),
                 image_sum(squares * (1 - responsible)), image_sum(class_terms)]
        class_error = F.broadcast_mul(probabilities - targets.classes, targets.occupied) * self._settings.class_scale
        cost = (image_sum(F.square(box_error)) * self._settings.coord_scale**2 + image_sum(F.square(weights * error))
                + image_sum(F.square(class_error)))
        statistics = [cost, image_sum(responsible * overlap), image_sum(responsible * (overlap > RECALL_IOU)),
                      image_sum(F.broadcast_mul(probabilities * targets.classes, targets.occupied)),
                      image_sum(targets.occupied)]
        parts = F.BlockGrad(F.stack(*terms, *statistics, axis=1))
        return sum(terms[1:], terms[0]), parts, seen

    def _targets(self, F, truth: Array, classes: Array) -> _Targets:
        *fields, order, valid, nan_if_invalid = truths_of(F, self, truth)
        columns = [F.reshape(field, shape=(0, 0, 1)) for field in (*fields, valid, order)]
        x, y, w, h, class_id, valid, order = columns                                              # B, T, 1
        counts = valid * (w >= SMALLEST) * (h >= SMALLEST)

        column, row = (F.minimum(F.floor(centre * self._side), self._side - 1) for centre in (x, y))
        cells = F.reshape(F.contrib.arange_like(classes, axis=1), shape=(1, 1, -1))
        inside = F.broadcast_mul(F.broadcast_equal(row * self._side + column, cells), counts)     # B, T, L
        first = F.cast(F.argmax(inside, axis=1, keepdims=True), dtype=self._dtype)
        chosen = inside * F.broadcast_equal(order, first)

        numbers = F.reshape(F.contrib.arange_like(classes, axis=2), shape=(1, 1, -1))
        own_class = F.broadcast_equal(class_id, numbers)                                          # B, T, K
        values = F.concat(x * self._side - column, y * self._side - row, w, h, own_class, dim=2)
        values = F.batch_dot(chosen, values, transpose_a=True)                                    # B, L, 4+K
        occupied = F.expand_dims(F.max(inside, axis=1), axis=2)
        return _Targets(occupied, F.slice_axis(values, axis=2, begin=0, end=4),
                        F.slice_axis(values, axis=2, begin=4, end=None), nan_if_invalid)

    def _compare(self, F, boxes: Array, target: Array) -> tuple[Array, Array]:
        """The IoU of each box with its cell's object, and the sum of the squares of their differences, (B, L, N)."""
        x, y, w, h = (F.squeeze(F.slice_axis(boxes, axis=3, begin=i, end=i + 1), axis=3) for i in range(4))
        if self._settings.sqrt:
            w, h = F.square(w), F.square(h)
        found = x / self._side, y / self._side, w, h
        x, y, w, h = (F.slice_axis(target, axis=2, begin=i, end=i + 1) for i in range(4))
        wanted = x / self._side, y / self._side, w, h
        squares = [F.square(F.broadcast_sub(*pair)) for pair in zip(found, wanted)]
        return iou(F, found, wanted), sum(squares[1:], squares[0])

    def _responsible_box(self, F, overlap: Array, distance: Array, target: Array, seen: Array) -> Array:
        """The number of the responsible box of each cell, (B, L, 1)."""
        if self._settings.forced:
            w, h = (F.slice_axis(target, axis=2, begin=i, end=i + 1) for i in (2, 3))
            best = w * h < SMALL_AREA
        else:
            overlaps = F.max(overlap, axis=2, keepdims=True) > 0
            largest = F.argmax(overlap, axis=2, keepdims=True)
            nearest = F.argmin(distance, axis=2, keepdims=True)
            best = F.where(overlaps, largest, nearest)
        best = F.cast(best, dtype=self._dtype)
        if not self._settings.random:
            return best
        draws = F.random.uniform_like(F.slice_axis(overlap, axis=2, begin=0, end=1))
        drawn = F.minimum(F.floor(draws * self._boxes), self._boxes - 1)
        is_early = F.reshape(F.cast(seen, dtype=self._dtype) < RANDOM_IMAGES, shape=(1, 1, 1))
        return F.where(F.broadcast_like(is_early, best), drawn, best)

    def _box_error(self, F, boxes: Array, target: Array) -> Array:
        """The boxes' numbers without those of the objects of their cells, (B, L, N, 4)."""
        centre = F.slice_axis(target, axis=2, begin=0, end=2)
        sizes = F.slice_axis(target, axis=2, begin=2, end=4)
        target = F.concat(centre, F.sqrt(sizes) if self._settings.sqrt else sizes, dim=2)
        return F.broadcast_sub(boxes, F.expand_dims(target, axis=2))

    def _class_terms(self, F, classes: Array, target: Array) -> tuple[Array, Array]:
        """The probabilities and the terms of the loss, (B, L, K) each."""
        if self._settings.softmax:
            return F.softmax(classes, axis=2), -F.log_softmax(classes, axis=2) * target
        return classes, F.square(classes - target) / 2
