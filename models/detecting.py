"""What the detectors have in common: classes, anchors, and a block that returns detections."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import mxnet as mx
import numpy as np
import numpy.typing as npt
from gluonops.core.attributes import Attr, Float
from gluonops.core.concat import concat
from gluonops.core.emitter import Array
from gluonops.core.errors import OpError
from gluonops.darknet import Boxes, Convolution, Detector, Region
from gluonops.darknet.heads import Yolo
from gluonops.darknet.pooling import Upsample
from mxnet.gluon import HybridBlock

from .classes import class_names, kept_numbers
from .darknet19 import DarknetModel, stack

__all__ = ["ALEXEYAB", "DetectorModel", "Lateral", "Map", "MultiscaleDetector", "Output"]

# The batch norms of AlexeyAB's Darknet.
ALEXEYAB = {"epsilon": 1e-5}


class DetectorModel(DarknetModel):
    """The base class of the detectors. A subclass has the layers.

    Parameters
    ----------
    classes : int or sequence of str
        Names of the classes, or their number.
    anchors : str or array_like
        A name, or widths and heights, (A, 2).

    Attributes
    ----------
    classes : tuple of str
        Names of the classes. If only their number was given, they are "0", "1", ...
    anchors : numpy.ndarray
        (A, 2): widths and heights in pixels, or for YOLOv2 in cells.
    power : float or None
        Power of the suppression; see :class:`gluonops.darknet.Detector`.
    """

    power = None
    _published = {}   # anchors of the published weights, by name
    _unit = "pixels"   # of the anchors

    def __init__(self, classes: int | Sequence[str], anchors: str | npt.ArrayLike, **kwargs):
        super().__init__(**kwargs)
        self.classes = class_names(self._where, classes)
        self.anchors = _anchors(self._where, self._published, anchors, self._unit)

    @property
    def _where(self):
        return f"models.{type(self).__name__}"

    def _outputs(self) -> list[tuple[HybridBlock, int]]:
        """The block that has the layer ``output`` of each map, and the number of anchors."""
        raise NotImplementedError

    def _candidates(self) -> list[HybridBlock]:
        """A new block for each map, which returns candidates as ``Boxes`` does."""
        raise NotImplementedError

    def _make_output(self, in_channels: int, anchors: int) -> Convolution:
        channels = anchors * (5 + len(self.classes))
        return Convolution(channels, 1, in_channels, batch_norm=False, activation="linear", prefix="output_")

    def reset_class(self, classes: int | Sequence[str], reuse_weights: dict | list | None = None) -> None:
        """Change the classes. The net gets new output layers, as in gluoncv's detectors. The other layers stay.

        Parameters
        ----------
        classes : int or sequence of str
            Names of the new classes, or their number.
        reuse_weights : dict or list, optional
            Classes whose weights are kept: ``{new: old}`` by names or class ids, or a list of names that are in both.
            The weights of boxes and objectness are then kept as well. Without it, the whole output layers are
            initialized again.

        Raises
        ------
        OpError
            A class of ``reuse_weights`` does not exist.
        """
        new_classes = class_names(self._where, classes)
        kept = kept_numbers(self._where, self.classes, new_classes, reuse_weights)
        self.classes = new_classes
        for block, anchors in self._outputs():
            self._replace_output(block, anchors, kept)
        self._clear_cached_op()

    def _replace_output(self, block: HybridBlock, anchors: int, kept: list[tuple[int, int]]) -> None:
        old_conv = block.output.conv
        with block.name_scope():
            block.output = self._make_output(old_conv.weight.shape[1], anchors)
        if old_conv.weight._data is not None:
            block.output.initialize(ctx=old_conv.weight.list_ctx())
            _copy(old_conv.weight, block.output.conv.weight, anchors, kept)
            _copy(old_conv.bias, block.output.conv.bias, anchors, kept)
        block._clear_cached_op()

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
            An argument is out of range.
        """
        block, _ = self._outputs()[0]
        weight = block.output.conv.weight
        heads = self._candidates()
        for head in heads:
            head.initialize(ctx=weight.list_ctx())
            head.cast(weight.dtype)
        return Detector(self, heads, len(self.classes), self.stride, threshold, nms, topk, self.power)

    def detect(self, x: Array, threshold: float = 0.25, nms: float = 0.45, topk: int = 400) -> tuple:
        """Detections of a batch. For several batches, keep the result of ``detector()`` and hybridize it.

        Parameters
        ----------
        x : NDArray or Symbol
            Images, (B, 3, H, W), RGB from 0 to 1. H and W are multiples of 32.
        threshold, nms, topk
            Parameters of :class:`gluonops.darknet.Detector`.

        Returns
        -------
        tuple of NDArray or Symbol
            ids (B, N, 1), scores (B, N, 1) and boxes (B, N, 4) in pixels of x, in the format of gluoncv's metrics and
            ``plot_bbox``. Rows without a detection are -1.

        Raises
        ------
        OpError
            An argument is out of range, or H or W is not a multiple of 32.
        """
        return self.detector(threshold, nms, topk)(x)


