"""The losses: drop-ins for ``mxnet.gluon.loss``, and more of their kind."""
from ..ops.center_loss.block import CenterLoss
from ..ops.softmax_cross_entropy.block import SoftmaxCELoss
from .focal import FocalLoss

__all__ = ["CenterLoss", "FocalLoss", "SoftmaxCELoss"]
