"""What the losses share that count the images they have seen."""
from mxnet import nd
from mxnet.gluon.loss import Loss

from ...core import counter, labels
from ...core.block import OperatorPage
from ...core.emitter import Array
from ..region_loss import averages
from ..region_loss.contract import OP


class CountingLoss(OperatorPage, Loss):
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
        super().__init__(None, 0, **kwargs)
        self._rows = OP.parse({"anchors": (1, 1), "classes": classes})
        self._devices = None   # number of devices that the graph was built for
        self.parts = {}
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
        if isinstance(parts, nd.NDArray):
            self.parts[parts.context] = parts
            counter.settle(self.seen, seen)
        return loss

    def _count(self, F, pred: Array, seen: Array) -> Array:
        """The number of images seen with those of this batch."""
        self._devices = counter.devices(self.seen)
        images = F.cast(F.slice_axis(F.shape_array(pred), axis=0, begin=0, end=1), dtype="float64")
        return counter.advance(F, seen, images * self._devices)

    def report(self) -> dict:
        """The averages of `parts`, as :func:`gluonops.ops.region_loss.averages` returns them."""
        return averages(list(self.parts.values()))
