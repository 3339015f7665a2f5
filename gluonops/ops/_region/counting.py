"""What the blocks for the losses of YOLO's maps share: their parts, and the number of images that they have seen."""
from __future__ import annotations

from mxnet import autograd, nd
from mxnet._ctypes.symbol import _symbol_creator
from mxnet.gluon.loss import Loss

from ...backends import label_checks, numpy_mode
from ...backends.block import OperatorPage
from ...backends.emitter import Array, full_name
from ...backends.layer import EitherModeBlock
from ...backends.native import operator_handle
from ..region_loss.contract import OP
from .loss import PARTS


class LossWithParts(OperatorPage, EitherModeBlock, Loss):
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
            self.parts[parts.context] = numpy_mode.to_legacy(parts)

    def report(self) -> dict[str, nd.NDArray]:
        """Return averages of the parts of the last batch. It does not wait for the values.

        Returns
        -------
        dict of str to NDArray
            Arrays of shape (1,). The averages are over images, except that ``iou``, ``recall`` and ``probability`` are
            averages over ground truths, and 0 if there are none. ``truths`` is the number of ground truths.
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

    ``hybrid_forward(F, pred, truth, seen)`` returns the loss, the parts, and ``self._count(F, pred, seen)``. The checks
    of the ground truth need the number of classes.

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
        self.seen = self.params.get("seen", shape=(1,), dtype="float64", init="zeros",   # float32 stops at 2**24
                                    grad_req="null", differentiable=False)

    def set_seen(self, images: int) -> None:
        """Set the number of images seen in training."""
        self.seen.set_data(numpy_mode.array([images], "float64"))

    def cast(self, dtype: str) -> None:
        """Do nothing: the loss has the dtype of `pred`, and `seen` stays float64."""

    def forward(self, pred: Array, truth: Array) -> Array:
        if self._devices != self._count_devices():   # the graph contains the number of devices
            self._clear_cached_op()
        label_checks.check_call(self, OP, self._rows, {"truth": truth})
        loss, parts, seen = super().forward(pred, truth)
        self._keep(parts)
        if isinstance(seen, nd.NDArray):
            # A graph hybridized with static_shape does not tell the engine that it writes a state, so readers would not
            # wait for it. This write tells it.
            with autograd.pause():
                seen.copyto(self.seen.data(seen.context))
        return loss

    def _count_devices(self) -> int:
        """Return the number of devices. MXNet saves their mean, so each one adds its own count times this number."""
        return len(self.seen.list_ctx()) if self.seen._data else 1

    def _count(self, F, pred: Array, seen: Array) -> Array:
        """Return the number of images seen, to which training adds those of this batch. It has no gradient.

        In the graph ``seen`` is an auxiliary state. MXNet has no operator that adds to a state, except for its
        optimizers: ``sgd_mom_update`` sets the state to momentum * state - gradient.
        """
        self._devices = self._count_devices()
        images = F.cast(F.slice_axis(F.shape_array(pred), axis=0, begin=0, end=1), dtype="float64") * self._devices
        # Only Dropout tells a graph whether it trains: in training it makes a one 2 or 0, otherwise it leaves it 1.
        training = F.Dropout(F.ones_like(seen), p=0.5) != 1
        inputs = [F.zeros_like(seen), F.broadcast_mul(training, -images), seen]
        if F is nd:
            return F.BlockGrad(F.sgd_mom_update(*inputs, lr=1, momentum=1))
        # The operator's Python function fails for Symbols: it passes the inputs by names that MXNet does not know.
        handle, name = operator_handle("sgd_mom_update"), full_name(None, "count")
        return F.BlockGrad(_symbol_creator(handle, inputs, None, ["lr", "momentum"], [1, 1], name, False))
