"""Lets layers of MXNet that are written for legacy arrays run in NumPy mode."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import mxnet as mx
from mxnet.gluon import Block, HybridBlock, contrib, loss, nn, rnn
from mxnet.gluon.model_zoo.vision import mobilenet
from mxnet.util import is_np_array, is_np_shape, np_array

from ..backends import numpy_mode
from ..backends.layer import Child, in_either_mode, view_of
from ..contract.errors import OpError

__all__ = ["for_numpy"]

# The bodies of these call legacy operators. Other layers of Gluon have bodies for both modes.
OF_LEGACY = (
    nn.GroupNorm, nn.InstanceNorm, nn.ReflectionPad2D, contrib.nn.HybridConcurrent, contrib.nn.PixelShuffle1D,
    contrib.nn.PixelShuffle2D, contrib.nn.PixelShuffle3D, contrib.nn.SyncBatchNorm, mobilenet.LinearBottleneck,
    mobilenet.RELU6, rnn.GRUCell, rnn.LSTMCell, rnn.RNNCell, rnn.ResidualCell, rnn.ZoneoutCell,
    loss.CosineEmbeddingLoss, loss.CTCLoss, loss.HingeLoss, loss.HuberLoss, loss.KLDivLoss, loss.LogisticLoss,
    loss.PoissonNLLLoss, loss.SDMLLoss, loss.SquaredHingeLoss, loss.TripletLoss)
CELLS = (rnn.GRUCell, rnn.LSTMCell, rnn.RNNCell)
LAYERS = (rnn.GRU, rnn.LSTM, rnn.RNN)   # They make their first states with a size of 0 for the batch in a trace.


def for_numpy(net: Block) -> Block:
    """Let a net of MXNet's own layers run in NumPy mode, in place.

    After ``npx.set_np()`` some layers of Gluon raise a TypeError, because they call legacy operators inside: GroupNorm,
    InstanceNorm, ReflectionPad2D, HybridConcurrent, PixelShuffle, recurrent cells, ten losses, and so densenet,
    inception, mobilenet_v2 and squeezenet of the model zoo. ``rnn.LSTM`` and its like fail in a hybridized net if they
    are called without states. Such layers of the net compute with legacy arrays from now on, and take and return arrays
    of the mode in force. Nothing is copied, and gradients pass. MXNet's classes are not changed, nor is the net in
    legacy mode.

    Parameters
    ----------
    net : Block
        Initialized or not. Layers that are added later are not changed: call this when the net is complete. It is
        traced again if it is hybridized.

    Returns
    -------
    Block
        The net.

    Raises
    ------
    OpError
        `net` is not a Block.

    Examples
    --------
    >>> import gluonops as gops
    >>> from mxnet import np, npx
    >>> from mxnet.gluon.model_zoo import vision
    >>> npx.set_np()
    >>> net = gops.nn.for_numpy(vision.squeezenet1_1(classes=10))
    >>> net.initialize()
    >>> print(net(np.zeros((1, 3, 64, 64))).shape)
    (1, 10)
    >>> npx.reset_np()
    """
    if not isinstance(net, Block):
        raise OpError("nn.for_numpy", f"net is {type(net).__name__}; expected a Block", "Pass a net or a layer")
    net.apply(_for_numpy)
    net.apply(lambda block: isinstance(block, HybridBlock) and block._clear_cached_op())
    return net


def _for_numpy(block: Block) -> None:
    """Give a block methods of its own, if it is of a class that fails in NumPy mode."""
    if type(block) in OF_LEGACY:
        block.hybrid_forward = functools.partial(in_either_mode(type(block).hybrid_forward), block)
    if type(block) in CELLS:
        block.unroll = functools.partial(_unroll, block)
    if type(block) in (*CELLS, *LAYERS):
        block.begin_state = functools.partial(_begin_state, block)


def _begin_state(block: Block, batch_size: int = 0, func: Callable = mx.nd.zeros, **kwargs: Any) -> list:
    """The first states of a recurrent layer or cell, of the mode in force. A cell's own body asks for legacy ones."""
    if is_np_shape() and batch_size == 0:
        func = functools.partial(_with_open_batch, func)
    states = type(block).begin_state(block, batch_size, func, **kwargs)
    return numpy_mode.to_numpy(states) if is_np_array() else states


def _with_open_batch(func: Callable, shape: tuple[int, ...], **kwargs: Any) -> Any:
    """A state whose batch follows from what reads it: -1 with NumPy's shapes, where 0 is a size."""
    return func(shape=tuple(size or -1 for size in shape), **kwargs)


def _unroll(cell: Block, length: int, inputs: Any, begin_state: Any = None, *options: Any, **named: Any) -> Any:
    """What a cell makes of the steps of a sequence: a body for legacy arrays, which calls the cell itself."""
    if not is_np_array():
        return type(cell).unroll(cell, length, inputs, begin_state, *options, **named)
    base = type(cell)
    calls_cell = type(base.__name__, (base,), {"__call__": lambda _, *arrays: Child(cell)(*arrays)})
    inputs, begin_state, options, named = numpy_mode.to_legacy((inputs, begin_state, options, named))
    with np_array(False):
        outputs = base.unroll(view_of(cell, calls_cell), length, inputs, begin_state, *options, **named)
    return numpy_mode.to_numpy(outputs)
