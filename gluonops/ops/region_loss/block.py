"""The loss ``gluonops.loss.RegionLoss``."""
from collections.abc import Sequence

from ...backends.printed import call_text
from .._region.counting import CountingLoss
from . import region_loss as _region_loss
from .contract import OP


class RegionLoss(CountingLoss, function=_region_loss):
    """The loss of YOLOv2's region layer, per image.

    The loss counts the images of training in its Parameter ``seen``. So call ``initialize()``, save and load it like a
    net. On several devices, each device adds its own images times the number of devices. If the loss is in a block that
    is hybridized with ``static_shape``, call ``mx.nd.waitall()`` before you read ``seen``.
    """

    _learned = ("seen",)

    def __init__(self, anchors: Sequence, classes: int, object_scale: float = 5, noobject_scale: float = 1,
                 coord_scale: float = 1, class_scale: float = 1, thresh: float = 0.6, rescore: bool = True,
                 bias_match: bool = True, softmax: bool = True, warmup_images: int = 12800, box_loss: str = "mse",
                 **kwargs):
        super().__init__(classes, **kwargs)
        self._attrs = OP.parse({
            "anchors": anchors, "classes": classes, "object_scale": object_scale, "noobject_scale": noobject_scale,
            "coord_scale": coord_scale, "class_scale": class_scale, "thresh": thresh, "rescore": rescore, "bias_match":
            bias_match, "softmax": softmax, "warmup_images": warmup_images, "box_loss": box_loss, "parts": True})

    def __repr__(self):
        return call_text(self, {name: value for name, value in self._attrs._asdict().items() if name != "parts"})

    def hybrid_forward(self, F, pred, truth, seen):
        seen = self._count(F, pred, seen)
        return (*self._function(pred, truth, seen, **self._attrs._asdict()), seen)
