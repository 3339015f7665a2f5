"""MXNet's operators on 8 bits, as ``quantize_net`` writes them, and the float operators that they stand for.

They have no shape rule and no converter: :mod:`gluonops.export.floats` replaces them by the float operators.
"""
from .rule_registry import traits

BEGINNINGS = ("_sg_mkldnn_", "_contrib_quantize", "_contrib_dequantize", "_contrib_requantize")
# What only changes the type of numbers.
CHANGES = ("_contrib_quantize", "_contrib_quantize_v2", "_contrib_requantize", "_contrib_dequantize")
FUSED = ("_sg_mkldnn_conv", "_sg_mkldnn_fully_connected")   # with a graph inside
# The operators of 8 bits that have another one's attributes, and its inputs in front of their ranges.
NAMES = {"_contrib_quantized_act": "Activation", "_contrib_quantized_batch_norm": "BatchNorm",
         "_contrib_quantized_concat": "Concat", "_contrib_quantized_conv": "Convolution",
         "_contrib_quantized_elemwise_add": "elemwise_add", "_contrib_quantized_elemwise_mul": "elemwise_mul",
         "_contrib_quantized_embedding": "Embedding", "_contrib_quantized_flatten": "Flatten",
         "_contrib_quantized_fully_connected": "FullyConnected", "_contrib_quantized_pooling": "Pooling"}
traits("_sg_mkldnn_fully_connected", stays_float=True)


def is_of_8_bits(op: str) -> bool:
    """Whether an operator reads or makes numbers of 8 bits."""
    return op.startswith(BEGINNINGS)
