"""The losses: drop-ins for ``mxnet.gluon.loss``."""
from ..ops.softmax_cross_entropy.block import SoftmaxCELoss

__all__ = ["SoftmaxCELoss"]
