"""yolov2 and tiny_yolov2: object detectors.

Outputs for ``data`` of shape (B, 3, H, W), A anchors and K classes:

===============  =============================================================  ============================
backbone         Darknet-19, or another                                         fine (B, C, H/16, W/16),
                                                                                coarse (B, D, H/32, W/32)
head             two 3x3 convolutions on coarse                                 (B, 1024, H/32, W/32)
passthrough      1x1 convolution on fine, then reorg: 2x2 pixels into channels  (B, 256, H/32, W/32)
merge            3x3 convolution on passthrough and head, side by side          (B, 1024, H/32, W/32)
output           1x1 convolution                                                (B, A*(5+K), H/32, W/32)
===============  =============================================================  ============================

The channels of the raw map are (A, 5+K): x, y, w, h, objectness and classes, before sigmoid and softmax. ``net.detect``
computes boxes from it. Tiny YOLOv2 is a sequence of nine convolutions without a passthrough.

Sources: Redmon and Farhadi, "YOLO9000" (2016); pjreddie/darknet ``cfg/yolov2-voc.cfg``, ``cfg/yolov2-tiny-voc.cfg``.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import gluonops.nn
import numpy.typing as npt
from gluonops.contract.attributes import Attr, Float, IntOrTuple
from gluonops.contract.errors import OpError
from gluonops.darknet import Boxes, Convolution, MaxPool, Region
from gluonops.ops._region.contract import VOC_ANCHORS

from .backbone import gluoncv_features
from .darknet19 import POOL, Darknet19Features, stack
from .detecting import DetectorModel
from .weights import BackboneOwner, network

# Widths and heights in cells of 32 pixels, from the published cfgs.
COCO = ((0.57273, 0.677385), (1.87446, 2.06253), (3.33843, 5.47434), (7.88282, 3.52778), (9.77052, 9.16828))
VOC = tuple(zip(VOC_ANCHORS[::2], VOC_ANCHORS[1::2]))
TINY_VOC = ((1.08, 1.19), (3.42, 4.41), (6.63, 11.38), (9.42, 5.11), (16.62, 10.52))

HEAD = 1024         # channels of the head
PASSTHROUGH = 64    # channels of the passthrough before reorg
TINY = (16, POOL, 32, POOL, 64, POOL, 128, POOL, 256, POOL, 512)


class YOLOv2Base(DetectorModel, BackboneOwner):
    """The base class of both networks: the output layer, classes and anchors. A subclass adds the layers before it.

    Parameters
    ----------
    classes : int or sequence of str, default 20
        Names of the classes, or their number.
    anchors : {'voc', 'coco'} or array_like, default 'voc'
        The anchors of the published weights, or widths and heights in cells of 32 pixels, (A, 2), above 0.

    Outputs:
        - **out**: the raw map, (B, A*(5+K), H/32, W/32).

    Attributes
    ----------
    anchors : numpy.ndarray
        (A, 2): widths and heights in cells of 32 pixels.
    stride : int
        Pixels from one cell to the next.
    class_softmax : bool
        Whether a box has exactly one class, with a softmax over the classes. Otherwise each class has a sigmoid.
    """

    class_softmax = True
    _unit = "cells of 32 pixels"

    def _outputs(self):
        return [(self, len(self.anchors))]

    def _candidates(self):
        activated = partial(Region, self.anchors, len(self.classes), self.class_softmax)
        boxes = partial(Boxes, self.anchors * self.stride, len(self.classes), self.stride)
        return [stack((activated, boxes), prefix="region_")]


class YOLOv2(YOLOv2Base):
    """YOLOv2.

    ``net.detect`` returns detections. The net is not initialized: call ``net.initialize()`` or
    ``net.load_darknet("yolov2-voc.weights")``.

    Parameters
    ----------
    backbone : str, default 'darknet19'
        ``'darknet19'``, or the name of a classifier in gluoncv's model zoo, such as 'resnet50_v1b'. Its layers up to
        the last one with stride 32 are used. gluoncv's networks were trained on images that were normalized by the
        mean and standard deviation of ImageNet.
    pretrained_backbone : bool, default False
        Whether to download the ImageNet weights of gluoncv's network.

    Raises
    ------
    OpError
        An argument is out of range, the backbone is unknown, or gluoncv is missing.
    """

    _published = {"voc": VOC, "coco": COCO}

    def __init__(self, classes: int | Sequence[str] = 20, anchors: str | npt.ArrayLike = "voc",
                 backbone: str = "darknet19", pretrained_backbone: bool = False, **kwargs):
        super().__init__(classes, anchors, **kwargs)
        with self.name_scope():
            # The children have the order of Darknet's weights file.
            if backbone == "darknet19":
                self.backbone, fine, coarse = Darknet19Features(prefix="darknet19_"), 512, 1024
            else:
                self.backbone, fine, coarse = gluoncv_features(backbone, pretrained_backbone)
            self.head = stack((partial(Convolution, HEAD, 3, coarse), HEAD), HEAD, "head_")
            self.passthrough = stack((partial(Convolution, PASSTHROUGH, 1, fine), partial(gluonops.nn.Reorg, 2)),
                                     prefix="passthrough_")
            self.merge = Convolution(HEAD, 3, 4 * PASSTHROUGH + HEAD, prefix="merge_")
            self.output = self._make_output(HEAD, len(self.anchors))

    def hybrid_forward(self, F, data):
        fine, coarse = self.backbone(data)
        merged = self.merge(F.concat(self.passthrough(fine), self.head(coarse), dim=1))
        return self.output(merged)


class TinyYOLOv2(YOLOv2Base):
    """Tiny YOLOv2. It is used like :class:`YOLOv2`.

    Parameters
    ----------
    head_channels : int or pair of int, default 1024
        Input channels of the output layer: 1024 in yolov2-tiny-voc, 512 in yolov2-tiny (COCO). A pair gives the
        channels of the last two convolutions before the output layer. The first of them has 1024 in both networks.
    width : float, default 1.0
        Factor of the backbone's channels (16 to 512), above 0. For few classes a smaller factor is enough. The net then
        processes larger images in the same time. The package has weights for the backbone with 0.5: initialize the net,
        and call ``net.load_pretrained_backbone()``.
    """

    _published = {"voc": TINY_VOC, "coco": COCO}

    def __init__(self, classes: int | Sequence[str] = 20, anchors: str | npt.ArrayLike = "voc",
                 head_channels: int | tuple[int, int] = HEAD, width: float = 1.0, **kwargs):
        super().__init__(classes, anchors, **kwargs)
        channels = Attr("head_channels", IntOrTuple(1), HEAD).parse(self._where, head_channels)
        channels = channels if isinstance(channels, tuple) else (HEAD, channels)
        if len(channels) != 2:
            raise OpError(self._where, f"head_channels is {channels}; expected a number or two",
                          "Pass for instance (256, 256)")
        first, last = channels
        width = Attr("width", Float(above=0), 1.0).parse(self._where, width)
        layers = [layer if layer == POOL else max(1, round(layer * width)) for layer in TINY]
        with self.name_scope():
            self.backbone = stack(layers, 3, "backbone_")
            self.pool = MaxPool(2, 1)
            self.head = stack((partial(Convolution, first, 3, layers[-1]), partial(Convolution, last, 3, first)),
                              prefix="head_")
            self.output = self._make_output(last, len(self.anchors))

    def hybrid_forward(self, F, data):
        return self.output(self.head(self.pool(self.backbone(data))))


yolov2 = network("yolov2", YOLOv2, "Load Darknet's file with net.load_darknet('yolov2-voc.weights'), or train the "
                 "network with examples/finetune_detector.py")
tiny_yolov2 = network("tiny_yolov2", TinyYOLOv2, "Load Darknet's file with net.load_darknet('yolov2-tiny-voc.weights'),"
                      " load the small backbone in the package with tiny_yolov2(width=0.5), net.initialize() and "
                      "net.load_pretrained_backbone(), or train the network with examples/finetune_detector.py")
