"""The converter of recurrent layers."""
from __future__ import annotations

from ..operators.forms import Form
from .registry import Call, converts


@converts("RNN")
def recurrent(call: Call) -> Form:
    """Its inputs are the data, the parameters of all layers and the states; see :func:`.prepare.join_recurrent`."""
    mode, layers, states = call.text("mode"), call.value("num_layers"), call.value("__states__")
    call.refuse_if(states is None or call.value("projection_size") is not None or call.flag("use_sequence_length"),
                   "has lengths as inputs, packed parameters, or a projection")
    call.refuse_if(call.value("lstm_state_clip_min") is not None, "clips its states, which MXNet does on a GPU only")
    ends = ("", "_reverse") if call.flag("bidirectional") else ("",)
    state = [f"{kind}_{part}_l{layer}{end}" for kind in ("weight", "bias") for layer in range(layers) for end in ends
             for part in ("ih", "hh")]
    args = {"input_size": call.shapes[0][2], "hidden_size": call.value("state_size"), "num_layers": layers,
            "dropout": float(call.value("p", 0.0)), "bidirectional": call.flag("bidirectional")}
    if mode.startswith("rnn_"):
        args["nonlinearity"] = mode[len("rnn_"):]
    module = {"lstm": "nn.LSTM", "gru": "nn.GRU"}.get(mode, "nn.RNN")
    begin = {0: "", 1: ", {1}", 2: ", ({1}, {2})"}[states]
    text = f"{{self}}({{0}}{begin})"
    if not call.flag("__continued__"):
        text, outputs = f"{text}[0]", 1
    else:
        text, outputs = (f"with_states({text})", 3) if mode == "lstm" else (text, 2)
    positions = dict(zip(state, range(1, len(call.node.inputs))))
    return Form(module=module, args=args, state=positions, outputs=outputs, call=text)
