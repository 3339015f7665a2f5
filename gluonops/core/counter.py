"""A count that a graph advances by itself, as batch normalization does its running statistics: in training only.

MXNet has no operator that adds to a state, but its optimizers' do: ``sgd_mom_update`` sets momentum * state - gradient.
"""
import mxnet as mx
from mxnet._ctypes.symbol import _symbol_creator

from .backend import full_name
from .native import operator_handle

__all__ = ["advance", "devices", "parameter", "settle"]


def parameter(block, name):
    """A count as a Parameter of ``block``, saved and not trained: (1,), float64, because float32 stops at 2**24."""
    return block.params.get(name, shape=(1,), dtype="float64", init="zeros", grad_req="null", differentiable=False)


def devices(count):
    """On how many devices the Parameter is. MXNet saves their mean, so each adds that many times its own share."""
    return len(count.list_ctx()) if count._data else 1


def settle(count, value):
    """Write what ``advance`` gave into the Parameter once more, engine and all.

    A graph hybridized with ``static_shape`` does not tell the engine that it writes a state: readers would not wait.
    """
    with mx.autograd.pause():
        value.copyto(count.data(value.context))


def advance(F, count, amount):
    """Add ``amount`` to the state ``count`` in training, and give its value; outside training just give it.

    Parameters
    ----------
    F : module
        ``mx.nd`` or ``mx.sym``.
    count, amount : NDArray or Symbol
        (1,), of the same float dtype. ``count`` is a Parameter's array, or a variable: in the graph it becomes an
        auxiliary state.

    Returns
    -------
    NDArray or Symbol
        (1,), the count with ``amount``; without a gradient.
    """
    # Dropout alone tells a graph whether it trains: it doubles a one or drops it, and leaves it alone otherwise.
    training = F.Dropout(F.ones_like(count), p=0.5) != 1
    inputs = [F.zeros_like(count), F.broadcast_mul(training, -amount), count]
    if F is mx.nd:
        return F.BlockGrad(F.sgd_mom_update(*inputs, lr=1, momentum=1))
    # As a Symbol the operator's Python function fails, because it passes the inputs by names that MXNet lacks.
    handle, name = operator_handle("sgd_mom_update"), full_name(None, "count")
    return F.BlockGrad(_symbol_creator(handle, inputs, None, ["lr", "momentum"], [1, 1], name, False))
