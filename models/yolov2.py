"""yolov2 and tiny_yolov2: detection in one pass.

``data`` (B, 3, H, W), A anchors, K classes:

===============  =============================================================  ============================
backbone         Darknet-19, or another                                         fine (B, C, H/16, W/16),
                                                                                coarse (B, D, H/32, W/32)
head             two 3x3 convolutions on coarse                                 (B, 1024, H/32, W/32)
passthrough      1x1 convolution on fine, then reorg: 2x2 pixels into channels  (B, 256, H/32, W/32)
merge            3x3 convolution on passthrough and head, side by side          (B, 1024, H/32, W/32)
output           1x1 convolution                                                (B, A*(5+K), H/32, W/32)
===============  =============================================================  ============================

The channels of the raw map are (A, 5+K): x, y, w, h, objectness, classes, before sigmoid and softmax. ``net.detect``
makes boxes of it. Tiny YOLOv2 has nine convolutions in a row and no passthrough.

Sources: Redmon and Farhadi, "YOLO9000" (2016); pjreddie/darknet ``cfg/yolov2-voc.cfg``, ``cfg/yolov2-tiny-voc.cfg``.
"""
from __future__ import annotations

from collections.abc import Sequence

import gluonops.nn
import numpy as np
import numpy.typing as npt
from gluonops.core.attributes import Attr, Int
from gluonops.core.backend import Array
from gluonops.core.errors import OpError
from gluonops.darknet import Boxes, Convolution, Detector, MaxPool, Region
from gluonops.ops._region.contract import VOC_ANCHORS
from mxnet.gluon import nn

from .backbone import gluoncv_features
from .classes import class_names, copied_rows
from .darknet19 import POOL, Darknet19Features, DarknetModel, stack

__all__ = ["TinyYOLOv2", "YOLOv2", "YOLOv2Base", "tiny_yolov2", "yolov2"]

# Widths and heights in cells of 32 pixels, from the published cfgs.
COCO = ((0.57273, 0.677385), (1.87446, 2.06253), (3.33843, 5.47434), (7.88282, 3.52778), (9.77052, 9.16828))
VOC = tuple(zip(VOC_ANCHORS[::2], VOC_ANCHORS[1::2]))
TINY_VOC = ((1.08, 1.19), (3.42, 4.41), (6.63, 11.38), (9.42, 5.11), (16.62, 10.52))

HEAD, PASSTHROUGH = 1024, 64
TINY = (16, POOL, 32, POOL, 64, POOL, 128, POOL, 256, POOL, 512)


