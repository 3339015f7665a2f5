"""Turns the maps of a net into detections: they are decoded into candidates, and non-maximum suppression follows."""
from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import mxnet as mx
from mxnet.gluon import HybridBlock

from ..backends.emitter import Array
from ..backends.layer import EitherModeBlock
from ..contract.attributes import Float, Int, parsed
from ..contract.errors import OpError
from .blocks import layer

# Rounds of DistanceSuppression. A box is decided after as many as there are boxes in a row of which each one overlaps
# the next.
ROUNDS = 32
OPTIONS = {"threshold": Float(0, below=1), "nms": Float(above=0), "topk": Int(1)}
NO_OVERLAP = 1.0   # an IoU that no candidate exceeds


@layer
def DistanceSuppression(F, rows: Array, images: Array, *, threshold: float, power: float) -> Array:
    """Non-maximum suppression by overlap and distance, class by class: DIoU.

    A candidate is dropped if its IoU with a more probable one of its class, minus ``(d / c) ** power``, is above a
    threshold. d is the squared distance of their centres, and c the squared diagonal of the box around both, both in
    widths and heights of the image. Sources: Zheng et al., "Distance-IoU Loss" (2019), section 4; ``box_diounms`` in
    AlexeyAB's ``src/box.c``, whose ``nms_kind=greedynms`` is the same with a power of 0.6.

    - ``rows``: (B, N, 6), in decreasing order of their scores: class, score, left, top, right, bottom. Empty ones are
      -1 and come last.
    - ``images``: (B, C, H, W), of which only height and width are used.

    The output has the shape of ``rows``. The rows of dropped candidates are -1.
    """
    ids = F.slice_axis(rows, axis=2, begin=0, end=1)
    alike = F.broadcast_equal(ids, F.transpose(ids, axes=(0, 2, 1)))
    drops = (_scores(F, rows, _aspect(F, images), power) > threshold) * alike
    rank = F.contrib.arange_like(rows, axis=1)
    before = F.broadcast_lesser(F.reshape(rank, shape=(1, -1, 1)), F.reshape(rank, shape=(1, 1, -1)))
    drops = F.broadcast_mul(drops, before)          # whether the row would drop the column
    kept = F.transpose(F.ones_like(ids), axes=(0, 2, 1))
    for _ in range(ROUNDS):
        kept = F.batch_dot(kept, drops) < 0.5       # no kept one drops it
    kept = F.broadcast_like(F.transpose(kept, axes=(0, 2, 1)), rows)
    return F.where(kept, rows, -F.ones_like(rows))


def _aspect(F: ModuleType, images: Array) -> Array:
    """The width of the images divided by their height, (1, 1, 1)."""
    first = F.slice(images, begin=(0, 0, None, None), end=(1, 1, None, None))
    ones = F.ones_like(F.cast(first, dtype="float32"))
    width = F.mean(F.sum(ones, axis=3))
    height = F.mean(F.sum(ones, axis=2))
    return F.reshape(width / height, shape=(1, 1, 1))


def _scores(F: ModuleType, rows: Array, aspect: Array, power: float) -> Array:
    """IoU minus distance of each candidate with each other, (B, N, N)."""
    left, top, right, bottom = (F.slice_axis(rows, axis=2, begin=i, end=i + 1) for i in range(2, 6))
    overlap, areas, diagonal, distance = 1, 1, 0, 0
    for low, high in ((left, right), (F.broadcast_mul(top, aspect), F.broadcast_mul(bottom, aspect))):
        other_low, other_high = (F.transpose(side, axes=(0, 2, 1)) for side in (low, high))
        shared = F.broadcast_minimum(high, other_high) - F.broadcast_maximum(low, other_low)
        around = F.broadcast_maximum(high, other_high) - F.broadcast_minimum(low, other_low)
        overlap = F.relu(shared) * overlap
        areas = (high - low) * areas
        diagonal = F.square(around) + diagonal
        distance = F.square(F.broadcast_sub(low + high, other_low + other_high) / 2) + distance
    union = F.broadcast_add(areas, F.transpose(areas, axes=(0, 2, 1))) - overlap
    iou = overlap / F.where(union > 0, union, F.ones_like(union))
    return iou - (distance / F.where(diagonal > 0, diagonal, F.ones_like(diagonal))) ** power


