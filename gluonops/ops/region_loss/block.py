"""The loss ``gluonops.loss.RegionLoss``."""
from __future__ import annotations

from mxnet import nd
from mxnet.gluon.loss import Loss

from ...core import counter, labels
from . import averages
from . import region_loss as _region_loss
from .contract import OP


class RegionLoss(Loss):
    """YOLOv2's loss of every image. The parameters are those of :func:`gluonops.ops.region_loss`.

    In training it counts images in its Parameter `seen`, (1,), so ``initialize()``, save and load the loss as well. On
    several devices each counts its own times their number. (Within a block hybridized with ``static_shape``, waitall()
    before you read it.) `parts` has the parts of every device's last call, (B, 9), and ``report()`` averages them.

    Inputs:
        - **pred**: (B, A*(5+K), H, W).
        - **truth**: (B, T, 5), centre x, centre y, w, h from 0 to 1, class; padded with rows of zeros.

    Outputs:
        - **loss**: (B,).
    """

    def __init__(self, anchors, classes, object_scale=5, noobject_scale=1, coord_scale=1, class_scale=1, thresh=0.6,
                 rescore=True, bias_match=True, softmax=True, warmup_images=12800, box_loss="mse", **kwargs):
        given = {name: value for name, value in locals().items() if name in OP.Attrs._fields}
        super().__init__(None, 0, **kwargs)
        self._attrs, self.parts, self._devices = OP.parse({**given, "parts": True}), {}, None
        self.seen = counter.parameter(self, "seen")

    def set_seen(self, images: int) -> None:
        """Set the number of images seen in training."""
        self.seen.set_data(nd.array([images], dtype="float64"))

    def cast(self, dtype):
        """The loss takes any float type as it is, and the count stays float64."""

    def forward(self, pred, truth):
        if self._devices != counter.devices(self.seen):   # the number is part of the graph
            self._clear_cached_op()
        labels.check_call(OP, self._attrs, {"truth": truth})
        loss, parts, seen = super().forward(pred, truth)
        if isinstance(parts, nd.NDArray):
            self.parts[parts.context] = parts
            counter.settle(self.seen, seen)
        return loss

    def hybrid_forward(self, F, pred, truth, seen):
        self._devices = counter.devices(self.seen)
        images = F.cast(F.slice_axis(F.shape_array(pred), axis=0, begin=0, end=1), dtype="float64")
        seen = counter.advance(F, seen, images * self._devices)
        return (*_region_loss(pred, truth, seen, **self._attrs._asdict()), seen)

    def report(self) -> dict:
        """The averages of `parts`, as the op's page names them: a dict of NDArrays, (1,); nothing waits."""
        return averages(list(self.parts.values()))
