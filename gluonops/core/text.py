"""How a block is printed."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mxnet.gluon import Block
from mxnet.initializer import Initializer

__all__ = ["call_text"]


def call_text(block: Block, arguments: Mapping[str, Any]) -> str:
    """The class of a block and the arguments it was made with, such as ``Softmax(axis=1, temperature=1.0)``."""
    return _call(block, arguments)


def _call(made: object, arguments: Mapping[str, Any]) -> str:
    values = ", ".join(f"{name}={_text(value)}" for name, value in arguments.items())
    return f"{type(made).__name__}({values})"


def _text(value: object) -> str:
    """A value; an initializer as the call that made it, which MXNet prints as an address."""
    return _call(value, value._kwargs) if isinstance(value, Initializer) else str(value)