class YOLOv2Base(DarknetModel):
    """The output, classes and anchors of both networks; a network supplies the layers before.

    Attributes
    ----------
    classes : tuple of str
        Names; numbers from 0 where only their count was given.
    anchors : numpy.ndarray
        (A, 2): widths and heights in cells of 32 pixels.
    stride : int
        Pixels from one cell to the next.
    class_softmax : bool
        Whether a cell has one class: softmax over the classes, instead of a sigmoid on each.
    """

    _published = {}
    class_softmax = True

    def __init__(self, classes, anchors, **kwargs):
        super().__init__(**kwargs)
        self.classes = class_names(self._where, classes)
        self.anchors = _anchors(self._where, self._published, anchors)

    def _make_output(self, in_channels):
        return Convolution(len(self.anchors) * (5 + len(self.classes)), 1, in_channels, batch_norm=False,
                           activation="linear", prefix="output_")

    @property
    def _where(self):
        return f"models.{type(self).__name__}"

    def reset_class(self, classes: int | Sequence[str], reuse_weights: dict | list | None = None) -> None:
        """Change the classes: a new output layer, as gluoncv's detectors have it. The other layers stay.

        Parameters
        ----------
        classes : int or sequence of str
            The new classes, or how many.
        reuse_weights : dict or list, optional
            Classes to keep the weights of: ``{new: old}`` by names or numbers, or a list of names that are in both. The
            rows for boxes and objectness are kept then, too. Without it the whole output starts anew.

        Raises
        ------
        OpError
            A class of ``reuse_weights`` does not exist.
        """
        old_classes, old = self.classes, self.output
        new_classes = class_names(self._where, classes)
        rows = copied_rows(self._where, old_classes, new_classes, len(self.anchors), reuse_weights)
        self.classes = new_classes
        with self.name_scope():
            self.output = self._make_output(old.conv.weight.shape[1])
        if old.conv.weight._data is not None:
            self.output.initialize(ctx=old.conv.weight.list_ctx())
            for source, target in ((old.conv.weight, self.output.conv.weight), (old.conv.bias, self.output.conv.bias)):
                _copy_rows(source, target, rows)
        self._clear_cached_op()

    def detector(self, threshold: float = 0.25, nms: float = 0.45, topk: int = 400) -> Detector:
        """The net with its boxes and non-maximum suppression, as a block to hybridize and to export.

        Parameters
        ----------
        threshold, nms, topk
            As of :class:`gluonops.darknet.Detector`.

        Returns
        -------
        Detector
            Shares this net's parameters, which have to be initialized. Anchors are constants among its parameters.

        Raises
        ------
        OpError
            An argument is out of range.
        """
        head = nn.HybridSequential(prefix="region_")
        with head.name_scope():
            head.add(Region(self.anchors, len(self.classes), self.class_softmax),
                     Boxes(self.anchors * self.stride, len(self.classes), self.stride))
        head.initialize(ctx=self.output.conv.weight.list_ctx())
        head.cast(self.output.conv.weight.dtype)
        return Detector(self, [head], len(self.classes), self.stride, threshold, nms, topk)

    def detect(self, x: Array, threshold: float = 0.25, nms: float = 0.45, topk: int = 400) -> tuple:
        """Detections of a batch. For many batches keep ``detector()`` and hybridize it.

        Parameters
        ----------
        x : NDArray or Symbol
            Images, (B, 3, H, W), RGB from 0 to 1, H and W multiples of 32.
        threshold, nms, topk
            As of :class:`gluonops.darknet.Detector`.

        Returns
        -------
        tuple of NDArray or Symbol
            ids (B, N, 1), scores (B, N, 1), boxes (B, N, 4) in pixels of x, as gluoncv's metrics and ``plot_bbox`` take
            them; -1 where there is none.

        Raises
        ------
        OpError
            An argument is out of range, or the sides of x do not divide by 32.
        """
        return self.detector(threshold, nms, topk)(x)


class YOLOv2(YOLOv2Base):
    """YOLOv2. See :func:`gluonops.models.yolov2`.

    Parameters
    ----------
    classes : int or sequence of str, default 20
    anchors : {'voc', 'coco'} or array_like, default 'voc'
    backbone : str, default 'darknet19'
    pretrained_backbone : bool, default False

    Inputs:
        - **data**: (B, 3, H, W), H and W multiples of 32, RGB from 0 to 1.

    Outputs:
        - **out**: the raw map, (B, A*(5+K), H/32, W/32).
    """

    _published = {"coco": COCO, "voc": VOC}

    def __init__(self, classes=20, anchors="voc", backbone="darknet19", pretrained_backbone=False, **kwargs):
        super().__init__(classes, anchors, **kwargs)
        with self.name_scope():
            # In the order of Darknet's file.
            if backbone == "darknet19":
                self.backbone, fine, coarse = Darknet19Features(prefix="darknet19_"), 512, 1024
            else:
                self.backbone, fine, coarse = gluoncv_features(backbone, pretrained_backbone)
            self.head = nn.HybridSequential(prefix="head_")
            with self.head.name_scope():
                self.head.add(Convolution(HEAD, 3, coarse), Convolution(HEAD, 3, HEAD))
            self.passthrough = nn.HybridSequential(prefix="passthrough_")
            with self.passthrough.name_scope():
                self.passthrough.add(Convolution(PASSTHROUGH, 1, fine), gluonops.nn.Reorg(2, mode="darknet"))
            self.merge = Convolution(HEAD, 3, 4 * PASSTHROUGH + HEAD, prefix="merge_")
            self.output = self._make_output(HEAD)

    def hybrid_forward(self, F, data):
        fine, coarse = self.backbone(data)
        return self.output(self.merge(F.concat(self.passthrough(fine), self.head(coarse), dim=1)))


