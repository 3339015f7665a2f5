"""Converters of random numbers. ONNX's operators draw others, of the same distribution."""
from __future__ import annotations

import numpy as np

from .model import Call, Model, onnx_type
from .registry import converts

# ONNX's names of the parameters: MXNet's, and their defaults.
NORMAL = {"mean": ("loc", 0.0), "scale": ("scale", 1.0)}
UNIFORM = {"low": ("low", 0.0), "high": ("high", 1.0)}


@converts("_random_normal", "_random_normal_like", "_random_uniform", "_random_uniform_like")
def drawn(model: Model, call: Call) -> str:
    op, names = ("RandomNormal", NORMAL) if "normal" in call.node.op else ("RandomUniform", UNIFORM)
    options = {name: float(call.value(*item)) for name, item in names.items()}
    if call.inputs:
        return model.add(f"{op}Like", call.inputs[0], dtype=onnx_type(call.dtype), **options)
    return model.add(op, shape=call.shape, dtype=onnx_type(call.dtype), **options)


@converts("_sample_multinomial")
def multinomial(model: Model, call: Call) -> str:
    """ONNX takes the logarithms of the probabilities, a row for each image."""
    if call.flag("get_prob"):
        raise call.refuse("returns the probabilities of what it draws")
    data, (*batch, classes) = call.inputs[0], call.shapes[0]
    count = int(np.prod(call.shape[len(batch):], dtype=int))
    rows = model.reshape(model.add("Log", data), (*batch, classes) if batch else (1, classes))
    found = model.add("Multinomial", rows, sample_size=count, dtype=onnx_type(call.dtype))
    return model.reshape(found, call.shape)
