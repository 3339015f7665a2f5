"""The layer ``gluonops.nn.SoftmaxOutput``."""
from ...backends import label_checks
from ...backends.block import OpBlock
from ...backends.emitter import Array
from .. import softmax_output as _softmax_output
from .contract import OP


class SoftmaxOutput(OpBlock, function=_softmax_output):
    """Loss head for Module: a softmax with the gradient of the cross-entropy.

    It ignores the head gradient. So call ``backward()`` on its output, without a loss behind it. With a Gluon Trainer
    use ``normalization="null"``, because ``trainer.step(batch_size)`` divides.
    """

    def forward(self, data: Array, label: Array) -> Array:
        label_checks.check_call(self, OP, self._attrs, {"data": data, "label": label})
        return super().forward(data, label)
