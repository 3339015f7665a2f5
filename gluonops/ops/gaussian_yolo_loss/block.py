"""The loss ``gluonops.loss.GaussianYOLOLoss``."""
from ..yolo_loss.block import YOLOLoss
from . import gaussian_yolo_loss as _gaussian_yolo_loss


class GaussianYOLOLoss(YOLOLoss, function=_gaussian_yolo_loss):
    """The loss of all heads of Gaussian YOLOv3, per image: the sum of the operator's.

    Inputs:
        - **preds**: for each head the output of its last convolution, (B, A*(9+K), H, W).
    """

    __init__ = YOLOLoss.__init__   # an early Python 3.11, as Debian 12 has it, finds no signature otherwise
