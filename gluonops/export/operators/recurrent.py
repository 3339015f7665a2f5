"""Recurrent layers, and loops over the first axis of data.

MXNet's node of a layer has all its layers, and all of their parameters in one vector.
"""
from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..values import NodeValues
from .forms import Form
from .registry import OnnxCall, Tensor, TorchCall, onnx, shape, torch, traits, types
from .shapes import Call, Shape, infer_shapes, infer_types

OPERATORS = {"lstm": "LSTM", "gru": "GRU", "rnn_relu": "RNN", "rnn_tanh": "RNN"}
# The position in MXNet's order of each of ONNX's gates: i o f c of i f c o, and z r h of r z h.
GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_relu": (0,), "rnn_tanh": (0,)}

traits("RNN", stays_float=True)


def parameters_of(call: NodeValues, width: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the matrices and biases in the vector of an RNN, in their order. ``width``: of its data."""
    given = call.attributes
    size, ends = given["state_size"], "lr" if given["bidirectional"] else "l"
    rows = len(GATES[given["mode"]]) * size
    cells = [f"{end}{layer}" for layer in range(given["num_layers"]) for end in ends]
    matrices = {}
    for i, cell in enumerate(cells):
        matrices[f"{cell}_i2h_weight"] = rows, width if i < len(ends) else len(ends) * size
        matrices[f"{cell}_h2h_weight"] = rows, size
    return {**matrices, **{f"{cell}_{part}_bias": (rows,) for cell in cells for part in ("i2h", "h2h")}}


@shape("RNN")
def _(call: Call, *, state_size, num_layers, bidirectional, mode, state_outputs, projection_size,
      use_sequence_length) -> list[Shape]:
    """The lengths of sequences stand behind the states."""
    time, batch, inputs = call.data
    ends = 2 if bidirectional else 1
    shown = projection_size or state_size
    if shown == state_size:   # a projection has weights of its own
        call.expect(1, (sum(map(math.prod, parameters_of(call, inputs).values())),))
    states = [(num_layers * ends, batch, shown), (num_layers * ends, batch, state_size)][:2 if mode == "lstm" else 1]
    for position, state in enumerate(states, 2):
        call.expect(position, state)
    if use_sequence_length:
        call.expect(2 + len(states), (batch,))
    return [(time, batch, shown * ends), *(states if state_outputs else [])]


@types("RNN")
def _(call: NodeValues, data: np.dtype, *others: np.dtype) -> np.dtype:
    """The lengths of sequences may have another type."""
    return data


@shape("_foreach")
def _(call: Call, *, in_data_locs, num_out_data) -> list[Shape]:
    """Each step reads an element of the data. What it makes are rows of the outputs, and then the next states."""
    data, others = call.shapes[:len(in_data_locs)], call.shapes[len(in_data_locs):]
    steps = data[0][0]
    call.check(all(each[0] == steps for each in data), 0, f"{steps} steps of all data")
    body = call.node.subgraphs[0]
    inferred = infer_shapes(body, _read_by_body(call, [*(each[1:] for each in data), *others]))
    made = [inferred[entry] for entry in body.outputs]
    return [*((steps, *each) for each in made[:num_out_data]), *made[num_out_data:]]


@types("_foreach")
def _(call: NodeValues, *read: np.dtype) -> list[np.dtype]:
    body = call.node.subgraphs[0]
    inferred = infer_types(body, _read_by_body(call, read))
    return [inferred[entry] for entry in body.outputs]


def _read_by_body(call: NodeValues, read: list | tuple) -> dict[str, Any]:
    """The variables of a loop's body, and what of a list in the order of the node's inputs each of them reads."""
    given = call.attributes
    places = given["in_data_locs"] + given["in_state_locs"] + given["remain_locs"]
    return {name: read[places.index(place)] for place, name in enumerate(call.node.subgraphs[0].variables())}


@onnx("RNN")
def _(call: OnnxCall, data: Tensor, parameters: Tensor, *states: Tensor, bidirectional, projection_size,
      lstm_state_clip_min, use_sequence_length) -> list[Tensor]:
    """One node for each layer. Behind the end of a sequence are zeros."""
    if projection_size is not None:
        raise call.refuse("has projection_size, which MXNet computes on a GPU only, and ONNX does not have")
    if lstm_state_clip_min is not None:
        raise call.refuse("clips its states (lstm_state_clip_min)")
    *states, lengths = states if use_sequence_length else (*states, None)
    lengths = lengths and lengths.cast(np.int32)
    vector = call.model.array(parameters)
    if vector is None:
        raise call.refuse("has parameters that depend on an input")
    directions = 2 if bidirectional else 1
    finals = []   # the last states of each layer
    for number, layer in enumerate(_layers(call, vector, directions)):
        begin = number * directions
        first = [state.cut([0], [begin], [begin + directions]) for state in states]
        data, *last = _add_layer(call, data, layer, lengths, first)
        finals.append(last)
    return [data] + [call.model.add("Concat", *parts, axis=0) for parts in zip(*finals)]


def _layers(call: OnnxCall, vector: np.ndarray, directions: int) -> Iterator[list[np.ndarray]]:
    """ONNX's weight, recurrence and bias of each layer, whose first axis is the direction.

    MXNet's vector has the weights of every layer and direction, and behind them all biases.
    """
    order, hidden = GATES[call.attributes["mode"]], call.attributes["state_size"]
    shapes = parameters_of(call, call.shapes[0][2]).values()
    ends = np.cumsum([np.prod(each) for each in shapes])
    parts = [part.reshape(len(order), hidden, -1)[list(order)].reshape(each)
             for part, each in zip(np.split(vector, ends[:-1]), shapes)]
    weights, biases = parts[:len(parts) // 2], parts[len(parts) // 2:]   # two of each direction of a layer
    for begin in range(0, len(weights), 2 * directions):   # Each direction has one for the input and one for the state.
        of_layer = slice(begin, begin + 2 * directions)
        bias = np.concatenate(biases[of_layer]).reshape(directions, -1)
        yield [np.stack(weights[of_layer][::2]), np.stack(weights[of_layer][1::2]), bias]


def _add_layer(call: OnnxCall, data: Tensor, layer: list[np.ndarray], lengths: Tensor | None,
               states: list[Tensor]) -> list[Tensor]:
    """Add a layer. Returns its output, as MXNet arranges it, and its last states."""
    mode, hidden, directions = call.attributes["mode"], call.attributes["state_size"], len(layer[0])
    options = {"hidden_size": hidden, "direction": "bidirectional" if directions == 2 else "forward"}
    if mode == "gru":
        options["linear_before_reset"] = 1
    if mode == "rnn_relu":
        options["activations"] = ["Relu"] * directions
    parameters = [call.model.constant(array) for array in layer]
    output, *last = data.apply(OPERATORS[mode], *parameters, lengths, *states, outputs=1 + len(states), **options)
    if directions == 2:
        output = output.apply("Transpose", perm=(0, 2, 1, 3))
    steps, batch = call.shape[:2]
    return [output.reshape((steps, batch, directions * hidden)), *last]


# Marks of a node: how many states torch's layer reads, and whether others read its last states.
STATES, CONTINUED = "__states__", "__continued__"


@torch("RNN")
def _(call: TorchCall, *, state_size, num_layers, bidirectional, mode, p, projection_size, lstm_state_clip_min,
      use_sequence_length) -> Form:
    """Its inputs are the data, the parameters of all layers, the states, as its marks say, and perhaps lengths."""
    states = call.node.attrs.get(STATES)
    call.refuse_if(states is None or projection_size is not None, "has packed parameters, or a projection")
    call.refuse_if(lstm_state_clip_min is not None, "clips its states, which MXNet does on a GPU only")
    ends = ("", "_reverse") if bidirectional else ("",)
    state = [f"{kind}_{part}_l{layer}{end}" for kind in ("weight", "bias") for layer in range(num_layers)
             for end in ends for part in ("ih", "hh")]
    args = {"input_size": call.shapes[0][2], "hidden_size": state_size, "num_layers": num_layers, "dropout": p,
            "bidirectional": bidirectional}
    if mode.startswith("rnn_"):
        args["nonlinearity"] = mode[len("rnn_"):]
    module = f"nn.{OPERATORS[mode]}"
    begin = {0: "", 1: ", {1}", 2: ", ({1}, {2})"}[int(states)]
    text = f"{{self}}({{0}}{begin})"
    if use_sequence_length:
        text = f"run_lengths({{self}}, {{0}}, {{{int(states) + 1}}}{begin})"
    if not call.node.has(CONTINUED):
        text, outputs = f"{text}[0]", 1
    else:
        text, outputs = (f"with_states({text})", 3) if mode == "lstm" else (text, 2)
    positions = dict(zip(state, range(1, len(call.node.inputs))))
    return Form(module=module, args=args, state=positions, outputs=outputs, call=text)
