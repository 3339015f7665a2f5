"""Darknet's layers as HybridBlocks: the ones that need no module of their own, and the names of the others.

No layer reads a shape.
"""
from __future__ import annotations

from mxnet.gluon import HybridBlock

from ..core.emitter import Array
from ..ops import softmax
from .activations import ACTIVATIONS, Identity, Mish
from .merging import Multiply, PartialShortcut, Route, Shortcut
from .pooling import AvgPool, Blur, Crop, DepthPool, LocalAvgPool, MaxPool
from .weighted import BatchNorm, Connected, Convolution, Local, WeightedShortcut

__all__ = ["ACTIVATIONS", "AvgPool", "BatchNorm", "Blur", "Connected", "Convolution", "Crop", "DepthPool", "Extend",
           "Identity", "Local", "LocalAvgPool", "MaxPool", "Mish", "Multiply", "PartialShortcut", "Route", "Shortcut",
           "Softmax", "Upsample", "WeightedShortcut"]


class Extend(HybridBlock):
    """Darknet's ``[reorg]`` with ``extra``: the numbers of an image in a row, and zeros behind them.

    ``extra``: number of zeros.

    Inputs:
        - **data**: (B, ...).

    Outputs:
        - **out**: (B, N + extra).
    """

    def __init__(self, extra: int, **kwargs):
        super().__init__(**kwargs)
        self._extra = extra

    def hybrid_forward(self, F, data: Array) -> Array:
        row = F.Flatten(data)
        zero = F.zeros_like(F.slice_axis(row, axis=1, begin=0, end=1))
        return F.concat(row, *[zero] * self._extra, dim=1)


class Upsample(HybridBlock):
    """Darknet's ``[upsample]``: repeats each pixel ``stride`` x ``stride`` times and multiplies it by ``scale``.

    Inputs:
        - **data**: (B, C, H, W).

    Outputs:
        - **out**: (B, C, H*stride, W*stride).
    """

    def __init__(self, stride: int = 2, scale: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self._stride = stride
        self._scale = scale

    def hybrid_forward(self, F, data: Array) -> Array:
        data = F.UpSampling(data, scale=self._stride, sample_type="nearest")
        return data if self._scale == 1 else data * self._scale


class Softmax(HybridBlock):
    """Darknet's ``[softmax]``: the numbers of an image in a row, in ``groups`` of one size, and the softmax of each.

    ``temperature``: the input is divided by it.

    Inputs:
        - **data**: (B, ...).

    Outputs:
        - **out**: (B, N).
    """

    def __init__(self, groups: int = 1, temperature: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self._groups = groups
        self._temperature = temperature

    def hybrid_forward(self, F, data: Array) -> Array:
        rows = F.reshape(data, shape=(0, self._groups, -1))
        return F.Flatten(softmax(rows, axis=-1, temperature=self._temperature))
