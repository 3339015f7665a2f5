"""MXNet's own operators that compute the same as ours."""
from __future__ import annotations

from typing import Callable

import mxnet as mx


def peers(op: str, shape: tuple[int, ...], **attrs) -> dict[str, Callable]:
    """The peers of an operator, given by its name, the shape of its data and its attributes.

    Returns a dict from names to functions ``run(F, *inputs)`` that compute the same as the operator. ``F`` is ``mx.nd``
    or ``mx.sym``. The dict is empty if MXNet has no such operator. Only reorg and tile read the shape.
    """
    return _PEERS[op](shape, **attrs) if op in _PEERS else {}


def _cross_entropy(shape):
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    return {"gluon loss": lambda F, data, label: loss(data, label)}


def _gelu(shape, approximation="erf"):
    """GELU. MXNet has only one of the approximations."""
    return {"mxnet": lambda F, data: F.LeakyReLU(data, act_type="gelu")} if approximation == "erf" else {}


def _tile(shape, tiles=2, axis=-1):
    reps = [1] * len(shape)
    reps[axis] = tiles
    return {"mxnet": lambda F, data: F.tile(data, reps=reps)}


def _reorg(shape, stride=2, mode="darknet"):
    """Reorg. MXNet has one of the three layouts, and the others need one more permutation."""
    batch, channels, height, width = shape
    s = stride
    larger = batch, channels * s**2, height // s, width // s
    smaller = batch, channels // s**2, height * s, width * s   # its space_to_depth is Darknet's layout
    b, c, h, w = smaller if mode == "darknet" else shape
    blocks = b, c, h // s, s, w // s, s
    order = (0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4)

    def space_to_depth(F, data):
        if mode == "darknet":
            data = F.reshape(data, shape=smaller)
        data = F.space_to_depth(data, block_size=s)
        if mode == "CRD":
            data = F.swapaxes(F.reshape(data, shape=(b, s * s, c, -1)), dim1=1, dim2=2)
        return data if mode == "DCR" else F.reshape(data, shape=larger)

    def transpose(F, data):
        return F.reshape(F.transpose(F.reshape(data, shape=blocks), axes=order), shape=larger)

    return {"space_to_depth": space_to_depth, "transpose": transpose}


_PEERS = {
    "abs": lambda shape: {"mxnet": lambda F, data: F.abs(data)},
    "gelu": _gelu,
    "reorg": _reorg,
    "softmax": lambda shape: {"mxnet": lambda F, data: F.softmax(data)},
    "softmax_cross_entropy": _cross_entropy,
    "softmax_output": lambda shape: {"mxnet": lambda F, data, label: F.SoftmaxOutput(data, label)},
    "tile": _tile,
}
