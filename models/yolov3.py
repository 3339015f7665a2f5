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

from collections.abc import Callable
from functools import partial

from gluonops.backends.layer import EitherModeBlock
from gluonops.darknet import Convolution, MaxPool
from mxnet.gluon import HybridBlock

from .darknet19 import stack
from .detecting import Lateral, Map, MultiscaleDetector, Output
from .weights import network

# Widths and heights in pixels, from the published cfgs.
COCO = ((10, 13), (16, 30), (33, 23), (30, 61), (62, 45), (59, 119), (116, 90), (156, 198), (373, 326))
TINY_COCO = ((10, 14), (23, 27), (37, 58), (81, 82), (135, 169), (344, 319))

FIRST = 32                    # channels of the first layer
RESIDUALS = (1, 2, 8, 8, 4)   # residual units of Darknet-53 behind each convolution with stride 2
HALVE = partial(MaxPool, 2, 2)


class Residual(EitherModeBlock):
    """A residual unit: a 1x1 convolution to ``hidden`` channels, a 3x3 convolution, and the sum with the input."""

    def __init__(self, channels: int, hidden: int, **options):
        super().__init__()
        with self.name_scope():
            self.reduce = Convolution(hidden, 1, channels, **options)
            self.expand = Convolution(channels, 3, hidden, **options)

    def hybrid_forward(self, F, data):
        return F.elemwise_add(self.expand(self.reduce(data)), data)


class Darknet53Features(EitherModeBlock):
    """Darknet-53 without its classifier: the backbone of YOLOv3.

    ``gluonops.darknet.load_weights(features, "darknet53.conv.74")`` loads the published pretrained layers.

    ``unit`` is the number of channels of the first layer.

    Inputs:
        - **data**: (B, 3, H, W), H and W multiples of 32.

    Outputs:
        - **fine**: (B, 8*unit, H/8, W/8).
        - **medium**: (B, 16*unit, H/16, W/16).
        - **coarse**: (B, 32*unit, H/32, W/32).
    """

    _options = {}   # The convolutions take these.

    def __init__(self, unit: int = FIRST, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            first = partial(Convolution, unit, 3, 3, **self._options)
            self.fine = stack((first, *[partial(self._stage, unit, number) for number in range(3)]), prefix="fine_")
            self.medium = self._stage(unit, 3, "medium_")
            self.coarse = self._stage(unit, 4, "coarse_")

    def _stage(self, unit: int, number: int, prefix: str | None = None) -> HybridBlock:
        """A stage: a convolution to half the size and twice the channels, and residual units."""
        channels = unit << number
        residuals = [partial(Residual, 2 * channels, channels)] * RESIDUALS[number]
        return stack((partial(Convolution, 2 * channels, 3, channels, stride=2), *residuals), prefix=prefix)

    def hybrid_forward(self, F, data):
        fine = self.fine(data)
        medium = self.medium(fine)
        return fine, medium, self.coarse(medium)


def body_of(channels: int) -> tuple[int, ...]:
    """The plan of the five convolutions in front of a map's output."""
    return channels, 2 * channels, channels, 2 * channels, channels


class Scale(EitherModeBlock):
    """Five convolutions and the output of a map; see :class:`gluonops.models.detecting.Output`.

    Data of (B, in_channels, H, W) becomes the raw map, (B, A*(5+K), H, W), and features, (B, channels, H, W).
    """

    def __init__(self, channels: int, in_channels: int, make_output: Callable, prefix: str):
        super().__init__(prefix=prefix)
        with self.name_scope():
            self.body = stack(body_of(channels), in_channels, "body_")
            self.last = Output(2 * channels, channels, make_output, prefix="last_")

    def hybrid_forward(self, F, data):
        features = self.body(data)
        return self.last(features), features


class YOLOv3(MultiscaleDetector):
    """YOLOv3.

    ``net.detect`` returns detections. The net is not initialized: call ``net.initialize()`` or
    ``net.load_darknet("yolov3.weights")``.

    Outputs:
        - **coarse**, **medium**, **fine**: the raw maps, (B, 3*(5+K), H/32, W/32), H/16 and H/8.
    """

    maps = (Map("coarse.last", 32, (6, 7, 8)), Map("medium.last", 16, (3, 4, 5)), Map("fine.last", 8, (0, 1, 2)))
    _published = {"coco": COCO}

    def _add_layers(self, unit):
        self.backbone = Darknet53Features(unit, prefix="darknet53_")
        self.coarse = Scale(16 * unit, 32 * unit, self._make_output, prefix="coarse_")
        self.to_medium = Lateral(8 * unit, 16 * unit, prefix="to_medium_")
        self.medium = Scale(8 * unit, (8 + 16) * unit, self._make_output, prefix="medium_")
        self.to_fine = Lateral(4 * unit, 8 * unit, prefix="to_fine_")
        self.fine = Scale(4 * unit, (4 + 8) * unit, self._make_output, prefix="fine_")

    def hybrid_forward(self, F, data):
        fine, medium, coarse = self.backbone(data)
        coarse_map, features = self.coarse(coarse)
        medium_map, features = self.medium(self.to_medium(features, medium))
        fine_map, _ = self.fine(self.to_fine(features, fine))
        return coarse_map, medium_map, fine_map


class TinyYOLOv3(MultiscaleDetector):
    """Tiny YOLOv3. It is used like :class:`YOLOv3`, and has two maps. Its file is ``yolov3-tiny.weights``.

    Outputs:
        - **coarse**, **medium**: the raw maps, (B, 3*(5+K), H/32, W/32) and (B, 3*(5+K), H/16, W/16).
    """

    maps = (Map("coarse", 32, (3, 4, 5)), Map("medium", 16, (0, 1, 2)))
    _first = 16
    _published = {"coco": TINY_COCO}

    def _add_layers(self, unit):
        stages = [step for factor in (2, 4, 8, 16) for step in (HALVE, factor * unit)]
        self.backbone = stack((partial(Convolution, unit, 3, 3), *stages), unit, "backbone_")
        self.neck = stack((HALVE, 32 * unit, partial(MaxPool, 2, 1), 64 * unit, 16 * unit), 16 * unit, "neck_")
        self.coarse = Output(32 * unit, 16 * unit, self._make_output, prefix="coarse_")
        self.to_medium = Lateral(8 * unit, 16 * unit, prefix="to_medium_")
        self.medium = Output(16 * unit, (8 + 16) * unit, self._make_output, prefix="medium_")

    def hybrid_forward(self, F, data):
        medium = self.backbone(data)
        features = self.neck(medium)
        return self.coarse(features), self.medium(self.to_medium(features, medium))


yolov3 = network("yolov3", YOLOv3, "Load Darknet's file with net.load_darknet('yolov3.weights')")
tiny_yolov3 = network("tiny_yolov3", TinyYOLOv3, "Load Darknet's file with net.load_darknet('yolov3-tiny.weights')")
