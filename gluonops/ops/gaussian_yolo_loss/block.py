"""The loss ``gluonops.loss.GaussianYOLOLoss``."""
from __future__ import annotations

from ..yolo_loss.block import YOLOLoss
from . import gaussian_yolo_loss as _gaussian_yolo_loss
from .contract import OP


class GaussianYOLOLoss(YOLOLoss):
    """The loss of all heads of Gaussian YOLOv3, per image: the sum of :func:`gluonops.ops.gaussian_yolo_loss`.

    Parameters
    ----------
    anchors : sequence of float
        Sizes of the net's anchors in pixels of its input, above 0: (w0, h0, w1, h1, ...), or pairs. ``anchors`` of a
        cfg. If the heads have different ones, a list of pairs for each head.
    masks : sequence of sequence of int
        For each head, the numbers of its anchors, from 0. ``mask`` of a cfg.
    strides : sequence of int
        For each head, the pixels of the net's input along a side of a cell, such as 32, 16, 8.
    classes : int
        Number of classes.
    **options
        Those of :func:`gluonops.ops.gaussian_yolo_loss`, such as `box_loss`. A sequence with a value for each head is
        taken as well. `prefix` and `params` are a block's.

    Inputs:
        - **preds**: for each head the output of its last convolution, (B, A*(9+K), H, W), in a list or tuple, or one
          such array for one head; float16, float32 or float64.
        - **truth**: ground truth, (B, T, 5): centre x, centre y, w, h from 0 to 1, class; padded with rows of zeros.

    Outputs:
        - **loss**: (B,), the dtype of `preds`.

    Attributes
    ----------
    parts : dict of Context to NDArray
        Parts of the last call on each device, summed over the heads, (B, 9). :meth:`report` averages them.

    Raises
    ------
    OpError
        An argument is out of range, or the heads do not fit.
    """

    _op = OP
    _function = staticmethod(_gaussian_yolo_loss)
