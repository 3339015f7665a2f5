"""The losses: drop-ins for ``mxnet.gluon.loss``, and what it lacks."""
from ..ops.center_loss.block import CenterLoss
from ..ops.region_loss.block import RegionLoss
from ..ops.softmax_cross_entropy.block import SoftmaxCELoss
from .focal import FocalLoss

__all__ = ["CenterLoss", "FocalLoss", "RegionLoss", "SoftmaxCELoss"]