class TinyYOLOv2(YOLOv2Base):
    """Tiny YOLOv2. See :func:`gluonops.models.tiny_yolov2`.

    Parameters
    ----------
    classes : int or sequence of str, default 20
    anchors : {'voc', 'coco'} or array_like, default 'voc'
    head_channels : int, default 1024

    Inputs:
        - **data**: (B, 3, H, W), H and W multiples of 32, RGB from 0 to 1.

    Outputs:
        - **out**: the raw map, (B, A*(5+K), H/32, W/32).
    """

    _published = {"coco": COCO, "voc": TINY_VOC}

    def __init__(self, classes=20, anchors="voc", head_channels=HEAD, **kwargs):
        super().__init__(classes, anchors, **kwargs)
        channels = Attr("head_channels", Int(1), HEAD, "channels before the output").parse(self._where, head_channels)
        with self.name_scope():
            self.backbone = stack(TINY, 3, "backbone_")
            self.pool = MaxPool(2, 1)
            self.head = nn.HybridSequential(prefix="head_")
            with self.head.name_scope():
                self.head.add(Convolution(HEAD, 3, TINY[-1]), Convolution(channels, 3, HEAD))
            self.output = self._make_output(channels)

    def hybrid_forward(self, F, data):
        return self.output(self.head(self.pool(self.backbone(data))))


def _copy_rows(source, target, rows):
    """Copy rows of a Parameter to another one; ``rows`` has (target row, source row)."""
    source_values = source.data(source.list_ctx()[0])
    target_values = target.data(target.list_ctx()[0])
    for target_row, source_row in rows:
        target_values[target_row] = source_values[source_row]
    target.set_data(target_values)


def _anchors(where, published, anchors):
    try:
        values = np.array(published.get(anchors) if isinstance(anchors, str) else anchors, "float32")
    except (TypeError, ValueError):
        values = np.zeros(0, "float32")
    if values.ndim != 2 or values.shape[1] != 2 or not len(values) or not (values > 0).all():
        raise OpError(where, f"anchors are {anchors!r}; expected 'voc', 'coco', or pairs of a width and a height above "
                      "0", "Pass an (A, 2) array, in cells of 32 pixels")
    return values


def yolov2(classes: int | Sequence[str] = 20, anchors: str | npt.ArrayLike = "voc", backbone: str = "darknet19",
           pretrained_backbone: bool = False, **kwargs) -> YOLOv2:
    """YOLOv2.

    Parameters
    ----------
    classes : int or sequence of str, default 20
        Names of the classes, or their number.
    anchors : {'voc', 'coco'} or array_like, default 'voc'
        Those of the published weights, or widths and heights in cells of 32 pixels, (A, 2).
    backbone : str, default 'darknet19'
        Or a classifier of gluoncv's zoo by name, such as 'resnet50_v1b', up to its last layer of stride 32. Those were
        trained on images less ImageNet's mean, over its deviation.
    pretrained_backbone : bool, default False
        Download ImageNet's weights of gluoncv's network.
    **kwargs
        ``prefix`` and ``params`` of ``gluon.HybridBlock``.

    Returns
    -------
    YOLOv2
        Takes (B, 3, H, W), RGB from 0 to 1, of any size that is a multiple of 32; returns the raw map. ``net.detect``
        returns detections. Not initialized: ``net.initialize()``, or ``net.load_darknet("yolov2-voc.weights")``.

    Raises
    ------
    OpError
        An argument is out of range, the backbone is unknown, or gluoncv is missing.
    """
    return YOLOv2(classes, anchors, backbone, pretrained_backbone, **kwargs)


def tiny_yolov2(classes: int | Sequence[str] = 20, anchors: str | npt.ArrayLike = "voc", head_channels: int = HEAD,
                **kwargs) -> TinyYOLOv2:
    """Tiny YOLOv2.

    Parameters
    ----------
    classes : int or sequence of str, default 20
        Names of the classes, or their number.
    anchors : {'voc', 'coco'} or array_like, default 'voc'
        Those of the published weights, or widths and heights in cells of 32 pixels, (A, 2).
    head_channels : int, default 1024
        Channels before the output: 1024 in yolov2-tiny-voc, 512 in yolov2-tiny (COCO).
    **kwargs
        ``prefix`` and ``params`` of ``gluon.HybridBlock``.

    Returns
    -------
    TinyYOLOv2
        As :func:`yolov2`.

    Raises
    ------
    OpError
        An argument is out of range.
    """
    return TinyYOLOv2(classes, anchors, head_channels, **kwargs)
