"""yolov3 and tiny_yolov3: object detectors with maps of several sizes.

Layers of YOLOv3 for ``data`` of shape (B, 3, H, W), 3 anchors for each map and K classes:

==========  ====================================================================  =========================
backbone    Darknet-53: 3x3 convolutions with stride 2, and residual units        (B, 256, H/8, W/8),
                                                                                  (B, 512, H/16, W/16),
                                                                                  (B, 1024, H/32, W/32)
coarse      512 1024 512 1024 512, then the output: 1024 and the raw map          (B, 3*(5+K), H/32, W/32)
to_medium   256, twice the size, beside the features of stride 16                 (B, 768, H/16, W/16)
medium      256 512 256 512 256, then the output: 512 and the raw map             (B, 3*(5+K), H/16, W/16)
to_fine     128, twice the size, beside the features of stride 8                  (B, 384, H/8, W/8)
fine        128 256 128 256 128, then the output: 256 and the raw map             (B, 3*(5+K), H/8, W/8)
==========  ====================================================================  =========================

Numbers are channels of convolutions with batch norm and leaky ReLU. A convolution that reduces the number of channels
is 1x1, and the others are 3x3. The channels of a raw map are (3, 5+K): x, y, w, h, objectness and classes, before the
sigmoids. ``net.detect`` computes boxes from the maps.

Tiny YOLOv3 has seven 3x3 convolutions with poolings between them, and the first two of these maps.

Sources: Redmon and Farhadi, "YOLOv3: An Incremental Improvement" (2018); pjreddie/darknet ``cfg/yolov3.cfg``,
``cfg/yolov3-tiny.cfg``.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy.typing as npt
from gluonops.darknet import Convolution, MaxPool
from mxnet.gluon import HybridBlock, nn

from .detecting import Lateral, Map, MultiscaleDetector, Output, alternate, unit_of

__all__ = ["Darknet53Features", "Residual", "TinyYOLOv3", "YOLOv3", "tiny_yolov3", "yolov3"]

# Widths and heights in pixels, from the published cfgs.
COCO = ((10, 13), (16, 30), (33, 23), (30, 61), (62, 45), (59, 119), (116, 90), (156, 198), (373, 326))
TINY_COCO = ((10, 14), (23, 27), (37, 58), (81, 82), (135, 169), (344, 319))

FIRST = 32                    # channels of YOLOv3's first layer
RESIDUALS = (1, 2, 8, 8, 4)   # residual units of Darknet-53 behind each convolution with stride 2
TINY_FIRST = 16


class Residual(HybridBlock):
    """A residual unit: a 1x1 and a 3x3 convolution, whose output is added to the input.

    - ``channels``: channels of the input and of the output.
    - ``hidden``: channels between the convolutions.
    - ``options``: arguments of :class:`gluonops.darknet.Convolution`.

    Inputs:
        - **data**: (B, channels, H, W).

    Outputs:
        - **out**: the same shape.
    """

    def __init__(self, channels: int, hidden: int, **options):
        super().__init__()
        with self.name_scope():
            self.reduce = Convolution(hidden, 1, channels, **options)
            self.expand = Convolution(channels, 3, hidden, **options)

    def hybrid_forward(self, F, data):
        return F.elemwise_add(self.expand(self.reduce(data)), data)


class Darknet53Features(HybridBlock):
    """Darknet-53 without its classifier: the backbone of YOLOv3.

    ``gluonops.darknet.load_weights(features, "darknet53.conv.74")`` loads the published pretrained layers.

    ``unit``: channels of the first layer.

    Inputs:
        - **data**: (B, 3, H, W), H and W multiples of 32.

    Outputs:
        - **fine**: (B, 8*unit, H/8, W/8).
        - **medium**: (B, 16*unit, H/16, W/16).
        - **coarse**: (B, 32*unit, H/32, W/32).
    """

    def __init__(self, unit: int = FIRST, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.fine = nn.HybridSequential(prefix="fine_")
            with self.fine.name_scope():
                self.fine.add(Convolution(unit, 3, 3))
                self.fine.add(*[_stage(unit << i, count) for i, count in enumerate(RESIDUALS[:3])])
            self.medium = _stage(8 * unit, RESIDUALS[3], prefix="medium_")
            self.coarse = _stage(16 * unit, RESIDUALS[4], prefix="coarse_")

    def hybrid_forward(self, F, data):
        fine = self.fine(data)
        medium = self.medium(fine)
        return fine, medium, self.coarse(medium)


def _stage(in_channels, residuals, prefix=None):
    """A convolution to half the size and twice the channels, and residual units."""
    block = nn.HybridSequential(prefix=prefix)
    with block.name_scope():
        block.add(Convolution(2 * in_channels, 3, in_channels, stride=2))
        block.add(*[Residual(2 * in_channels, in_channels) for _ in range(residuals)])
    return block


class Scale(HybridBlock):
    """Five convolutions and the output of a map.

    - ``channels`` and ``in_channels``: channels of the features behind the convolutions, and of the input.
    - ``make_output``: see :class:`gluonops.models.detecting.Output`.

    Inputs:
        - **data**: (B, in_channels, H, W).

    Outputs:
        - **map**: the raw map, (B, A*(5+K), H, W).
        - **features**: (B, channels, H, W).
    """

    def __init__(self, channels: int, in_channels: int, make_output: Callable, prefix: str):
        super().__init__(prefix=prefix)
        with self.name_scope():
            self.body = alternate(channels, 5, in_channels, prefix="body_")
            self.last = Output(2 * channels, channels, make_output, prefix="last_")

    def hybrid_forward(self, F, data):
        features = self.body(data)
        return self.last(features), features


class YOLOv3(MultiscaleDetector):
    """YOLOv3. :func:`gluonops.models.yolov3` describes the parameters.

    Inputs:
        - **data**: (B, 3, H, W), H and W multiples of 32, RGB from 0 to 1.

    Outputs:
        - **coarse**, **medium**, **fine**: the raw maps, (B, 3*(5+K), H/32, W/32), H/16 and H/8.
    """

    function = "yolov3"
    weights_file = "yolov3.weights"
    maps = (Map(32, (6, 7, 8)), Map(16, (3, 4, 5)), Map(8, (0, 1, 2)))
    _published = {"coco": COCO}

    def __init__(self, classes: int | Sequence[str] = 80, anchors: str | npt.ArrayLike = "coco", width: float = 1.0,
                 **kwargs):
        super().__init__(classes, anchors, **kwargs)
        unit = unit_of(self._where, FIRST, width)
        with self.name_scope():
            # The children have the order of Darknet's weights file.
            self.backbone = Darknet53Features(unit, prefix="darknet53_")
            self.coarse = Scale(16 * unit, 32 * unit, self._make_output, prefix="coarse_")
            self.to_medium = Lateral(8 * unit, 16 * unit, prefix="to_medium_")
            self.medium = Scale(8 * unit, (8 + 16) * unit, self._make_output, prefix="medium_")
            self.to_fine = Lateral(4 * unit, 8 * unit, prefix="to_fine_")
            self.fine = Scale(4 * unit, (4 + 8) * unit, self._make_output, prefix="fine_")

    def _output_blocks(self):
        return [self.coarse.last, self.medium.last, self.fine.last]

    def hybrid_forward(self, F, data):
        fine, medium, coarse = self.backbone(data)
        coarse_map, features = self.coarse(coarse)
        medium_map, features = self.medium(self.to_medium(features, medium))
        fine_map, _ = self.fine(self.to_fine(features, fine))
        return coarse_map, medium_map, fine_map


class TinyYOLOv3(MultiscaleDetector):
    """Tiny YOLOv3. :func:`gluonops.models.tiny_yolov3` describes the parameters.

    Inputs:
        - **data**: (B, 3, H, W), H and W multiples of 32, RGB from 0 to 1.

    Outputs:
        - **coarse**, **medium**: the raw maps, (B, 3*(5+K), H/32, W/32) and (B, 3*(5+K), H/16, W/16).
    """

    function = "tiny_yolov3"
    weights_file = "yolov3-tiny.weights"
    maps = (Map(32, (3, 4, 5)), Map(16, (0, 1, 2)))
    _published = {"coco": TINY_COCO}

    def __init__(self, classes: int | Sequence[str] = 80, anchors: str | npt.ArrayLike = "coco", width: float = 1.0,
                 **kwargs):
        super().__init__(classes, anchors, **kwargs)
        unit = unit_of(self._where, TINY_FIRST, width)
        with self.name_scope():
            # The children have the order of Darknet's weights file.
            self.backbone = nn.HybridSequential(prefix="backbone_")
            with self.backbone.name_scope():
                self.backbone.add(Convolution(unit, 3, 3))
                for channels in (2 * unit, 4 * unit, 8 * unit, 16 * unit):
                    self.backbone.add(MaxPool(2, 2), Convolution(channels, 3, channels // 2))
            self.neck = nn.HybridSequential(prefix="neck_")
            with self.neck.name_scope():
                self.neck.add(MaxPool(2, 2), Convolution(32 * unit, 3, 16 * unit), MaxPool(2, 1),
                              Convolution(64 * unit, 3, 32 * unit), Convolution(16 * unit, 1, 64 * unit))
            self.coarse = Output(32 * unit, 16 * unit, self._make_output, prefix="coarse_")
            self.to_medium = Lateral(8 * unit, 16 * unit, prefix="to_medium_")
            self.medium = Output(16 * unit, (8 + 16) * unit, self._make_output, prefix="medium_")

    def _output_blocks(self):
        return [self.coarse, self.medium]

    def hybrid_forward(self, F, data):
        medium = self.backbone(data)
        features = self.neck(medium)
        return self.coarse(features), self.medium(self.to_medium(features, medium))


def yolov3(classes: int | Sequence[str] = 80, anchors: str | npt.ArrayLike = "coco", width: float = 1.0,
           **kwargs) -> YOLOv3:
    """YOLOv3.

    Parameters
    ----------
    classes : int or sequence of str, default 80
        Names of the classes, or their number.
    anchors : {'coco'} or array_like, default 'coco'
        The anchors of the published weights, or widths and heights in pixels, (9, 2), above 0, from small to large.
    width : float, default 1.0
        Factor of all channels but those of the maps, above 0. For few classes a smaller factor is enough.
    **kwargs
        ``prefix`` and ``params`` of ``gluon.HybridBlock``. ``pretrained=True`` is refused.

    Returns
    -------
    YOLOv3
        Maps images (B, 3, H, W), RGB from 0 to 1, to three raw maps. H and W are multiples of 32. ``net.detect``
        returns detections. The net is not initialized: call ``net.initialize()`` or
        ``net.load_darknet("yolov3.weights")``.

    Raises
    ------
    OpError
        An argument is out of range.
    """
    return YOLOv3.made(classes, anchors, width, kwargs)


def tiny_yolov3(classes: int | Sequence[str] = 80, anchors: str | npt.ArrayLike = "coco", width: float = 1.0,
                **kwargs) -> TinyYOLOv3:
    """Tiny YOLOv3.

    Parameters
    ----------
    classes, width, **kwargs
        Those of :func:`yolov3`.
    anchors : {'coco'} or array_like, default 'coco'
        The anchors of the published weights, or widths and heights in pixels, (6, 2), above 0, from small to large.

    Returns
    -------
    TinyYOLOv3
        It is used like the net of :func:`yolov3`, and has two maps. Its file is ``yolov3-tiny.weights``.

    Raises
    ------
    OpError
        An argument is out of range.
    """
    return TinyYOLOv3.made(classes, anchors, width, kwargs)
