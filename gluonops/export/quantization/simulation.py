"""The error that quantizing a layer makes, from a float model with rounded tensors."""
from __future__ import annotations

from collections.abc import Iterable, Sequence

import mxnet as mx

from ..graph import Node
from ..model import ExportedModel
from .calibration import Ranges
from .layers import last_activation, layers_of, per_channel, quantized_weight, tensor_names
from .running import Batch, relative_error, run


def simulated(model: ExportedModel, ranges: Ranges, names: Iterable[str]) -> ExportedModel:
    """A float model that computes what int8 layers would: their inputs, weights and outputs are rounded to 8 bits.

    - ``model``: for inference, of MXNet's operators only.
    - ``ranges``: ranges of the layers' inputs and outputs.
    - ``names``: names of the layers.
    """
    model, names = model.copy(), set(names)
    tensors = tensor_names(model.graph)
    for layer in layers_of(model):
        if layer.name in names:
            weight = layer.source(1).name
            integers, scale = quantized_weight(model.parameters[weight].asnumpy())
            model.parameters[weight] = mx.nd.array(integers * per_channel(scale, integers.ndim), dtype="float32")
            entry, last = layer.inputs[0], last_activation(model.graph, layer)
            if (entry[0].name, entry[1]) in tensors:   # or another layer's rounded output
                layer.inputs[0] = _rounded(layer, entry, *ranges[tensors[entry[0].name, entry[1]]])
            output = _rounded(last, (last, 0), *ranges[tensors[last.name, 0]])
            model.graph.replace({(last, 0): output})
            output[0].source().inputs = [(last, 0)]
    return model


def _rounded(node, entry, low, high):
    """A tensor in 8 bits, as MXNet's quantizer rounds it: symmetric around 0, or without a sign."""
    place = "input" if entry[0] is not node else "output"
    attrs = {"out_type": "auto", "min_calib_range": repr(low), "max_calib_range": repr(high)}
    quantized = Node("_contrib_quantize_v2", f"{node.name}_{place}_quantized", attrs, [entry])
    return Node("_contrib_dequantize", f"{node.name}_{place}_rounded", {"out_type": "float32"},
                [(quantized, 0), (quantized, 1), (quantized, 2)]), 0


def errors_of_layers(model: ExportedModel, ranges: Ranges, names: Sequence[str],
                     batches: Sequence[Batch]) -> dict[str, float]:
    """The error of the outputs if one layer alone is quantized, for each layer.

    - ``model``: for inference, of MXNet's operators only.
    - ``names``: the layers.

    See :func:`relative_error`.
    """
    expected = run(model, batches)
    return {name: relative_error(run(simulated(model, ranges, [name]), batches), expected) for name in names}
