"""yolov4 and tiny_yolov4: object detectors of cross-stage partial networks.

Layers of YOLOv4 for ``data`` of shape (B, 3, H, W), 3 anchors for each map and K classes:

==============  =================================================================  =========================
backbone        CSPDarknet-53: a 3x3 convolution with stride 2 for each stage;     (B, 256, H/8, W/8),
                half of its channels go through residual units (mish)              (B, 512, H/16, W/16),
                                                                                   (B, 1024, H/32, W/32)
pyramid         512 1024 512, poolings of 5, 9 and 13 beside it, 512 1024 512      (B, 512, H/32, W/32)
to_medium       256, twice the size, beside 256 of the features of stride 16;      (B, 256, H/16, W/16)
                then 256 512 256 512 256
to_fine         128, twice the size, beside 128 of the features of stride 8;       (B, 128, H/8, W/8)
                then 128 256 128 256 128
fine            256 and the raw map                                                (B, 3*(5+K), H/8, W/8)
back_to_medium  256 with stride 2, beside to_medium; then 256 512 256 512 256      (B, 256, H/16, W/16)
medium          512 and the raw map                                                (B, 3*(5+K), H/16, W/16)
back_to_coarse  512 with stride 2, beside pyramid; then 512 1024 512 1024 512      (B, 512, H/32, W/32)
coarse          1024 and the raw map                                               (B, 3*(5+K), H/32, W/32)
==============  =================================================================  =========================

Numbers are channels of convolutions with batch norm and leaky ReLU. The channels of a raw map are (3, 5+K): x, y, w, h,
objectness and classes, before the sigmoids. ``net.detect`` computes boxes from the maps. As AlexeyAB's program does, it
suppresses boxes by overlap and distance.

Tiny YOLOv4 has three stages of 64, 128 and 256 channels, in which half of the channels go through two convolutions.

Sources: Bochkovskiy, Wang and Liao, "YOLOv4" (2020); Wang, Bochkovskiy and Liao, "Scaled-YOLOv4" (2021);
AlexeyAB/darknet ``cfg/yolov4.cfg``, ``cfg/yolov4-tiny.cfg``.
"""
from __future__ import annotations

from functools import partial

from gluonops.backends.concat import concat
from gluonops.backends.layer import EitherModeBlock
from gluonops.darknet import Convolution, MaxPool
from gluonops.darknet.net import preprocessing_for
from gluonops.darknet.resizing import Upsample

from .darknet19 import stack
from .detecting import ALEXEYAB, Lateral, Map, MultiscaleDetector, Output
from .weights import network
from .yolov3 import FIRST, RESIDUALS, TINY_COCO, Darknet53Features, Residual, body_of

# Widths and heights in pixels, from the published cfg. Tiny YOLOv4 has the anchors of Tiny YOLOv3.
COCO = ((12, 16), (19, 36), (40, 28), (36, 75), (76, 55), (72, 146), (142, 110), (192, 243), (459, 401))

MISH = {"activation": "mish", **ALEXEYAB}
POOLS = (5, 9, 13)            # sides of the pyramid's poolings
POWER = 0.6                   # greedynms suppresses with it


class PartialStage(EitherModeBlock):
    """A stage of CSPDarknet-53: a convolution with stride 2, then two halves of the channels. One has residual units.

    Data of (B, in_channels, H, W) becomes (B, 2*in_channels, H/2, W/2). In the first stage the halves have all
    channels, and the residual units half of them.
    """

    def __init__(self, in_channels: int, residuals: int, is_first: bool = False, prefix: str | None = None):
        super().__init__(prefix=prefix)
        channels = 2 * in_channels
        half = channels if is_first else in_channels
        self._channels = (half, half)
        with self.name_scope():
            self.reduce = Convolution(channels, 3, in_channels, stride=2, **MISH)
            self.beside = Convolution(half, 1, channels, **MISH)
            units = [partial(Residual, half, in_channels, **MISH)] * residuals
            self.through = stack((partial(Convolution, half, 1, channels, **MISH), *units,
                                  partial(Convolution, half, 1, half, **MISH)), prefix="through_")
            self.merge = Convolution(channels, 1, 2 * half, **MISH)

    def hybrid_forward(self, F, data):
        data = self.reduce(data)
        beside = self.beside(data)
        return self.merge(concat(F, [self.through(data), beside], self._channels))


