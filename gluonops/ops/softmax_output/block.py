"""The layer ``gluonops.nn.SoftmaxOutput``."""
from mxnet.gluon import HybridBlock

from ...core import labels
from .. import softmax_output as _softmax_output
from .contract import OP


class SoftmaxOutput(HybridBlock):
    """Softmax whose gradient is that of the cross-entropy: Module's loss head. See :func:`gluonops.ops.softmax_output`.

    Call ``backward()`` on its output, without a loss on top: the head gradient is ignored.

    Parameters
    ----------
    axis : int, default -1
        The classes.
    ignore_label : int, optional
        Rows with this label get gradient 0.
    normalization : {'null', 'batch', 'valid'}, default 'null'
        What the gradient is divided by. With a Gluon Trainer keep 'null': ``trainer.step(batch_size)`` divides.
    grad_scale : float, default 1.0
        Multiplies the gradient.

    Inputs:
        - **data**: logits, at least two dimensions.
        - **label**: class indices, the shape of `data` without `axis`.

    Outputs:
        - **out**: probabilities, the shape of `data`.
    """

    def __init__(self, axis=-1, ignore_label=None, normalization="null", grad_scale=1.0, **kwargs):
        super().__init__(**kwargs)
        self._options = {"axis": axis, "ignore_label": ignore_label, "normalization": normalization,
                         "grad_scale": grad_scale}
        self._attrs = OP.parse(self._options)

    def forward(self, data, label):
        labels.check_call(OP, self._attrs, {"data": data, "label": label})
        return super().forward(data, label)

    def hybrid_forward(self, F, data, label):
        return _softmax_output(data, label, **self._options)

    def __repr__(self):
        return f"SoftmaxOutput({', '.join(f'{name}={value}' for name, value in self._options.items())})"
