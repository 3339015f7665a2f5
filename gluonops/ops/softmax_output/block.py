"""The layer ``gluonops.nn.SoftmaxOutput``."""
from __future__ import annotations

from mxnet.gluon import HybridBlock

from ...core import labels
from ...core.backend import Array
from .. import softmax_output as _softmax_output
from .contract import OP


class SoftmaxOutput(HybridBlock):
    """Loss head for Module: a softmax with the gradient of the cross-entropy. See :func:`gluonops.ops.softmax_output`.

    It ignores the head gradient. So call ``backward()`` on its output, without a loss behind it.

    Parameters
    ----------
    axis : int, default -1
        Axis of the classes.
    ignore_label : int, optional
        Rows with this label get gradient 0.
    normalization : {'null', 'batch', 'valid'}, default 'null'
        Divisor of the gradient: 1, the batch size, or the number of labels that are not ignored. Use 'null' with a
        Gluon Trainer, because ``trainer.step(batch_size)`` divides.
    grad_scale : float, default 1.0
        Factor of the gradient.

    Inputs:
        - **data**: logits, at least two dimensions; float16, float32 or float64.
        - **label**: class indices, the shape of `data` without `axis`, in any float or integer dtype.

    Outputs:
        - **out**: probabilities, the shape and dtype of `data`.

    Raises
    ------
    OpError
        An argument is out of range.
    """

    def __init__(self, axis: int = -1, ignore_label: int | None = None, normalization: str = "null",
                 grad_scale: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self._options = {"axis": axis, "ignore_label": ignore_label, "normalization": normalization,
                         "grad_scale": grad_scale}
        self._attrs = OP.parse(self._options)

    def forward(self, data: Array, label: Array) -> Array:
        labels.check_call(OP, self._attrs, {"data": data, "label": label})
        return super().forward(data, label)

    def hybrid_forward(self, F, data, label):
        return _softmax_output(data, label, **self._options)

    def __repr__(self):
        options = ", ".join(f"{name}={value}" for name, value in self._options.items())
        return f"SoftmaxOutput({options})"