class CSPDarknet53Features(Darknet53Features):
    """CSPDarknet-53 without its classifier: the backbone of YOLOv4. It is used like Darknet-53."""

    _options = MISH

    def _stage(self, unit, number, prefix=None):
        return PartialStage(unit << number, RESIDUALS[number], is_first=number == 0, prefix=prefix)


class PoolingPyramid(EitherModeBlock):
    """Spatial pyramid pooling: three convolutions, their output concatenated with three poolings of it, and three more.

    Data of (B, in_channels, H, W) becomes (B, channels, H, W).
    """

    def __init__(self, channels: int, in_channels: int, prefix: str):
        super().__init__(prefix=prefix)
        self._channels = (channels,) * (1 + len(POOLS))
        with self.name_scope():
            plan = channels, 2 * channels, channels
            self.before = stack(plan, in_channels, "before_", **ALEXEYAB)
            self.pools = stack([partial(MaxPool, size, 1) for size in POOLS], prefix="pools_")
            self.after = stack(plan, 4 * channels, "after_", **ALEXEYAB)

    def hybrid_forward(self, F, data):
        data = self.before(data)
        pooled = [pool(data) for pool in self.pools]
        return self.after(concat(F, [*pooled[::-1], data], self._channels))


class Finer(EitherModeBlock):
    """Turns a map into the next finer one: convolutions of both are concatenated, and five convolutions follow.

    Data of (B, coarse, H, W) and (B, fine, 2*H, 2*W) becomes (B, channels, 2*H, 2*W).
    """

    def __init__(self, channels: int, coarse: int, fine: int, prefix: str):
        super().__init__(prefix=prefix)
        self._channels = (channels, channels)
        with self.name_scope():
            self.from_coarse = Convolution(channels, 1, coarse, **ALEXEYAB)
            self.upsample = Upsample(2)
            self.from_fine = Convolution(channels, 1, fine, **ALEXEYAB)
            self.body = stack(body_of(channels), 2 * channels, "body_", **ALEXEYAB)

    def hybrid_forward(self, F, coarse, fine):
        larger = self.upsample(self.from_coarse(coarse))
        return self.body(concat(F, [self.from_fine(fine), larger], self._channels))


