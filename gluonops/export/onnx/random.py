"""Converters of random numbers. ONNX's operators draw others, of the same distribution."""
from __future__ import annotations

import numpy as np

from .model import Call, Tensor, onnx_type
from .registry import converts


@converts("_random_normal", "_random_normal_like", "_random_uniform", "_random_uniform_like")
def drawn(call: Call) -> Tensor:
    if "normal" in call.node.op:
        op, options = "RandomNormal", call.floats(mean=("loc", 0.0), scale=("scale", 1.0))
    else:
        op, options = "RandomUniform", call.floats(low=("low", 0.0), high=("high", 1.0))
    if call.inputs:
        return call.inputs[0].apply(f"{op}Like", dtype=onnx_type(call.dtype), **options)
    return call.model.add(op, shape=call.shape, dtype=onnx_type(call.dtype), **options)


@converts("_sample_multinomial")
def multinomial(call: Call) -> Tensor:
    """ONNX takes the logarithms of the probabilities, a row for each image."""
    if call.flag("get_prob"):
        raise call.refuse("returns the probabilities of what it draws")
    *batch, classes = call.shapes[0]
    count = int(np.prod(call.shape[len(batch):], dtype=int))
    rows = call.inputs[0].apply("Log").reshape((*batch, classes) if batch else (1, classes))
    found = rows.apply("Multinomial", sample_size=count, dtype=onnx_type(call.dtype))
    return found.reshape(call.shape)
