"""What layers are made of: blocks that are one function, blocks that stay in float32, and constants."""
from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable

import mxnet as mx
import numpy as np
from mxnet.gluon import HybridBlock

__all__ = ["Float32Block", "constant", "layer"]


def layer(function: Callable) -> type[HybridBlock]:
    """The HybridBlock of a function without parameters, with its name and its page.

    ``function`` takes ``F``, the tensors, and behind them options by name, which are the arguments of the block.
    """
    arguments = inspect.signature(function).parameters.values()
    signature = inspect.Signature([argument.replace(kind=argument.POSITIONAL_OR_KEYWORD) for argument in arguments
                                   if argument.kind is argument.KEYWORD_ONLY])

    def __init__(self, *args, prefix=None, params=None, **kwargs):
        HybridBlock.__init__(self, prefix=prefix, params=params)
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        self._options = given.arguments

    def hybrid_forward(self, F, *data):
        return function(F, *data, **self._options)

    members = {"__init__": __init__, "hybrid_forward": hybrid_forward, "__doc__": function.__doc__,
               "__module__": function.__module__}
    return type(function.__name__, (HybridBlock,), members)


class Float32Block(HybridBlock):
    """A block that computes in float32 whatever the type of its input, and so keeps its constants in float32."""

    def cast(self, dtype: str | np.dtype) -> None:
        """Do nothing."""


def constant(params: mx.gluon.ParameterDict, name: str, value: mx.nd.NDArray) -> mx.gluon.Constant:
    """``params.get_constant`` without a warning: a parameter that an export contains and that is not trained.

    MXNet names an initializer after the address of the constant, and warns if an earlier constant had the same one.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*New initializer", UserWarning)
        return params.get_constant(name, value)
