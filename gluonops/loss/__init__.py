"""The losses: drop-ins for ``mxnet.gluon.loss``, and what it lacks."""
from ..ops.region_loss.block import RegionLoss
from ..ops.softmax_cross_entropy.block import SoftmaxCELoss

__all__ = ["RegionLoss", "SoftmaxCELoss"]
