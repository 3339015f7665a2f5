"""How a block is printed."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mxnet.gluon import Block

__all__ = ["call_text"]


def call_text(block: Block, arguments: Mapping[str, Any]) -> str:
    """The class of a block and the arguments it was made with, such as ``Softmax(axis=1, temperature=1.0)``.

    Parameters
    ----------
    block : Block
    arguments : dict of str to object

    Returns
    -------
    str
    """
    values = ", ".join(f"{name}={value}" for name, value in arguments.items())
    return f"{type(block).__name__}({values})"
