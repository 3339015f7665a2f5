"""A counter that a graph advances in training only, as batch normalization updates its running statistics.

MXNet has no operator that adds to a state, except for its optimizers: ``sgd_mom_update`` sets the state to
momentum * state - gradient.
"""
from __future__ import annotations

import mxnet as mx
from mxnet._ctypes.symbol import _symbol_creator

from .emitter import Array, full_name
from .native import operator_handle


def parameter(block: mx.gluon.Block, name: str) -> mx.gluon.Parameter:
    """A counter as a Parameter of ``block``, saved and not trained: (1,), float64, because float32 stops at 2**24."""
    return block.params.get(name, shape=(1,), dtype="float64", init="zeros", grad_req="null", differentiable=False)


def devices(count: mx.gluon.Parameter) -> int:
    """The number of devices that hold the Parameter.

    MXNet saves the mean over the devices, so each device adds its own count times this number.
    """
    return len(count.list_ctx()) if count._data else 1


def settle(count: mx.gluon.Parameter, value: mx.nd.NDArray) -> None:
    """Write the result of ``advance`` into the Parameter again, through the engine.

    A graph hybridized with ``static_shape`` does not tell the engine that it writes a state, so readers would not wait
    for it.
    """
    with mx.autograd.pause():
        value.copyto(count.data(value.context))


def advance(F, count: Array, amount: Array) -> Array:
    """Add ``amount`` to the state ``count`` in training, and return its value; outside training only return it.

    Both are (1,), of the same float dtype, and so is the result, which has no gradient. ``count`` is a Parameter's
    array, or a variable: in the graph it becomes an auxiliary state.
    """
    # Only Dropout tells a graph whether it trains: in training it makes a one 2 or 0, otherwise it leaves it 1.
    training = F.Dropout(F.ones_like(count), p=0.5) != 1
    inputs = [F.zeros_like(count), F.broadcast_mul(training, -amount), count]
    if F is mx.nd:
        return F.BlockGrad(F.sgd_mom_update(*inputs, lr=1, momentum=1))
    # The operator's Python function fails for Symbols: it passes the inputs by names that MXNet does not know.
    handle, name = operator_handle("sgd_mom_update"), full_name(None, "count")
    return F.BlockGrad(_symbol_creator(handle, inputs, None, ["lr", "momentum"], [1, 1], name, False))
