"""Converters of sequences of different lengths, of attention with interleaved heads, and of recurrent layers."""
from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .model import Call, Tensor, converts

OPERATORS = {"lstm": "LSTM", "gru": "GRU", "rnn_relu": "RNN", "rnn_tanh": "RNN"}
# The position in MXNet's order of each of ONNX's gates: i o f c of i f c o, and z r h of r z h.
GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_relu": (0,), "rnn_tanh": (0,)}


@converts("SequenceMask")
def sequence_mask(call: Call) -> Tensor:
    if not call.flag("use_sequence_length"):
        return call.inputs[0]
    axis = call.value("axis", 0)
    inside = call.inputs[1].within(call.shape, axis, [1 - axis])
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
    parts = 3 if is_self else 1   # the first input has queries, keys and values, or queries
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


@converts("RNN")
def recurrent(call: Call) -> list[Tensor]:
    """One node for each layer. MXNet's node has them all, and all of their parameters in one vector."""
    if call.value("projection_size") is not None:
        raise call.refuse("has projection_size, which MXNet computes on a GPU only, and ONNX does not have")
    if call.value("lstm_state_clip_min") is not None:
        raise call.refuse("clips its states (lstm_state_clip_min)")
    if call.flag("use_sequence_length"):
        raise call.refuse("has use_sequence_length, which MXNet computes on a GPU only")
    vector = call.model.array(call.inputs[1])
    if vector is None:
        raise call.refuse("has parameters that depend on an input")
    directions = 2 if call.flag("bidirectional") else 1
    data, _, *states = call.inputs
    finals = []   # the last states of each layer
    for number, layer in enumerate(_layers(call, vector, directions)):
        begin = number * directions
        first = [state.cut([0], [begin], [begin + directions]) for state in states]
        data, *last = _add_layer(call, data, layer, first)
        finals.append(last)
    return [data] + [call.model.add("Concat", *parts, axis=0) for parts in zip(*finals)]


def _layers(call: Call, vector: np.ndarray, directions: int) -> Iterator[list[np.ndarray]]:
    """ONNX's weight, recurrence and bias of each layer, whose first axis is the direction.

    MXNet's vector has the weights of every layer and direction, and behind them all biases.
    """
    order, hidden = GATES[call.text("mode")], call.value("state_size")
    shapes = call.recurrent_parameters(call.shapes[0][2]).values()
    ends = np.cumsum([np.prod(shape) for shape in shapes])
    parts = [part.reshape(len(order), hidden, -1)[list(order)].reshape(shape)
             for part, shape in zip(np.split(vector, ends[:-1]), shapes)]
    weights, biases = parts[:len(parts) // 2], parts[len(parts) // 2:]   # two of each direction of a layer
    for begin in range(0, len(weights), 2 * directions):   # Each direction has one for the input and one for the state.
        of_layer = slice(begin, begin + 2 * directions)
        bias = np.concatenate(biases[of_layer]).reshape(directions, -1)
        yield [np.stack(weights[of_layer][::2]), np.stack(weights[of_layer][1::2]), bias]


def _add_layer(call: Call, data: Tensor, layer: list[np.ndarray], states: list[Tensor]) -> list[Tensor]:
    """Add a layer. Returns its output, as MXNet arranges it, and its last states."""
    mode = call.text("mode")
    directions = len(layer[0])
    options = {"hidden_size": call.value("state_size"),
               "direction": "bidirectional" if directions == 2 else "forward"}
    if mode == "gru":
        options["linear_before_reset"] = 1
    if mode == "rnn_relu":
        options["activations"] = ["Relu"] * directions
    parameters = [call.model.constant(array) for array in layer]
    output, *last = data.apply(OPERATORS[mode], *parameters, None, *states, outputs=1 + len(states), **options)
    if directions == 2:
        output = output.apply("Transpose", perm=(0, 2, 1, 3))
    steps, batch = call.shape[:2]
    return [output.reshape((steps, batch, directions * call.value("state_size"))), *last]
