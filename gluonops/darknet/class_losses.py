"""The losses of ``[softmax]``, with and without a tree of classes, of ``[region]`` with a tree, and of ``[cost]``.

Sources: ``src/softmax_layer.c``, ``src/cost_layer.c``, ``src/region_layer.c``, ``src/tree.c`` and ``fill_hierarchy`` in
``src/data.c``.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import mxnet as mx
import numpy as np
from mxnet.gluon import HybridBlock

from ..backends.emitter import Array
from ..ops import region_loss, softmax_cross_entropy
from ..ops._region import yolo_reference as yolo
from ..ops._region.counting import CountingLoss
from ..ops._region.reference import CLASSES
from ..ops.region_loss.contract import OP
from ..ops.yolo_loss.contract import OP as YOLO
from .blocks import Float32Block, add_constants, layer
from .tree import OUT_OF_GROUP, Tree

NONE = -1   # The number in tables of classes where there is none.


@layer
def ClassLoss(F, pred: Array, label: Array, *, temperature: float = 1.0) -> Array:
    """The loss of ``[softmax]``: the cross-entropy, times the temperature, (B,).

    Darknet does not divide its delta by the temperature.

    - ``pred``: what the softmax takes, (B, ...), which is divided by the temperature.
    - ``label``: the class, (B,).
    """
    return softmax_cross_entropy(F.Flatten(pred) / temperature, label) * temperature


@layer
def SquareLoss(F, pred: Array, truth: Array) -> Array:
    """The loss of a ``[cost]`` by itself: half the squared errors of an image, (B,).

    ``truth`` has as many numbers as ``pred``.
    """
    return F.sum(F.square(pred - F.reshape_like(truth, pred)), axis=0, exclude=True) / 2


class _Terms(NamedTuple):
    """The terms of the groups from a root down to a class, (..., D) each. D is the depth of the tree."""
    counts: Array    # 1 for a group, 0 where the way has ended
    groups: Array    # numbers of the groups
    nll: Array       # minus the logarithm of the probability of the class on the way
    squares: Array   # the squared errors of the probabilities of a group


class _Ways(Float32Block):
    """The way from a root of a tree to each class, with D classes at most. All numbers are exact in float32.

    Inputs:
        - **class_id**: (...).

    Outputs:
        - **way**: (..., D), the classes on the way, and behind them -1.
        - **groups**: (..., D), the numbers of their groups.
        - **members**: (..., D, M), the classes of these groups, and behind them -1.
    """

    def __init__(self, tree: Tree, **kwargs):
        super().__init__(**kwargs)
        groups = np.zeros(len(tree), int)
        members = np.full((len(tree.groups), max(count for _, count in tree.groups)), NONE)
        for number, (first, count) in enumerate(tree.groups):
            groups[first:first + count] = number
            members[number, :count] = np.arange(first, first + count)
        ways = np.full((len(tree), tree.depth), NONE)
        for class_id, parent in enumerate(tree.parents):
            way = [] if parent < 0 else [above for above in ways[parent] if above != NONE]
            ways[class_id, :len(way) + 1] = [*way, class_id]
        add_constants(self, ways=ways, groups=groups, members=members)

    def hybrid_forward(self, F, class_id: Array, ways: Array, groups: Array, members: Array) -> tuple:
        way = F.take(ways, class_id)
        of_way = F.take(groups, F.relu(way))
        return way, of_way, F.take(members, of_way)


def _terms(F, found: tuple, read: Callable[[Array], Array], temperature: float = 1.0) -> _Terms:
    """The terms of the classes whose :class:`_Ways` are given. ``read`` takes numbers of classes, (..., D, M), and
    returns their logits."""
    way, groups, members = found
    is_member = members >= 0
    logits = F.cast(read(F.relu(members)), dtype="float32") / temperature
    logits = F.where(is_member, logits, F.zeros_like(logits) + OUT_OF_GROUP)
    target = F.broadcast_equal(members, F.expand_dims(F.relu(way), axis=-1))
    logits = F.broadcast_sub(logits, F.BlockGrad(F.max(logits, axis=-1, keepdims=True)))
    exponentials = F.exp(logits)   # MXNet's log_softmax is less exact
    total = F.sum(exponentials, axis=-1, keepdims=True)
    own = F.sum(F.where(target, logits, F.zeros_like(logits)), axis=-1)
    nll = F.log(F.squeeze(total, axis=-1)) - own
    squares = F.sum(F.square(F.broadcast_div(exponentials, total) - target), axis=-1)
    return _Terms(way >= 0, groups, nll, F.BlockGrad(squares))


@layer
def TreeClassLoss(F, pred: Array, label: Array, *, classes: int, ways: HybridBlock, temperature: float) -> Array:
    """The loss of ``[softmax]`` with a tree: the cross-entropies of the groups from the root to the class, added up.

    The other groups do not count. (They do in the programs' CPU builds, where their target is -1234.) The arguments are
    as those of :class:`ClassLoss`. The loss is (B,), float32.
    """
    pred = F.Flatten(pred)
    label = F.cast(label, dtype="float32")
    is_class = (label >= 0) * (label < classes) * (F.floor(label) == label)

    def read(members):
        image = F.reshape(F.contrib.arange_like(members, axis=0), shape=(-1, 1, 1))
        return F.gather_nd(pred, F.stack(F.broadcast_like(image, members), members, axis=0))

    terms = _terms(F, ways(F.where(is_class, label, F.zeros_like(label))), read, temperature)
    loss = F.sum(terms.nll * terms.counts, axis=1) * temperature
    return F.where(is_class, loss, F.zeros_like(loss) + float("nan"))


def tree_class_loss(tree: Tree, temperature: float) -> HybridBlock:
    """``TreeClassLoss`` of a tree."""
    return TreeClassLoss(len(tree), partial(_Ways, tree), temperature)


class TreeRegionLoss(CountingLoss):
    """The loss of ``[region]`` with a tree: boxes and objectness as of :class:`gluonops.loss.RegionLoss`, and the
    cross-entropies of the groups from the root to the class.

    If several ground truths are matched to one prediction, each group has the class of the last one that has the group
    on its way. It is computed in float32. The options are those of ``RegionLoss``, without `classes` and `softmax`.

    Inputs:
        - **pred**: the last convolution's output, (B, A*(5+K), H, W).
        - **truth**: ground truth, (B, T, 5): centre x, centre y, w, h from 0 to 1, class; padded with rows of zeros.

    Outputs:
        - **loss**: (B,), float32.
    """

    def __init__(self, anchors: Sequence, tree: Tree, class_scale: float = 1.0, prefix: str | None = None,
                 params: mx.gluon.ParameterDict | None = None, **options):
        super().__init__(len(tree), prefix=prefix, params=params)
        # The operator sees one class only, which all boxes have.
        self._attrs = OP.parse({**options, "anchors": anchors, "classes": 1, "class_scale": 0, "parts": True})
        self._class_scale = class_scale
        self._classes = len(tree)
        with self.name_scope():
            self.ways = _Ways(tree)

    def hybrid_forward(self, F, pred: Array, truth: Array, seen: Array) -> tuple[Array, Array, Array]:
        seen = self._count(F, pred, seen)
        truth = F.cast(truth, dtype="float32")
        anchors = len(self._attrs.anchors) // 2
        maps = F.reshape(F.cast(pred, dtype="float32"), shape=(0, -4, anchors, -1, 0, 0))           # B, A, 5+K, H, W
        boxes = F.reshape(F.slice_axis(maps, axis=2, begin=0, end=CLASSES + 1), shape=(0, -3, 0, 0))
        of_one_class = self._of_one_class(F, truth)
        loss, parts = region_loss(boxes, of_one_class, seen, **self._attrs._asdict())
        valid, position = self._positions(F, boxes, of_one_class)
        class_id = F.reshape(F.slice_axis(truth, axis=2, begin=4, end=5), shape=(0, 0))             # B, T
        class_id = F.where(valid, class_id, F.zeros_like(class_id))
        classes, squares, probability = self._classes_loss(F, maps, valid, position, class_id)
        zero = F.zeros_like(loss)
        own_parts = F.stack(zero, zero, zero, classes, squares, zero, zero, probability, zero, axis=1)
        # The operator has found the probability 1 of its only class.
        counted = F.concat(F.slice_axis(parts, axis=1, begin=0, end=7), F.expand_dims(zero, axis=1),
                           F.slice_axis(parts, axis=1, begin=8, end=9), dim=1)
        return loss + classes, F.BlockGrad(counted + own_parts), seen

    def _of_one_class(self, F, truth: Array) -> Array:
        """The ground truth with the class 0 for all classes of the tree, and -1 for all else."""
        class_id = F.slice_axis(truth, axis=2, begin=4, end=5)
        is_class = (class_id >= 0) * (class_id < self._classes) * (F.floor(class_id) == class_id)
        return F.concat(F.slice_axis(truth, axis=2, begin=0, end=4), is_class - 1, dim=2)

    def _positions(self, F, boxes: Array, truth: Array) -> tuple[Array, list]:
        """Which ground truths are boxes, and the anchor, row and column of each, (B, T) each."""
        options = YOLO.parse({"anchors": self._attrs.anchors, "classes": 1})
        head, truths = yolo.head_of(F, options, F.BlockGrad(boxes)), yolo.truths_of(F, options, truth)
        matches = yolo.matches_of(F, options, head, truths, by_prediction=not self._attrs.bias_match)
        anchors = F.reshape(F.contrib.arange_like(head.anchor_w, axis=2), shape=(1, 1, -1, 1, 1))
        position = [F.sum(F.broadcast_mul(matches.by_cell, index), axis=(2, 3, 4))
                    for index in (anchors, head.rows, head.columns)]
        return F.reshape(truths.valid, shape=(0, 0)), position

    def _classes_loss(self, F, maps: Array, valid: Array, position: list,
                      class_id: Array) -> tuple[Array, Array, Array]:
        """The loss of the classes, the squares of its deltas, and the sum of the probabilities of the classes, (B,)."""
        image = F.reshape(F.contrib.arange_like(valid, axis=0), shape=(-1, 1))
        order = F.reshape(F.contrib.arange_like(valid, axis=1), shape=(1, -1))

        def read(members):
            where = [F.broadcast_like(F.reshape(index, shape=(0, 0, 1, 1)), members) for index in (image, *position)]
            image_number, anchor, row, column = where
            return F.gather_nd(maps, F.stack(image_number, anchor, members + CLASSES, row, column, axis=0))

        terms = _terms(F, self.ways(class_id), read)
        replaced = self._replaced(F, terms, valid, order, position)
        counts = F.broadcast_mul(terms.counts, F.expand_dims(valid, axis=2))
        last = counts * (1 - replaced)
        probability = F.exp(-F.sum(F.BlockGrad(terms.nll) * counts, axis=2)) * valid
        return (F.sum(terms.nll * last, axis=(1, 2)) * self._class_scale,
                F.sum(terms.squares * last, axis=(1, 2)) * self._class_scale**2, F.sum(probability, axis=1))

    def _replaced(self, F, terms: _Terms, valid: Array, order: Array, position: list) -> Array:
        """Whether a later ground truth with the same prediction has the group on its way, too, (B, T, D)."""
        def pairwise(compare, values):
            return compare(F.expand_dims(values, axis=2), F.expand_dims(values, axis=1))            # B, T, T, ...

        later = F.broadcast_mul(pairwise(F.broadcast_lesser, order), F.expand_dims(valid, axis=1))
        for index in position:
            later = later * pairwise(F.broadcast_equal, index)
        groups = F.where(terms.counts, terms.groups, terms.counts + NONE)
        same = pairwise(F.broadcast_equal, groups)
        return F.max(F.broadcast_mul(same, F.expand_dims(later, axis=3)), axis=2)
