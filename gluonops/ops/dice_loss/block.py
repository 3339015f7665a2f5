"""The loss ``gluonops.loss.DiceLoss``."""
from __future__ import annotations

import mxnet as mx
from mxnet.gluon.loss import _apply_weighting

from ...contract.op import Attr, Choice
from .. import dice_loss as _dice_loss
from .._labels.block import LabelledLoss
from .contract import OP

ACTIVATION = Attr("activation", Choice("softmax", "sigmoid"), "softmax")


class DiceLoss(LabelledLoss, function=_dice_loss):
    """1 minus the Dice coefficient of a segmentation and its label.

    Parameters
    ----------
    activation : {'softmax', 'sigmoid'}, default 'softmax'
        What makes probabilities of logits. With a sigmoid every channel is a mask of its own, which may overlap others.

    Inputs:
        - **label**: class indices in any float or integer dtype, (batch, ...). With a sigmoid 1 for the pixels of a
          mask and 0 elsewhere, in the shape of ``pred``.
        - **sample_weight**: optional; it must broadcast against (batch, classes), such as (batch, 1) or (1, classes).

    Outputs:
        - **loss**: (batch,), the dtype of ``pred``: the mean over the classes.
    """

    def __init__(self, smooth: float = 1e-5, squared: bool = True, ignore_label: int | None = None,
                 weight: float | None = None, activation: str = "softmax", **kwargs):
        super().__init__(weight, smooth=smooth, squared=squared, ignore_label=ignore_label, **kwargs)
        self._activation = ACTIVATION.parse("loss.DiceLoss", activation)

    def _check(self, pred, label):
        if self._activation == "softmax":
            return super()._check(pred, label)
        if pred.ndim < 2 or pred.shape != label.shape:
            raise OP.error(f"label has shape {label.shape} and pred {pred.shape}; expected one shape for both, because "
                           "activation is 'sigmoid'", "Pass a mask of zeros and ones for each channel")
        return super()._check(*_as_samples(mx.nd, pred, label))

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        if self._activation == "softmax":
            losses = _dice_loss(pred, label, **self._options)
        else:   # the loss of a mask is that of the second of its two classes
            of_samples = _dice_loss(*_as_samples(F, pred, label), **self._options)
            of_masks = F.slice_axis(of_samples, axis=1, begin=1, end=2)
            losses = F.reshape_like(of_masks, F.BlockGrad(pred), lhs_begin=0, lhs_end=2, rhs_begin=0, rhs_end=2)
        return F.mean(_apply_weighting(F, losses, self._weight, sample_weight), axis=1)


def _as_samples(F, pred, label):
    """Return each mask as a sample of the two classes 0 and 1: logits of shape (batch * masks, 2, ...).

    Their softmax is the sigmoid of the mask.
    """
    logits = F.expand_dims(F.reshape(pred, shape=(-3, -2)), axis=1)
    return F.concat(F.zeros_like(F.BlockGrad(logits)), logits, dim=1), F.reshape(label, shape=(-3, -2))
