"""What the detectors have in common: classes, anchors, and a block that returns detections."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import mxnet as mx
import numpy as np
import numpy.typing as npt
from gluonops.backends.block import page, sections
from gluonops.backends.concat import concat
from gluonops.backends.emitter import Array
from gluonops.backends.layer import EitherModeBlock
from gluonops.contract.attributes import Attr, Float
from gluonops.contract.errors import OpError, plural
from gluonops.darknet import Boxes, Convolution
from gluonops.darknet.detector import DetectingNet
from gluonops.darknet.heads import yolo_block
from gluonops.darknet.resizing import Upsample
from gluonops.data.base import listed
from mxnet.gluon import HybridBlock

from .darknet19 import DarknetModel, class_names, stack

# The batch norms of AlexeyAB's Darknet.
ALEXEYAB = {"epsilon": 1e-5}
BOX = 5   # an anchor's x, y, w, h and objectness


class DetectorModel(DarknetModel, DetectingNet):
    """The base class of the detectors.

    A subclass adds the layers, and inherits this page where it has no text of its own.

    Parameters
    ----------
    classes : int or sequence of str
        Names of the classes, or their number.
    anchors : str or array_like
        A name, or widths and heights, (A, 2).
    **kwargs : optional
        ``prefix`` and ``params`` of ``gluon.HybridBlock``.

    Inputs:
        - **data**: (B, 3, H, W), H and W multiples of 32, RGB from 0 to 1.

    Attributes
    ----------
    classes : tuple of str
        Names of the classes. If only their number was given, they are "0", "1", ...
    anchors : numpy.ndarray
        (A, 2): widths and heights in pixels, or for YOLOv2 in cells.
    power : float or None
        Power of the suppression; see :class:`gluonops.darknet.Detector`.

    Raises
    ------
    OpError
        An argument is out of range.
    """

    power = None
    _published = {}   # anchors of the published weights, by name
    _unit = "pixels"   # Anchors are in this unit.

    _own = sections(__doc__)

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls._own = sections(cls.__doc__)
        cls.__doc__ = page(cls)

    def __init__(self, classes: int | Sequence[str], anchors: str | npt.ArrayLike, **kwargs):
        super().__init__(**kwargs)
        self.classes = class_names(self._where, classes)
        self.anchors = _anchors(self._where, self._published, anchors, self._unit)

    @property
    def _where(self):
        return f"models.{type(self).__name__}"

    def _outputs(self) -> list[tuple[HybridBlock, int]]:
        """For each map, the block that has its layer ``output``, and the number of its anchors."""
        raise NotImplementedError

    def _candidates(self) -> list[HybridBlock]:
        """A new block for each map, which returns candidates as ``Boxes`` does."""
        raise NotImplementedError

    def _make_output(self, in_channels: int, anchors: int) -> Convolution:
        channels = anchors * (BOX + len(self.classes))
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
        kept = _kept_numbers(self._where, self.classes, new_classes, reuse_weights)
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

    def _decoders(self, threshold):
        return self._candidates(), len(self.classes), self.stride, self.power

    def detect(self, x: Array, threshold: float = 0.25, nms: float = 0.45, topk: int = 400) -> tuple:
        """Detect objects in a batch. For several batches, keep the result of ``detector()`` and hybridize it.

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
    """The facts about a map of a :class:`MultiscaleDetector`."""

    block: str              # the attribute of the net that has its layer ``output``
    stride: int             # pixels from one cell to the next
    mask: tuple[int, ...]   # numbers of its anchors
    scale: float = 1.0      # ``scale_x_y``; see gluonops.darknet.heads.Yolo


