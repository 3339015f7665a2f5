"""What the losses of YOLO's maps share that are blocks: their parts, and the number of images that they have seen."""
from __future__ import annotations

from mxnet import nd
from mxnet.gluon.loss import Loss

from ...core import counter, labels
from ...core.block import OperatorPage
from ...core.emitter import Array
from ..region_loss.contract import OP
from .loss import PARTS


class LossWithParts(OperatorPage, Loss):
    """A loss whose graph also returns its parts, which it keeps.

    Attributes
    ----------
    parts : dict of Context to NDArray
        Parts of the last call on each device, summed over the heads, (B, 9). :meth:`report` averages them.
    """

    def __init__(self, **kwargs):
        super().__init__(None, 0, **kwargs)
        self.parts = {}

    def _keep(self, parts: Array) -> None:
        if isinstance(parts, nd.NDArray):
            self.parts[parts.context] = parts

    def report(self) -> dict[str, nd.NDArray]:
        """Averages of the parts of the last batch. It does not wait for the values.

        Returns
        -------
        dict of str to NDArray
            (1,) each. The averages are over images. ``iou``, ``recall`` and ``probability`` are averages over ground
            truths, and 0 if there are none. ``truths`` is the number of ground truths.
        """
        parts = list(self.parts.values())
        sums = sum(part.sum(axis=0).as_in_context(parts[0].context) for part in parts)
        images = sum(part.shape[0] for part in parts)
        truths = sums[-1:]
        result = {name: sums[i:i + 1] / images for i, name in enumerate(PARTS)}
        for name in ("iou", "recall", "probability"):
            result[name] = result[name] * images / nd.maximum(truths, 1)
        result["truths"] = truths
        return result


class CountingLoss(LossWithParts):
    """A loss that counts the images of training in its Parameter `seen`, and returns its parts beside the loss.

    ``hybrid_forward(F, pred, truth, seen)`` returns the loss, the parts, and ``self._count(F, pred, seen)``. The number
    of classes is for the checks of the ground truth.

    Outputs:
        - **loss**: (B,), the dtype of ``pred``.

    Attributes
    ----------
    seen : Parameter
        Number of images seen in training, (1,), float64.
    parts : dict of Context to NDArray
        Parts of the last call on each device, (B, 9). :meth:`report` averages them.
    """

    def __init__(self, classes: int, **kwargs):
        super().__init__(**kwargs)
        self._rows = OP.parse({"anchors": (1, 1), "classes": classes})
        self._devices = None   # number of devices that the graph was built for
        self.seen = counter.parameter(self, "seen")

    def set_seen(self, images: int) -> None:
        """Set the number of images seen in training."""
        self.seen.set_data(nd.array([images], dtype="float64"))

    def cast(self, dtype: str) -> None:
        """Do nothing: the loss has the dtype of `pred`, and `seen` stays float64."""

    def forward(self, pred: Array, truth: Array) -> Array:
        if self._devices != counter.devices(self.seen):   # the graph contains the number of devices
            self._clear_cached_op()
        labels.check_call(self, OP, self._rows, {"truth": truth})
        loss, parts, seen = super().forward(pred, truth)
        self._keep(parts)
        if isinstance(seen, nd.NDArray):
            counter.settle(self.seen, seen)
        return loss

    def _count(self, F, pred: Array, seen: Array) -> Array:
        """The number of images seen with those of this batch."""
        self._devices = counter.devices(self.seen)
        images = F.cast(F.slice_axis(F.shape_array(pred), axis=0, begin=0, end=1), dtype="float64")
        return counter.advance(F, seen, images * self._devices)
