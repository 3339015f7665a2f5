"""The base class of our layers, which makes them take the arrays and symbols of both of MXNet's interfaces.

MXNet has two kinds of arrays: ``mx.nd.NDArray``, and since 1.6 ``mx.np.ndarray`` after ``npx.set_np()``. An operator of
one interface refuses the arrays of the other. The bodies of our layers are written for ``mx.nd`` and ``mx.sym``. In
NumPy mode a body still sees these: its inputs and parameters are converted, NumPy mode is off while it runs, and its
outputs are converted back. No array is copied, and gradients pass. Children were made in the caller's mode (a
``Conv2D`` chooses its operator then), so each child is called in that mode.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mxnet.base import MXNetError
from mxnet.gluon import Block, HybridBlock
from mxnet.util import is_np_array, np_array

from ..contract.errors import OpError
from . import numpy_mode


class EitherModeBlock(HybridBlock):
    """A block whose ``hybrid_forward`` is written for legacy arrays and symbols, and runs in NumPy mode as well."""

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        body = vars(cls).get("hybrid_forward")
        if body is not None:
            cls.hybrid_forward = in_either_mode(body)

    def __call__(self, *inputs: Any) -> Any:
        """Call the block. Arrays and parameters that do not belong to one mode are an OpError."""
        try:
            return super().__call__(*inputs)
        except (OpError, MXNetError):
            raise
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            numpy_mode.check_call(self, inputs, error)
            raise


def in_either_mode(body: Callable) -> Callable:
    """Return the ``hybrid_forward`` of a block in both modes, from one for legacy arrays and symbols."""
    @functools.wraps(body)
    def hybrid_forward(self: HybridBlock, F: Any, *inputs: Any, **parameters: Any) -> Any:
        if not is_np_array():
            return body(self, F, *inputs, **parameters)
        numpy_mode.check_inputs(self.name, inputs)
        with np_array(False):
            outputs = body(_seen_by_body(self), F, *numpy_mode.to_legacy(inputs), **numpy_mode.to_legacy(parameters))
        return numpy_mode.to_numpy(outputs)

    return hybrid_forward


def _seen_by_body(block: Block) -> Block:
    """Return the block as its own body sees it in NumPy mode: its children take legacy arrays."""
    return view_of(block, _view_class(type(block))) if block._children else block


def view_of(block: Block, cls: type[Block]) -> Block:
    """Return an object of another class with the attributes of a block."""
    view = object.__new__(cls)
    object.__setattr__(view, "__dict__", block.__dict__)
    return view


@functools.cache
def _view_class(cls: type[Block]) -> type[Block]:
    """Return a subclass whose attributes are those of the block, with each child as :class:`Child`."""
    def __getattribute__(self: Block, name: str) -> Any:
        return _wrapped(object.__getattribute__(self, name))

    return type(cls.__name__, (cls,), {"__getattribute__": __getattribute__, "__module__": cls.__module__,
                                       "__doc__": cls.__doc__})


def _wrapped(value: Any) -> Any:
    """Return a child, or children in a collection, as a body calls them."""
    if isinstance(value, Block):
        return Child(value)
    if type(value) in (list, tuple):
        return type(value)(map(_wrapped, value)) if any(isinstance(item, Block) for item in value) else value
    if isinstance(value, dict) and any(isinstance(item, Block) for item in value.values()):
        return {key: _wrapped(item) for key, item in value.items()}
    return value


class Child:
    """A child that takes and returns legacy arrays, and itself runs in NumPy mode."""

    def __init__(self, block: Block):
        self._block = block

    def __call__(self, *inputs: Any) -> Any:
        with np_array(True):
            outputs = self._block(*numpy_mode.to_numpy(inputs))
        return numpy_mode.to_legacy(outputs)

    def __getattr__(self, name: str) -> Any:
        return _wrapped(getattr(self._block, name))

    def __getitem__(self, key: int | slice) -> Any:
        return _wrapped(self._block[key])

    def __iter__(self) -> Any:
        return map(_wrapped, self._block)

    def __len__(self) -> int:
        return len(self._block)