class MultiscaleDetector(DetectorModel):
    """The base class of detectors with several maps: YOLOv3 and YOLOv4. A subclass adds the layers.

    Parameters
    ----------
    classes : int or sequence of str, default 80
        Names of the classes, or their number.
    anchors : {'coco'} or array_like, default 'coco'
        The anchors of the published weights, or widths and heights in pixels, above 0, from small to large: (9, 2), or
        (6, 2) for a tiny net.
    width : float, default 1.0
        Factor of all channels but those of the maps, above 0. For few classes a smaller factor is enough.

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
            raise OpError(self._where, f"anchors has {plural(len(self.anchors), 'pair')}; expected {count}",
                          f"Pass {count} pairs, in increasing order")
        width = Attr("width", Float(above=0), 1.0).parse(self._where, width)
        unit = max(2, 2 * round(self._first * width / 2))   # Some layers take half of the channels.
        with self.name_scope():
            self._add_layers(unit)

    def _add_layers(self, unit: int) -> None:
        """Add the layers, in the order of Darknet's weights file.

        ``unit`` is the number of channels of the first one.
        """
        raise NotImplementedError

    def _outputs(self):
        return [(attrgetter(one.block)(self), len(one.mask)) for one in self.maps]

    def _candidates(self):
        heads, classes = [], len(self.classes)
        for i, one in enumerate(self.maps):
            anchors = self.anchors[list(one.mask)]
            activated = partial(yolo_block, anchors, classes, one.scale)
            heads.append(stack((activated, partial(Boxes, anchors, classes, one.stride)), prefix=f"map{i}_"))
        return heads


class Output(EitherModeBlock):
    """The last layers of a map: a 3x3 convolution to ``channels``, and the output layer.

    ``make_output`` makes it from its input's channels and the number of anchors, which is 3. Data of
    (B, in_channels, H, W) becomes the raw map, (B, A*(5+K), H, W).
    """

    def __init__(self, channels: int, in_channels: int, make_output: Callable[[int, int], HybridBlock],
                 prefix: str, **options):
        super().__init__(prefix=prefix)
        with self.name_scope():
            self.conv = Convolution(channels, 3, in_channels, **options)
            self.output = make_output(channels, 3)

    def hybrid_forward(self, F, data):
        return self.output(self.conv(data))


class Lateral(EitherModeBlock):
    """Turns a coarse map into the next finer one: a 1x1 convolution, an upsampling by 2, and a concatenation with the
    finer features.

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
    """Anchors as float32 (A, 2), from a name or an array.

    An OpError is raised if they are not pairs of numbers above 0.
    """
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


def _kept_numbers(where: str, old: tuple[str, ...], new: tuple[str, ...],
                 reuse: dict | list | None) -> list[tuple[int, int]]:
    """The numbers of an anchor that are kept when the classes change: x, y, w, h, objectness and the classes.

    - ``old`` and ``new``: names of the old and of the new classes.
    - ``reuse``: the classes to keep: ``{new: old}`` by names or class ids, or a list of names that are in both. With
      None, no class is kept.

    The result is (new number, old number). If a class is kept, box and objectness are kept as well. An OpError is
    raised if a class does not exist, or ``reuse`` has another type.
    """
    if isinstance(reuse, (list, tuple)):
        reuse = {name: name for name in reuse}
    if reuse is not None and not isinstance(reuse, dict):
        raise OpError(where, f"reuse_weights is {reuse!r}; expected None, a dict of new to old classes, or a list of "
                      "names", "Pass for instance {'person': 14}")
    if not reuse:
        return []
    kept = [(number, number) for number in range(BOX)]
    for new_class, old_class in reuse.items():
        kept.append((BOX + _class_id(where, "new", new, new_class), BOX + _class_id(where, "old", old, old_class)))
    return kept


def _class_id(where, which, classes, key):
    """The class id of a name or class id."""
    if isinstance(key, str) and key in classes:
        return classes.index(key)
    if isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(classes):
        return key
    raise OpError(where, f"reuse_weights names {key!r}, which is none of the {len(classes)} {which} classes",
                  f"The {which} classes are {listed(classes, 8)}")


def _copy(source: mx.gluon.Parameter, copy: mx.gluon.Parameter, anchors: int, kept: list[tuple[int, int]]) -> None:
    """Copy the numbers of each anchor that are ``kept``, (new number, old number), to another Parameter."""
    old, values = (parameter.data(parameter.list_ctx()[0]) for parameter in (source, copy))
    old, new = (array.reshape((anchors, -1, array.size // len(array))) for array in (old, values))
    for new_number, old_number in kept:
        new[:, new_number] = old[:, old_number]
    copy.set_data(values)
