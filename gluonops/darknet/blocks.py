"""What layers are made of: blocks of one function, blocks that stay in float32, constants, weights of a file."""
from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable

import mxnet as mx
import numpy as np
import numpy.typing as npt
from mxnet.gluon import HybridBlock

from ..backends.layer import EitherModeBlock


def layer(function: Callable) -> type[HybridBlock]:
    """The HybridBlock of a function without parameters, with its name and its page.

    ``function`` takes ``F``, the tensors, and behind them options by name, which are the arguments of the block. Of an
    option that is a HybridBlock, the argument makes it.
    """
    arguments = inspect.signature(function).parameters.values()
    signature = inspect.Signature([argument.replace(kind=argument.POSITIONAL_OR_KEYWORD) for argument in arguments
                                   if argument.kind is argument.KEYWORD_ONLY])

    def __init__(self, *args, prefix=None, params=None, **kwargs):
        EitherModeBlock.__init__(self, prefix=prefix, params=params)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        self._options = bound.arguments
        with self.name_scope():
            for name, argument in signature.parameters.items():
                if argument.annotation in (HybridBlock, "HybridBlock"):
                    setattr(self, name, self._options.pop(name)())

    def hybrid_forward(self, F, *data):
        return function(F, *data, **self._options, **self._children)

    members = {"__init__": __init__, "hybrid_forward": hybrid_forward, "__doc__": function.__doc__,
               "__module__": function.__module__}
    return type(function.__name__, (EitherModeBlock,), members)


class Float32Block(EitherModeBlock):
    """A block that computes in float32 whatever the type of its input, and so keeps its constants in float32."""

    def cast(self, dtype: str | np.dtype) -> None:
        """Do nothing."""


def add_constants(block: HybridBlock, **values: npt.ArrayLike) -> None:
    """Give a block float32 parameters that are not trained. An export contains them.

    MXNet names an initializer after the address of the constant, and warns if an earlier constant had the same one.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*New initializer", UserWarning)
        for name, value in values.items():
            setattr(block, name, block.params.get_constant(name, np.asarray(value, "float32")))


class Weighted(EitherModeBlock):
    """A layer whose parameters a weights file holds. A file holds those of these blocks, and no others."""

    def file_parameters(self) -> list[mx.gluon.Parameter]:
        """The parameters in the order of the file."""
        raise NotImplementedError

    def matrix(self) -> mx.gluon.Parameter | None:
        """The parameter that files of some versions hold transposed."""
        return None
