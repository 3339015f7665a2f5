"""The loss ``gluonops.loss.OHEM``."""
from __future__ import annotations

from collections.abc import Callable

from mxnet.gluon import HybridBlock

from ...core.backend import Array
from ...core.text import call_text
from .. import ohem as _ohem
from .contract import OP


class OHEM(HybridBlock):
    """Another loss, of its hardest examples only. See :func:`gluonops.ops.ohem`.

    The mean of what it returns over a batch is the mean of the losses that are kept. With `per_sample` each sample's
    loss is the mean of its own.

    Parameters
    ----------
    loss : Block or callable
        What computes the losses that are chosen from. A loss block returns one for each sample. A function of
        ``gluonops.ops`` returns one for each row or place, such as
        ``functools.partial(gluonops.ops.softmax_cross_entropy, axis=1, ignore_label=255)`` for a segmentation.
    keep : int, optional
        How many losses are kept, at least 0. The default is as many as `ratio` says.
    ratio : float, default 0.25
        The fraction of the losses that count that are kept, from 0 to 1, where `keep` is None.
    threshold : float, optional
        Larger losses are kept as well, however many there are.
    per_sample : bool, default False
        Whether each sample has a selection of its own.

    Inputs:
        - those of `loss`.

    Outputs:
        - **loss**: (batch,), the dtype of `loss`'s.

    Raises
    ------
    OpError
        An argument is out of range.
    """

    def __init__(self, loss: Callable[..., Array], keep: int | None = None, ratio: float = 0.25,
                 threshold: float | None = None, per_sample: bool = False, **kwargs):
        super().__init__(**kwargs)
        self._options = {"keep": keep, "ratio": ratio, "threshold": threshold, "per_sample": per_sample}
        OP.parse(self._options)
        self._per_sample = per_sample
        self._function = loss   # a block becomes a child of this one

    def __repr__(self):
        return call_text(self, {"loss": self._function, **self._options})

    def hybrid_forward(self, F, *inputs):
        losses = _ohem(self._function(*inputs), **self._options)
        sums = F.sum(losses, axis=0, exclude=True)
        is_kept = F.BlockGrad(losses) != 0
        kept = F.sum(is_kept, axis=0, exclude=True)
        if not self._per_sample:
            kept = F.broadcast_add(F.zeros_like(kept), F.mean(kept))
        return sums / F.where(kept > 0, kept, F.ones_like(kept))
