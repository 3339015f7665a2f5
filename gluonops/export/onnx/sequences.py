"""Converters of sequences of different lengths, and of attention with interleaved heads."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .arrays import cut
from .model import Call, Model
from .registry import converts


def within(model: Model, lengths: str, shape: Sequence, axis: int, batch_axes: Sequence[int]) -> str:
    """Whether each position along ``axis`` is before the end of its sequence, in a form that broadcasts to ``shape``.

    ``batch_axes``: the axes of ``shape`` that ``lengths`` has.
    """
    ends = [size if i in batch_axes else 1 for i, size in enumerate(shape)]
    along = [size if i == axis else 1 for i, size in enumerate(shape)]
    positions = model.reshape(model.positions(shape[axis], np.int64), along)
    return model.add("Less", positions, model.reshape(model.cast(lengths, np.int64), ends))


@converts("SequenceMask")
def sequence_mask(model: Model, call: Call) -> str:
    if not call.flag("use_sequence_length"):
        return call.inputs[0]
    axis = call.value("axis", 0)
    inside = within(model, call.inputs[1], call.shape, axis, [1 - axis])
    return model.add("Where", inside, call.inputs[0], model.scalar(call.value("value", 0.0), call.dtype))


@converts("SequenceLast")
def sequence_last(model: Model, call: Call) -> str:
    axis = call.value("axis", 0)
    shape = call.shapes[0]
    if not call.flag("use_sequence_length"):
        return model.reshape(cut(model, call.inputs[0], [axis], [-1], [None]), call.shape)
    last = model.add("Sub", model.cast(call.inputs[1], np.int64), model.scalar(1, np.int64))
    index = model.reshape(last, [size if i == 1 - axis else 1 for i, size in enumerate(shape)])
    one = [1 if i == axis else size for i, size in enumerate(shape)]
    index = model.add("Expand", index, model.shape(one))
    return model.reshape(model.add("GatherElements", call.inputs[0], index, axis=axis), call.shape)


@converts("SequenceReverse")
def sequence_reverse(model: Model, call: Call) -> str:
    if not call.flag("use_sequence_length"):
        return cut(model, call.inputs[0], [0], [None], [None], [-1])
    lengths = model.cast(call.inputs[1], np.int64)
    return model.add("ReverseSequence", call.inputs[0], lengths, time_axis=0, batch_axis=1)


def _part(model: Model, call: Call, position: int, part: int, parts: int, order: Sequence[int]) -> str:
    """Queries, keys or values, (steps, batch, heads, size) with the axes in ``order``.

    They are one of several ``parts`` of each head of an input.
    """
    steps, batch, width = call.shapes[position]
    heads = call.value("heads")
    size = width // heads // parts
    value = model.reshape(call.inputs[position], (steps, batch, heads, parts * size))
    if parts > 1:
        value = cut(model, value, [3], [part * size], [(part + 1) * size])
    return model.add("Transpose", value, perm=order)


def _scores(model: Model, call: Call, queries: str, keys: str, width: int) -> str:
    """The product of queries and keys, divided by the root of a head's size, (batch * heads, steps, steps)."""
    root = model.scalar(np.sqrt(width // call.value("heads")), call.dtype)
    return model.reshape(model.add("MatMul", model.add("Div", queries, root), keys), call.shape)


def _attended(model: Model, call: Call, values: str) -> str:
    """The values that the second input, (batch * heads, steps, steps), attends to: (steps, batch, width)."""
    batch = call.shapes[0][1]
    attention = model.reshape(call.inputs[1], (batch, call.value("heads"), *call.shapes[1][1:]))
    product = model.add("MatMul", attention, values)
    return model.reshape(model.add("Transpose", product, perm=(2, 0, 1, 3)), call.shape)


QUERIES, KEYS, VALUES = (1, 2, 0, 3), (1, 2, 3, 0), (1, 2, 0, 3)   # the axes of each in front of a product


@converts("_contrib_interleaved_matmul_selfatt_qk")
def self_attention_scores(model: Model, call: Call) -> str:
    queries = _part(model, call, 0, 0, 3, QUERIES)
    return _scores(model, call, queries, _part(model, call, 0, 1, 3, KEYS), call.shapes[0][2] // 3)


@converts("_contrib_interleaved_matmul_selfatt_valatt")
def self_attention(model: Model, call: Call) -> str:
    return _attended(model, call, _part(model, call, 0, 2, 3, VALUES))


@converts("_contrib_interleaved_matmul_encdec_qk")
def attention_scores(model: Model, call: Call) -> str:
    queries = _part(model, call, 0, 0, 1, QUERIES)
    return _scores(model, call, queries, _part(model, call, 1, 0, 2, KEYS), call.shapes[0][2])


@converts("_contrib_interleaved_matmul_encdec_valatt")
def attention(model: Model, call: Call) -> str:
    return _attended(model, call, _part(model, call, 0, 1, 2, VALUES))


@converts("_contrib_div_sqrt_dim")
def divided_by_root(model: Model, call: Call) -> str:
    return model.add("Div", call.inputs[0], model.scalar(np.sqrt(call.shape[-1]), call.dtype))
