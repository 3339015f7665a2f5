"""Converters of sequences of different lengths, and of attention with interleaved heads."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .model import Call, Tensor
from .registry import converts


def within(lengths: Tensor, shape: Sequence, axis: int, batch_axes: Sequence[int]) -> Tensor:
    """Whether each position along ``axis`` is before the end of its sequence, in a form that broadcasts to ``shape``.

    ``batch_axes``: the axes of ``shape`` that ``lengths`` has.
    """
    ends = [size if i in batch_axes else 1 for i, size in enumerate(shape)]
    along = [size if i == axis else 1 for i, size in enumerate(shape)]
    positions = lengths.model.positions(shape[axis], np.int64).reshape(along)
    return positions < lengths.cast(np.int64).reshape(ends)


@converts("SequenceMask")
def sequence_mask(call: Call) -> Tensor:
    if not call.flag("use_sequence_length"):
        return call.inputs[0]
    axis = call.value("axis", 0)
    inside = within(call.inputs[1], call.shape, axis, [1 - axis])
    return inside.apply("Where", call.inputs[0], call.value("value", 0.0))


@converts("SequenceLast")
def sequence_last(call: Call) -> Tensor:
    axis = call.value("axis", 0)
    data, shape = call.inputs[0], call.shapes[0]
    if not call.flag("use_sequence_length"):
        return data.cut([axis], [-1], [None]).reshape(call.shape)
    last = call.inputs[1].cast(np.int64) - 1
    index = last.reshape([size if i == 1 - axis else 1 for i, size in enumerate(shape)])
    index = index.expand([1 if i == axis else size for i, size in enumerate(shape)])
    return data.apply("GatherElements", index, axis=axis).reshape(call.shape)


@converts("SequenceReverse")
def sequence_reverse(call: Call) -> Tensor:
    if not call.flag("use_sequence_length"):
        return call.inputs[0].cut([0], [None], [None], [-1])
    return call.inputs[0].apply("ReverseSequence", call.inputs[1].cast(np.int64), time_axis=0, batch_axis=1)


def _part(call: Call, position: int, part: int, parts: int, order: Sequence[int]) -> Tensor:
    """Queries, keys or values, (steps, batch, heads, size) with the axes in ``order``.

    They are one of several ``parts`` of each head of an input.
    """
    steps, batch, width = call.shapes[position]
    heads = call.value("heads")
    size = width // heads // parts
    value = call.inputs[position].reshape((steps, batch, heads, parts * size))
    if parts > 1:
        value = value.cut([3], [part * size], [(part + 1) * size])
    return value.apply("Transpose", perm=order)


QUERIES, KEYS, VALUES = (1, 2, 0, 3), (1, 2, 3, 0), (1, 2, 0, 3)   # the axes of each in front of a product


@converts("_contrib_interleaved_matmul_selfatt_qk", "_contrib_interleaved_matmul_encdec_qk")
def attention_scores(call: Call) -> Tensor:
    """The product of queries and keys, divided by the root of a head's size, (batch * heads, steps, steps)."""
    is_self = "selfatt" in call.node.op
    parts = 3 if is_self else 1   # in the first input: queries, keys and values, or queries
    queries = _part(call, 0, 0, parts, QUERIES)
    keys = _part(call, 0, 1, 3, KEYS) if is_self else _part(call, 1, 0, 2, KEYS)
    queries = queries / np.sqrt(call.shapes[0][2] // parts // call.value("heads"))
    return queries.apply("MatMul", keys).reshape(call.shape)


@converts("_contrib_interleaved_matmul_selfatt_valatt", "_contrib_interleaved_matmul_encdec_valatt")
def attention(call: Call) -> Tensor:
    """The values that the second input, (batch * heads, steps, steps), attends to: (steps, batch, width)."""
    values = _part(call, 0, 2, 3, VALUES) if "selfatt" in call.node.op else _part(call, 0, 1, 2, VALUES)
    weights = call.inputs[1].reshape((call.shapes[0][1], call.value("heads"), *call.shapes[1][1:]))
    return weights.apply("MatMul", values).apply("Transpose", perm=(2, 0, 1, 3)).reshape(call.shape)