class Coarser(EitherModeBlock):
    """Turns a map into the next coarser one: a convolution with stride 2, a concatenation, and five convolutions.

    Data of (B, channels/2, 2*H, 2*W) and (B, channels, H, W) becomes (B, channels, H, W).
    """

    def __init__(self, channels: int, prefix: str):
        super().__init__(prefix=prefix)
        self._channels = (channels, channels)
        with self.name_scope():
            self.reduce = Convolution(channels, 3, channels // 2, stride=2, **ALEXEYAB)
            self.body = stack(body_of(channels), 2 * channels, "body_", **ALEXEYAB)

    def hybrid_forward(self, F, fine, coarse):
        return self.body(concat(F, [self.reduce(fine), coarse], self._channels))


class YOLOv4(MultiscaleDetector):
    """YOLOv4. It is used like :class:`gluonops.models.YOLOv3`.

    Images are resized without a letterbox, as AlexeyAB's program does. Its file is ``yolov4.weights``.

    Outputs:
        - **fine**, **medium**, **coarse**: the raw maps, (B, 3*(5+K), H/8, W/8), H/16 and H/32.
    """

    maps = (Map("fine", 8, (0, 1, 2), 1.2), Map("medium", 16, (3, 4, 5), 1.1), Map("coarse", 32, (6, 7, 8), 1.05))
    power = POWER
    preprocessing = preprocessing_for(resize="stretch")
    _published = {"coco": COCO}

    def _add_layers(self, unit):
        self.backbone = CSPDarknet53Features(unit, prefix="cspdarknet53_")
        self.pyramid = PoolingPyramid(16 * unit, 32 * unit, prefix="pyramid_")
        self.to_medium = Finer(8 * unit, 16 * unit, 16 * unit, prefix="to_medium_")
        self.to_fine = Finer(4 * unit, 8 * unit, 8 * unit, prefix="to_fine_")
        self.fine = Output(8 * unit, 4 * unit, self._make_output, prefix="fine_", **ALEXEYAB)
        self.back_to_medium = Coarser(8 * unit, prefix="back_to_medium_")
        self.medium = Output(16 * unit, 8 * unit, self._make_output, prefix="medium_", **ALEXEYAB)
        self.back_to_coarse = Coarser(16 * unit, prefix="back_to_coarse_")
        self.coarse = Output(32 * unit, 16 * unit, self._make_output, prefix="coarse_", **ALEXEYAB)

    def hybrid_forward(self, F, data):
        fine, medium, coarse = self.backbone(data)
        coarse = self.pyramid(coarse)
        medium = self.to_medium(coarse, medium)
        fine = self.to_fine(medium, fine)
        medium = self.back_to_medium(fine, medium)
        coarse = self.back_to_coarse(medium, coarse)
        return self.fine(fine), self.medium(medium), self.coarse(coarse)


class TinyStage(EitherModeBlock):
    """A stage of Tiny YOLOv4: a convolution, and two more that take the second half of its channels.

    Data of (B, channels, H, W) becomes (B, 2*channels, H, W), and (B, channels, H, W): what the two convolutions
    return, merged.
    """

    def __init__(self, channels: int):
        super().__init__()
        self._half = half = channels // 2
        with self.name_scope():
            self.whole = Convolution(channels, 3, channels, **ALEXEYAB)
            self.first = Convolution(half, 3, half, **ALEXEYAB)
            self.second = Convolution(half, 3, half, **ALEXEYAB)
            self.merge = Convolution(channels, 1, channels, **ALEXEYAB)

    def hybrid_forward(self, F, data):
        whole = self.whole(data)
        first = self.first(F.slice_axis(whole, axis=1, begin=self._half, end=None))
        features = self.merge(concat(F, [self.second(first), first], (self._half, self._half)))
        return concat(F, [whole, features], (2 * self._half, 2 * self._half)), features


class TinyYOLOv4Features(EitherModeBlock):
    """The backbone of Tiny YOLOv4.

    Images become features of stride 16, (B, 8*unit, H/16, W/16), and of stride 32, (B, 16*unit, H/32, W/32).
    """

    def __init__(self, unit: int = FIRST, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            first = partial(Convolution, unit, 3, 3, stride=2, **ALEXEYAB)
            self.stem = stack((first, 2 * unit), unit, "stem_", stride=2, **ALEXEYAB)
            self.stages = stack([partial(TinyStage, factor * unit) for factor in (2, 4, 8)], prefix="stages_")
            self.pool = MaxPool(2, 2)
            self.last = Convolution(16 * unit, 3, 16 * unit, **ALEXEYAB)

    def hybrid_forward(self, F, data):
        data = self.stem(data)
        for stage in self.stages:
            data, features = stage(data)
            data = self.pool(data)
        return features, self.last(data)


class TinyYOLOv4(MultiscaleDetector):
    """Tiny YOLOv4. It is used like :class:`YOLOv4`, and has two maps. Its file is ``yolov4-tiny.weights``.

    The first of the anchors has no map.

    Outputs:
        - **coarse**, **medium**: the raw maps, (B, 3*(5+K), H/32, W/32) and (B, 3*(5+K), H/16, W/16).
    """

    # The published net leaves out the smallest anchor, and uses the fourth one twice.
    maps = (Map("coarse", 32, (3, 4, 5), 1.05), Map("medium", 16, (1, 2, 3), 1.05))
    power = POWER
    preprocessing = preprocessing_for(resize="stretch")
    _published = {"coco": TINY_COCO}

    def _add_layers(self, unit):
        self.backbone = TinyYOLOv4Features(unit, prefix="backbone_")
        self.neck = Convolution(8 * unit, 1, 16 * unit, prefix="neck_", **ALEXEYAB)
        self.coarse = Output(16 * unit, 8 * unit, self._make_output, prefix="coarse_", **ALEXEYAB)
        self.to_medium = Lateral(4 * unit, 8 * unit, prefix="to_medium_", **ALEXEYAB)
        self.medium = Output(8 * unit, (4 + 8) * unit, self._make_output, prefix="medium_", **ALEXEYAB)

    def hybrid_forward(self, F, data):
        medium, coarse = self.backbone(data)
        features = self.neck(coarse)
        return self.coarse(features), self.medium(self.to_medium(features, medium))


yolov4 = network("yolov4", YOLOv4, "Load Darknet's file with net.load_darknet('yolov4.weights')")
tiny_yolov4 = network("tiny_yolov4", TinyYOLOv4, "Load Darknet's file with net.load_darknet('yolov4-tiny.weights')")
