"""The losses of gluonops that a net which is written for training calls as a function of ``loss_functions.txt``.

A loss has such a function for one of two reasons. Written with MXNet's operators it is 1.3 to 4 times slower in torch,
or one of these operators has no converter, as in ``ohem`` and ``lovasz_softmax``. ``iou_loss`` and ``yolo_loss`` need
no function.
"""
from __future__ import annotations

from ...contract import registry
from ..graph import Node, our_name
from ..operators.rule_registry import torch
from ..operators.shape_rules import attributes_of
from .converters import TorchCall, arguments_of, snippets

FUNCTIONS = registry.entries().keys() & snippets().keys()   # operators of gluonops that a function is named after


@torch(*(f"gluonops_{name}" for name in FUNCTIONS))
def function(call: TorchCall) -> str:
    """Return a call of the function of the operator's name, which has its arguments."""
    name = our_name(call.node)
    parameters = arguments_of(name)
    return call.snippet(name, **{key: list(value) if isinstance(value, tuple) else value
                                 for key, value in attributes_of(call.node)._asdict().items() if key in parameters})


def lacks_arguments(node: Node) -> bool:
    """Return whether the function of a node's operator does not have an argument that the node needs."""
    name = our_name(node)
    if name not in FUNCTIONS:
        return False
    op, parameters, values = registry.get(name).op, arguments_of(name), attributes_of(node)._asdict()
    return any(attr.name not in parameters and values[attr.name] != attr.default for attr in op.attrs
               if attr.name != "parts")   # It is a second output, which may be read by nothing.
