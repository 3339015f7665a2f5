"""Sequences of different lengths, and attention with interleaved heads. Recurrent layers are in :mod:`.recurrent`."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .forms import Single
from .rule_registry import OnnxCall, Tensor, TorchCall, in_torch, indices, onnx, shape, torch, traits
from .shape_rules import Call, Shape

# -- sequences: time and batch are the first two axes, and lengths may be read ----------------------------------------
traits("SequenceLast", "SequenceMask", "SequenceReverse", reads_any_types=True, jumps=True)


@indices("SequenceLast", "SequenceMask", "SequenceReverse", position=1, first=1, kind="length")
def _(call: Call, *, axis) -> int:
    return 1 + call.shapes[0][axis]


@shape("SequenceMask", "SequenceReverse")
def _(call: Call, data: Shape, *lengths: Shape, axis) -> Shape:
    call.expect(1, (data[1 - call.from_front(axis)],))
    return data


@shape("SequenceLast")
def _(call: Call, data: Shape, *lengths: Shape, axis) -> Shape:
    time = call.from_front(axis)
    call.expect(1, (data[1 - time],))
    return call.reduced([time], False)


@onnx("SequenceMask")
def _(call: OnnxCall, data: Tensor, *lengths: Tensor, use_sequence_length, value, axis) -> Tensor:
    if not use_sequence_length:
        return data
    return lengths[0].within(call.shape, axis, [1 - axis]).apply("Where", data, value)


@torch("SequenceMask")
def _(call: TorchCall, *, use_sequence_length, value, axis) -> str:
    return call.snippet("sequence_mask", value=Single(value), axis=axis) if use_sequence_length else "{0}"


@onnx("SequenceLast")
def _(call: OnnxCall, data: Tensor, *lengths: Tensor, use_sequence_length, axis) -> Tensor:
    if not use_sequence_length:
        return data.cut([axis], [-1], [None]).reshape(call.shape)
    sizes, last = call.shapes[0], lengths[0].cast(np.int64) - 1
    index = last.reshape([size if i == 1 - axis else 1 for i, size in enumerate(sizes)])
    index = index.expand([1 if i == axis else size for i, size in enumerate(sizes)])
    return data.apply("GatherElements", index, axis=axis).reshape(call.shape)


@torch("SequenceLast")
def _(call: TorchCall, *, use_sequence_length, axis) -> str:
    return call.snippet("sequence_last", axis=axis) if use_sequence_length else f"{{0}}.select({axis}, -1)"


@onnx("SequenceReverse")
def _(call: OnnxCall, data: Tensor, *lengths: Tensor, use_sequence_length) -> Tensor:
    """MXNet takes no other axis than 0."""
    if not use_sequence_length:
        return data.cut([0], [None], [None], [-1])
    return data.apply("ReverseSequence", lengths[0].cast(np.int64), time_axis=0, batch_axis=1)


@torch("SequenceReverse")
def _(call: TorchCall, *, use_sequence_length) -> str:
    return call.snippet("sequence_reverse") if use_sequence_length else "{0}.flip(0)"


# -- attention: the inputs are (time, batch, heads * parts * size), with one, two or three parts ----------------------
QUERIES, KEYS, VALUES = (1, 2, 0, 3), (1, 2, 3, 0), (1, 2, 0, 3)   # the axes of each in front of a product


def _part(call: OnnxCall, position: int, heads: int, part: int, parts: int, order: Sequence[int]) -> Tensor:
    """Queries, keys or values, (steps, batch, heads, size) with the axes in ``order``.

    They are one of several ``parts`` of each head of an input.
    """
    steps, batch, width = call.shapes[position]
    size = width // heads // parts
    value = call.inputs[position].reshape((steps, batch, heads, parts * size))
    if parts > 1:
        value = value.cut([3], [part * size], [(part + 1) * size])
    return value.apply("Transpose", perm=order)


def _scores(call: OnnxCall, queries: Tensor, keys: Tensor, size: int) -> Tensor:
    """The product of queries and keys, divided by the root of a head's size, (batch * heads, steps, steps)."""
    return (queries / np.sqrt(size)).apply("MatMul", keys).reshape(call.shape)


def _attended(call: OnnxCall, values: Tensor, heads: int) -> Tensor:
    """The values that the second input, (batch * heads, steps, steps), attends to: (steps, batch, width)."""
    weights = call.inputs[1].reshape((call.shapes[0][1], heads, *call.shapes[1][1:]))
    return weights.apply("MatMul", values).apply("Transpose", perm=(2, 0, 1, 3)).reshape(call.shape)


@shape("_contrib_interleaved_matmul_selfatt_qk")
def _(call: Call, data: Shape, *, heads) -> Shape:
    time, batch, _ = data
    return batch * heads, time, time


@onnx("_contrib_interleaved_matmul_selfatt_qk")
def _(call: OnnxCall, data: Tensor, *, heads) -> Tensor:
    queries, keys = _part(call, 0, heads, 0, 3, QUERIES), _part(call, 0, heads, 1, 3, KEYS)
    return _scores(call, queries, keys, call.shapes[0][2] // 3 // heads)


in_torch("_contrib_interleaved_matmul_selfatt_qk",
         "attention_scores(part_of_heads({0}, {heads}, 0, 3), part_of_heads({0}, {heads}, 1, 3))")


@shape("_contrib_interleaved_matmul_encdec_qk")
def _(call: Call, data: Shape, keys_and_values: Shape, *, heads) -> Shape:
    time, batch, width = data
    call.expect(1, (keys_and_values[0], batch, 2 * width))
    return batch * heads, time, keys_and_values[0]


@onnx("_contrib_interleaved_matmul_encdec_qk")
def _(call: OnnxCall, data: Tensor, keys_and_values: Tensor, *, heads) -> Tensor:
    queries, keys = _part(call, 0, heads, 0, 1, QUERIES), _part(call, 1, heads, 0, 2, KEYS)
    return _scores(call, queries, keys, call.shapes[0][2] // heads)


in_torch("_contrib_interleaved_matmul_encdec_qk",
         "attention_scores(part_of_heads({0}, {heads}, 0, 1), part_of_heads({1}, {heads}, 0, 2))")


@shape("_contrib_interleaved_matmul_selfatt_valatt", parts=3)
@shape("_contrib_interleaved_matmul_encdec_valatt", parts=2)
def _(call: Call, data: Shape, weights: Shape, *, heads, parts) -> Shape:
    time, batch, width = data
    call.expect(1, (batch * heads, weights[1], time))
    return weights[1], batch, width // parts


@onnx("_contrib_interleaved_matmul_selfatt_valatt", parts=3)
@onnx("_contrib_interleaved_matmul_encdec_valatt", parts=2)
def _(call: OnnxCall, data: Tensor, weights: Tensor, *, heads, parts) -> Tensor:
    """The values are the last part of each head."""
    return _attended(call, _part(call, 0, heads, parts - 1, parts, VALUES), heads)


in_torch("_contrib_interleaved_matmul_selfatt_valatt", "join_heads({1} @ part_of_heads({0}, {heads}, 2, 3), {heads})")
in_torch("_contrib_interleaved_matmul_encdec_valatt", "join_heads({1} @ part_of_heads({0}, {heads}, 1, 2), {heads})")