class Map(NamedTuple):
    """What is known of a map of a :class:`MultiscaleDetector`.

    - ``block``: the attribute of the net that has its layer ``output``.
    - ``stride``: pixels from one cell to the next.
    - ``mask``: numbers of its anchors.
    - ``scale``: ``scale_x_y``; see :class:`gluonops.darknet.heads.Yolo`.
    """

    block: str
    stride: int
    mask: tuple[int, ...]
    scale: float = 1.0


class MultiscaleDetector(DetectorModel):
    """The base class of detectors with several maps: YOLOv3 and YOLOv4. A subclass adds the layers.

    Parameters
    ----------
    classes, anchors
        Those of :class:`DetectorModel`.
    width : float, default 1.0
        Factor of all channels but those of the maps.

    Attributes
    ----------
    maps : tuple of Map
        One for each output.
    """

    maps = ()
    _first = 32   # channels of the first layer with a width of 1

    def __init__(self, classes: int | Sequence[str] = 80, anchors: str | npt.ArrayLike = "coco", width: float = 1.0,
                 **kwargs):
        super().__init__(classes, anchors, **kwargs)
        count = 1 + max(number for one in self.maps for number in one.mask)
        if len(self.anchors) != count:
            raise OpError(self._where, f"there are {len(self.anchors)} anchors; expected {count}",
                          "Pass as many pairs, in increasing order")
        width = Attr("width", Float(above=0), 1.0).parse(self._where, width)
        unit = max(2, 2 * round(self._first * width / 2))   # even, because some layers take half of the channels
        with self.name_scope():
            self._add_layers(unit)

    def _add_layers(self, unit: int) -> None:
        """Add the layers, in the order of Darknet's weights file. ``unit``: channels of the first one."""
        raise NotImplementedError

    def _outputs(self):
        return [(attrgetter(one.block)(self), len(one.mask)) for one in self.maps]

    def _candidates(self):
        return [self._head(one, f"map{i}_") for i, one in enumerate(self.maps)]

    def _head(self, one: Map, prefix: str) -> HybridBlock:
        anchors, classes = self.anchors[list(one.mask)], len(self.classes)
        activated = partial(Region, anchors, classes, class_softmax=False)
        if one.scale != 1:
            activated = partial(Yolo, anchors, classes, one.scale)
        return stack((activated, partial(Boxes, anchors, classes, one.stride)), prefix=prefix)


class Output(HybridBlock):
    """The last layers of a map: a 3x3 convolution and the output layer.

    - ``channels`` and ``in_channels``: channels between the two layers, and of the input.
    - ``make_output``: makes the output layer from its input's channels and the number of anchors, which is 3.
    - ``options``: arguments of :class:`gluonops.darknet.Convolution`.

    Data of (B, in_channels, H, W) becomes the raw map, (B, A*(5+K), H, W).
    """

    def __init__(self, channels: int, in_channels: int, make_output: Callable[[int, int], HybridBlock],
                 prefix: str, **options):
        super().__init__(prefix=prefix)
        with self.name_scope():
            self.conv = Convolution(channels, 3, in_channels, **options)
            self.output = make_output(channels, 3)

    def hybrid_forward(self, F, data):
        return self.output(self.conv(data))


class Lateral(HybridBlock):
    """A coarse map becomes the next finer one: a 1x1 convolution, twice the size, and the finer features beside it.

    - ``channels`` and ``in_channels``: channels of the convolution, and of the coarse map.
    - ``options``: arguments of :class:`gluonops.darknet.Convolution`.

    Data of (B, in_channels, H, W) and (B, C, 2*H, 2*W) becomes (B, channels + C, 2*H, 2*W).
    """

    def __init__(self, channels: int, in_channels: int, prefix: str, **options):
        super().__init__(prefix=prefix)
        self._channels = (channels,)
        with self.name_scope():
            self.conv = Convolution(channels, 1, in_channels, **options)
            self.upsample = Upsample(2)

    def hybrid_forward(self, F, coarse, fine):
        return concat(F, [self.upsample(self.conv(coarse)), fine], self._channels)


def _anchors(where: str, published: Mapping[str, npt.ArrayLike], anchors: str | npt.ArrayLike,
             unit: str) -> np.ndarray:
    """Anchors as float32 (A, 2), from a name or an array. An OpError if they are not pairs of numbers above 0."""
    values = published.get(anchors) if isinstance(anchors, str) else anchors
    try:
        values = np.array(values, "float32")
    except (TypeError, ValueError):
        values = np.zeros(0, "float32")
    if values.ndim != 2 or values.shape[1] != 2 or not len(values) or not (values > 0).all():
        names = "".join(f"{name!r}, " for name in published)
        raise OpError(where, f"anchors are {anchors!r}; expected {names}or pairs of a width and a height above 0",
                      f"Pass an (A, 2) array, in {unit}")
    return values


def _copy(source: mx.gluon.Parameter, target: mx.gluon.Parameter, anchors: int, kept: list[tuple[int, int]]) -> None:
    """Copy the numbers of each anchor that are ``kept``, (target number, source number), to another Parameter."""
    old, values = (parameter.data(parameter.list_ctx()[0]) for parameter in (source, target))
    old, new = (array.reshape((anchors, -1, array.size // len(array))) for array in (old, values))
    for target_number, source_number in kept:
        new[:, target_number] = old[:, source_number]
    target.set_data(values)
