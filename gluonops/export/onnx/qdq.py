"""8-bit layers in ONNX: pairs of QuantizeLinear and DequantizeLinear ("QDQ"), which a runtime fuses with the layers.

Weights are stored as int8, with a scale for each output channel; biases as int32. Weights have 7 bits, from -64 to 64:
on processors without VNNI, onnxruntime adds products of uint8 and int8 in pairs, and each sum saturates at 16 bits. Its
own quantizer calls the remedy ``reduce_range``. Tensors between layers are uint8 with a zero point. A pair stands
behind a layer, and behind whatever follows it that a runtime computes in 8 bits. An operator that only moves values
keeps the scale of its input: the runtime then moves bytes.
"""
from __future__ import annotations

import dataclasses

import numpy as np

from ..graph import Graph, Node
from ..operators import having, traits_of
from ..operators.activations import is_relu
from ..operators.node_attributes import attributes_of
from ..quantization.quantizable import ALL, SAFE, quantized_weight, tensor_names
from .builder import Model, Tensor

MOVES = having("moves", "is_identity") - having("chooses_type")
UINT8, INT32 = 255, 2 ** 31 - 1


@dataclasses.dataclass(frozen=True)
class Quantization:
    """What to write with 8 bits.

    - ``layers``: names of convolutions and dense layers.
    - ``ranges``: lowest and highest value of the tensors, by MXNet's names.
    - ``vnni_only``: whether weights have all 8 bits, which saturate on processors without VNNI.
    """

    layers: frozenset[str]
    ranges: dict[str, tuple[float, float]]
    vnni_only: bool = False


class Quantizer:
    """Puts the pairs into a model under construction. Without a quantization it changes nothing."""

    def __init__(self, model: Model, graph: Graph, quantization: Quantization | None, arrays: dict):
        self._model, self._arrays = model, arrays
        self._layers = quantization.layers if quantization else frozenset()
        self._levels = ALL if quantization and quantization.vnni_only else SAFE
        self._scales, self._tensors = {}, {}   # (node, output) -> (scale, zero point), and the rounded tensor
        if not quantization:
            return
        self._readers, self._ranges = graph.readers(), quantization.ranges
        self._names = tensor_names(graph)
        layers = [(node, 0) for node in graph.nodes() if self._is_layer(node)]
        self._before_layers = set(Graph(layers, {}).nodes())

    def input(self, node: Node, tensor: Tensor) -> Tensor:
        """A graph's input, rounded to 8 bits if a layer reads it."""
        if not self._layers or not any(self._is_layer(reader) for reader in self._readers[node]):
            return tensor
        self._model.source = node.name
        return self._pair((node, 0), tensor, self._scale_of_range((node, 0)))

    def inputs(self, node: Node, inputs: list[Tensor]) -> list[Tensor]:
        """The tensors that a node reads: the parameters of a layer as integers."""
        if not self._is_layer(node):
            return inputs
        entry = node.inputs[0]
        data = self._tensors.get(entry) or self._pair(entry, inputs[0], self._scale_of_range(entry))
        integers, scale = quantized_weight(self._arrays[node.inputs[1]], self._levels)
        stored = [self._stored(integers, scale, node.source(1).name)]
        if len(inputs) > 2:
            bias, scale = node.inputs[2], scale * self._scales[entry][0]
            integers = np.rint(self._arrays[bias].astype(np.float64) / scale).clip(-INT32, INT32).astype(np.int32)
            stored.append(self._stored(integers, scale, bias[0].name))
        return [data, *stored]

    def output(self, node: Node, index: int, tensor: Tensor) -> Tensor:
        """An output of a node, rounded to 8 bits if a layer made it, or it follows one and another layer follows."""
        entry = node, index
        if not self._layers or index or self._is_only_read_by_relu(node):
            return tensor
        if self._is_layer(node):
            return self._pair(entry, tensor, self._scale_of_range(entry))
        if node not in self._before_layers:
            return tensor
        if self._moves(node) and node.inputs[0] in self._scales:
            return self._pair(entry, tensor, self._scales[node.inputs[0]])
        is_rounded = (source in self._scales or self._is_only_read_by_relu(source[0]) for source in node.inputs)
        if self._computes(node) and all(is_rounded):
            return self._pair(entry, tensor, self._scale_of_range(entry))
        return tensor

    def _is_layer(self, node):
        return node is not None and node.name in self._layers

    def _is_only_read_by_relu(self, node):
        """A runtime computes a layer and its ReLU together, if nothing is between them."""
        return self._is_layer(node) and all(reader is not None and is_relu(reader) for reader in self._readers[node])

    @staticmethod
    def _moves(node):
        is_pooling = traits_of(node).acts_as == "pooling"
        return node.op in MOVES or (is_pooling and attributes_of(node)["pool_type"] == "max")

    @staticmethod
    def _computes(node):
        is_leaky = node.op == "LeakyReLU" and attributes_of(node)["act_type"] == "leaky"
        return traits_of(node).in_8_bits or is_leaky or is_relu(node)

    def _scale_of_range(self, entry):
        """Scale and zero point of uint8 values. Zero is exact."""
        node, index = entry
        low, high = self._ranges[self._names[node.name, index]]
        low, high = min(low, 0.0), max(high, 0.0)
        scale = np.float32((high - low) / UINT8)
        return scale, np.uint8(np.clip(np.rint(-low / scale), 0, UINT8))

    def _pair(self, entry, tensor, scale):
        step, zero = self._model.scalar(scale[0], np.float32), self._model.scalar(scale[1], np.uint8)
        self._scales[entry] = scale
        self._tensors[entry] = tensor.apply("QuantizeLinear", step, zero).apply("DequantizeLinear", step, zero)
        return self._tensors[entry]

    def _stored(self, integers, scale, name):
        """The floats of integers with a scale for each channel."""
        zeros = self._model.constant(np.zeros(len(scale), integers.dtype), "zeros")
        return self._model.add("DequantizeLinear", self._model.constant(integers, name),
                               self._model.constant(scale.astype(np.float32), f"{name}_scale"), zeros, axis=0)
