"""The loss ``gluonops.loss.OHEM``."""
from __future__ import annotations

from collections.abc import Callable

from ...backends.block import OpBlock
from ...backends.emitter import Array
from ...backends.printed import call_text
from .. import ohem as _ohem


class OHEM(OpBlock, function=_ohem):
    """Another loss, of its hardest examples only.

    The mean of what it returns over a batch is the mean of the losses that are kept. With ``per_sample`` each sample's
    loss is the mean of its own.

    Parameters
    ----------
    loss : Block or callable
        What computes the losses that are chosen from. A loss block returns one for each sample. A function of
        ``gluonops.ops`` returns one for each row or pixel, such as
        ``functools.partial(gluonops.ops.softmax_cross_entropy, axis=1, ignore_label=255)`` for a segmentation.

    Inputs:
        - **inputs**: those of ``loss``.

    Outputs:
        - **loss**: (batch,), the dtype of ``loss``'s.
    """

    def __init__(self, loss: Callable[..., Array], keep: int | None = None, ratio: float = 0.25,
                 threshold: float | None = None, per_sample: bool = False, **kwargs):
        super().__init__(keep=keep, ratio=ratio, threshold=threshold, per_sample=per_sample, **kwargs)
        self._loss = loss   # a block becomes a child of this one

    def __repr__(self):
        return call_text(self, {"loss": self._loss, **self._options})

    def hybrid_forward(self, F, *inputs):
        losses = self._function(self._loss(*inputs), **self._options)
        sums = F.sum(losses, axis=0, exclude=True)
        is_kept = F.BlockGrad(losses) != 0
        kept = F.sum(is_kept, axis=0, exclude=True)
        if not self._options["per_sample"]:
            kept = F.broadcast_add(F.zeros_like(kept), F.mean(kept))
        return sums / F.where(kept > 0, kept, F.ones_like(kept))
