"""Losses of gluonops that have a function of their own in ``losses.txt``, for nets that are written for training.

A loss of gluonops has a function here where the operators of MXNet that it consists of take longer in torch, 1.3 to 4
times as long, or have no converter (``ohem``, ``lovasz_softmax``). ``iou_loss`` and ``yolo_loss`` need none.
"""
from __future__ import annotations

from ...contract import registry
from ..graph import Node, our_name
from ..operators.registry import torch
from ..operators.shapes import attributes_of
from .registry import Call, arguments_of, snippets

FUNCTIONS = registry.entries().keys() & snippets().keys()   # operators of gluonops that a function is named after


@torch(*(f"gluonops_{name}" for name in FUNCTIONS))
def function(call: Call) -> str:
    """A call of the function of the operator's name, which has its arguments."""
    name = our_name(call.node)
    known = arguments_of(name)
    return call.snippet(name, **{key: list(value) if isinstance(value, tuple) else value
                                 for key, value in attributes_of(call.node)._asdict().items() if key in known})


def lacks_arguments(node: Node) -> bool:
    """Whether the function of a node's operator does not have an argument that the node needs."""
    name = our_name(node)
    if name not in FUNCTIONS:
        return False
    op, known, values = registry.get(name).op, arguments_of(name), attributes_of(node)._asdict()
    return any(attr.name not in known and values[attr.name] != attr.default for attr in op.attrs
               if attr.name != "parts")   # It is a second output, which may be read by nothing.
