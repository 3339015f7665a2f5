"""What layers are made of: blocks that wrap a function, blocks that stay in float32, constants, and weights."""
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
    """Make a HybridBlock class of a function. The class has the function's name and docstring, and no parameters.

    ``function`` takes ``F``, the tensors, and then options as keyword-only parameters. The options are the arguments
    of the block. If an option is a HybridBlock, the block's argument is a function that makes it.
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
    """A block that computes in float32, whatever the type of its input is. Its constants stay in float32 as well."""

    def cast(self, dtype: str | np.dtype) -> None:
        """Do nothing: the constants stay in float32."""


def add_constants(block: HybridBlock, **values: npt.ArrayLike) -> None:
    """Give a block float32 parameters that are not trained. An export contains them.

    MXNet names an initializer after the address of the constant, and warns if an earlier constant had the same one.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*New initializer", UserWarning)
        for name, value in values.items():
            setattr(block, name, block.params.get_constant(name, np.asarray(value, "float32")))


class Weighted(EitherModeBlock):
    """A layer whose parameters a weights file holds. A file holds the parameters of such layers and no others."""

    def file_parameters(self) -> list[mx.gluon.Parameter]:
        """The parameters in the order of the file."""
        raise NotImplementedError

    def matrix(self) -> mx.gluon.Parameter | None:
        """The matrix of the layer, which files of some versions hold transposed."""
        return None
