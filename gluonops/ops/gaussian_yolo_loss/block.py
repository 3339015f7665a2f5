"""The loss ``gluonops.loss.GaussianYOLOLoss``."""
from __future__ import annotations

from ..yolo_loss.block import YOLOLoss
from . import gaussian_yolo_loss as _gaussian_yolo_loss
from .contract import OP


class GaussianYOLOLoss(YOLOLoss):
    """The loss of all heads of Gaussian YOLOv3, per image: the sum of :func:`gluonops.ops.gaussian_yolo_loss`.

    Parameters, inputs and outputs are those of :class:`gluonops.loss.YOLOLoss`, but for these:

    Parameters
    ----------
    **options
        Those of :func:`gluonops.ops.gaussian_yolo_loss`, such as `box_loss`. A sequence with a value for each head is
        taken as well.

    Inputs:
        - **preds**: for each head the output of its last convolution, (B, A*(9+K), H, W).
    """

    _op = OP
    _function = staticmethod(_gaussian_yolo_loss)
