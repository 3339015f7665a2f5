"""The converter of recurrent layers: LSTM, GRU and the plain ones."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .model import Call, Tensor
from .registry import converts

OPERATORS = {"lstm": "LSTM", "gru": "GRU", "rnn_relu": "RNN", "rnn_tanh": "RNN"}
# The position in MXNet's order of each of ONNX's gates: i o f c of i f c o, and z r h of r z h.
GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_relu": (0,), "rnn_tanh": (0,)}


@converts("RNN")
def recurrent(call: Call) -> list[Tensor]:
    """One node for each layer. MXNet's node has them all, and all of their parameters in one vector."""
    _check(call)
    vector = call.model.array(call.inputs[1])
    if vector is None:
        raise call.refuse("has parameters that depend on an input")
    directions = 2 if call.flag("bidirectional") else 1
    data, _, *states = call.inputs
    finals = []   # of each layer, the last states
    for number, layer in enumerate(_layers(call, vector, directions)):
        begin = number * directions
        first = [state.cut([0], [begin], [begin + directions]) for state in states]
        data, *last = _add_layer(call, data, layer, first)
        finals.append(last)
    return [data] + [call.model.add("Concat", *parts, axis=0) for parts in zip(*finals)]


def _check(call: Call) -> None:
    """Raise an OpError for what ONNX lacks."""
    if call.value("projection_size") is not None:
        raise call.refuse("has projection_size, which MXNet computes on a GPU only, and ONNX does not have")
    if call.value("lstm_state_clip_min") is not None:
        raise call.refuse("clips its states (lstm_state_clip_min)")
    if call.flag("use_sequence_length"):
        raise call.refuse("has use_sequence_length, which MXNet computes on a GPU only")


def _layers(call: Call, vector: np.ndarray, directions: int) -> Iterator[list[np.ndarray]]:
    """ONNX's weight, recurrence and bias of each layer, whose first axis is the direction.

    MXNet's vector has the weights of every layer and direction, and behind them all biases.
    """
    order = GATES[call.text("mode")]
    hidden, count = call.value("state_size"), call.value("num_layers")
    rows = len(order) * hidden
    shapes = []
    for number in range(count):
        size = call.shapes[0][2] if number == 0 else directions * hidden
        shapes += [(rows, size), (rows, hidden)] * directions
    shapes += [(rows, 1)] * (2 * directions * count)
    ends = np.cumsum([np.prod(shape) for shape in shapes])
    parts = [part.reshape(len(order), hidden, -1)[list(order)].reshape(shape)
             for part, shape in zip(np.split(vector, ends[:-1]), shapes)]
    weights, biases = parts[:2 * directions * count], parts[2 * directions * count:]
    for begin in range(0, len(weights), 2 * directions):   # of each direction those for the input and for the state
        of_layer = slice(begin, begin + 2 * directions)
        bias = np.concatenate(biases[of_layer]).reshape(directions, 2 * rows)
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
