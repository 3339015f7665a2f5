"""Sizes that a recorded net is fixed to: torch checks them as MXNet does."""
from __future__ import annotations

import ast

from ..graph import FIXED_AXES
from ..model import ExportedModel
from ..operators.rule_registry import torch
from .converters import TorchCall


def with_one_input(model: ExportedModel) -> ExportedModel:
    """Return the model with nodes that check sizes and read the data alone, without what MXNet compares them with."""
    model = model.copy()
    for node in model.graph.nodes():
        if FIXED_AXES in node.attrs:
            node.inputs[0] = node.inputs[1]
    return model


@torch("_identity_with_attr_like_rhs")
def fixed_sizes(call: TorchCall) -> str:
    axes = ast.literal_eval(call.node.attrs.get(FIXED_AXES, "[]"))
    sizes = ", ".join(f"({axis}, {call.shapes[0][axis]})" for axis in axes)
    return f"fixed_sizes({{0}}, [{sizes}])" if axes else "{0}"