class Detector(EitherModeBlock):
    """A net with the decoding of its maps: it takes images and returns detections.

    As in Darknet, each class of each box is a candidate if objectness times class probability is above ``threshold``.
    Non-maximum suppression follows, class by class.

    Parameters
    ----------
    net : HybridBlock
        Returns a map, or a tuple of maps.
    heads : sequence of HybridBlock
        One for each map, which returns candidates as ``Boxes`` does.
    classes : int
        Number of classes.
    size_multiple : int
        Height and width of the images must be multiples of it.
    threshold : float, default 0.25
        From 0 to 1. Candidates with a probability up to this are dropped.
    nms : float, default 0.45
        IoU above 0. A candidate is dropped if its IoU with a more probable one of its class is above this.
    topk : int, default 400
        Number of candidates of an image that go into the suppression, the most probable ones.
    power : float, optional
        Suppress by overlap and distance, with this power: see :class:`DistanceSuppression`. By default candidates are
        suppressed by IoU alone.

    Inputs:
        - **data**: images, (B, 3, H, W).

    Outputs:
        - **ids**: (B, N, 1), class ids. N is ``topk``, or the number of candidates if that is smaller. Rows without a
          detection are -1 in all three outputs.
        - **scores**: (B, N, 1), probabilities in decreasing order.
        - **boxes**: (B, N, 4), left, top, right, bottom in pixels of the input. They may reach beyond the image.

    Raises
    ------
    OpError
        An argument is out of range, or the sides of the images are not multiples of ``size_multiple``.
    """

    def __init__(self, net: HybridBlock, heads: Sequence[HybridBlock], classes: int, size_multiple: int,
                 threshold: float = 0.25, nms: float = 0.45, topk: int = 400,
                 power: float | None = None, **kwargs):
        super().__init__(**kwargs)
        self.classes = classes
        self._multiple = size_multiple
        self.threshold, self.nms, self.topk = parsed("darknet.Detector", OPTIONS, threshold=threshold, nms=nms,
                                                     topk=topk).values()
        with self.name_scope():
            self.net = net
            for i, head in enumerate(heads):
                self.register_child(head, f"head{i}")
            self.suppression = None
            if power is not None:
                self.suppression = DistanceSuppression(self.nms, power)
        self._heads = tuple(heads)

    def forward(self, x: Array, *args: Array) -> tuple[Array, Array, Array]:
        check_sides("darknet.Detector", x, self._multiple)   # here, because hybrid_forward sees no shapes
        return super().forward(x, *args)

    def _best(self, F, rows: Array, nms: float) -> Array:
        """The most probable candidates above the threshold, without those that overlap by more than ``nms``."""
        rows = F.contrib.box_nms(rows, overlap_thresh=nms, valid_thresh=self.threshold, topk=self.topk,
                                 coord_start=2, score_index=1, id_index=0, force_suppress=False)
        return F.slice(rows, begin=(None, 0, None), end=(None, self.topk, None))

    def hybrid_forward(self, F, data: Array) -> tuple[Array, Array, Array]:
        maps = self.net(data)
        if not isinstance(maps, (list, tuple)):
            maps = [maps]
        candidates = [head(activated) for head, activated in zip(self._heads, maps)]
        rows = F.concat(*candidates, dim=1) if len(candidates) > 1 else candidates[0]
        rows = self._best(F, rows, self.nms if self.suppression is None else NO_OVERLAP)
        if self.suppression is not None:
            rows = self._best(F, self.suppression(rows, data), NO_OVERLAP)
        ids = F.slice_axis(rows, axis=2, begin=0, end=1)
        scores = F.slice_axis(rows, axis=2, begin=1, end=2)
        boxes = F.slice_axis(rows, axis=2, begin=2, end=6)
        return ids, scores, boxes


class DetectingNet(EitherModeBlock):
    """A net with :meth:`detector`. A subclass says how its maps are decoded."""

    def _decoders(self, threshold: float) -> tuple[list[HybridBlock], int, int, float | None]:
        """The arguments ``heads``, ``classes``, ``size_multiple`` and ``power`` of :class:`Detector`.

        The heads are new blocks.
        """
        raise NotImplementedError

    def detector(self, threshold: float = 0.25, nms: float = 0.45, topk: int = 400) -> Detector:
        """The net with decoded boxes and non-maximum suppression, as a block that you can hybridize and export.

        Parameters
        ----------
        threshold, nms, topk
            Parameters of :class:`gluonops.darknet.Detector`.

        Returns
        -------
        Detector
            It shares the parameters of this net, which must be initialized. The anchors are constants.

        Raises
        ------
        OpError
            The cfg of the net ends in no detecting layer, the net is not initialized, or an argument is out of range.
        """
        heads, classes, size_multiple, power = self._decoders(threshold)
        contexts, dtype = contexts_and_dtype("darknet.detector", self)
        for head in heads:
            head.initialize(ctx=contexts)
            head.cast(dtype)
        return Detector(self, heads, classes, size_multiple, threshold, nms, topk, power)


def check_sides(where: str, images: Array, multiple: int) -> None:
    """Raise an OpError if the sides of images are not multiples of a number."""
    if isinstance(images, mx.nd.NDArray) and (images.ndim != 4 or any(side % multiple for side in images.shape[2:])):
        raise OpError(where, f"data has shape {images.shape}; expected (batch, channels, height, width) with height "
                      f"and width that are multiples of {multiple}",
                      "Resize the images, for instance with gluonops.data.letterbox")


def contexts_and_dtype(where: str, net: HybridBlock) -> tuple[list[mx.Context], str]:
    """The contexts and the dtype of a net's parameters. A net without any has the current context and float32."""
    parameter = next(iter(net.collect_params().values()), None)
    if parameter is None:
        return [mx.current_context()], "float32"
    try:
        return parameter.list_ctx(), parameter.dtype
    except RuntimeError:
        raise OpError(where, f"{parameter.name} is not initialized; expected a net with parameters that are",
                      "Call net.initialize(), or load weights") from None
