"""Constants of a block: parameters that an export contains and that are not trained."""
from __future__ import annotations

import warnings

import mxnet as mx

__all__ = ["constant"]


def constant(params: mx.gluon.ParameterDict, name: str, value: mx.nd.NDArray) -> mx.gluon.Constant:
    """``params.get_constant`` without a warning.

    MXNet names an initializer after the address of the constant, and warns if an earlier constant had the same one.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*New initializer", UserWarning)
        return params.get_constant(name, value)
