"""Converters of layers: convolutions, dense layers, normalization, pooling, activations, resizing."""
from __future__ import annotations

import math

from ..graph import is_ours, our_name
from .registry import CONVERTERS, Call, Form, Single, converts, default_of, one

DARKNET = "darknet_batch_norm"   # a node of these stands for a batch norm that divides as Darknet does
COUNTER = "counter"              # and a node of these for what counts images in training
OPTIONS = ("stride", "padding", "output_padding", "dilation", "groups")   # The functions that convolve take these.
ACTIVATIONS = {"relu": Form("F.relu({0})", "nn.ReLU"), "sigmoid": Form("torch.sigmoid({0})", "nn.Sigmoid"),
               "tanh": Form("torch.tanh({0})", "nn.Tanh"), "softrelu": Form("F.softplus({0})", "nn.Softplus"),
               "softsign": Form("F.softsign({0})", "nn.Softsign"), "mish": Form("F.mish({0})", "nn.Mish"),
               "log_sigmoid": Form("F.logsigmoid({0})", "nn.LogSigmoid"), "gelu": Form("F.gelu({0})", "nn.GELU")}
CONVERTERS.update({
    **{name: ACTIVATIONS[name] for name in ("relu", "sigmoid", "tanh", "softsign")},
    "gluonops.mish": ACTIVATIONS["mish"],
    COUNTER: Form(module="Counter", state={"count": 1}),
    "gluonops.hard_swish": Form("F.hardswish({0})", "nn.Hardswish"),
    "gluonops.swiglu": "F.silu({0}.chunk(2, <axis=-1>)[0]) * {0}.chunk(2, <axis=-1>)[1]",
    "gluonops.gelu": lambda call: ACTIVATIONS["gelu"] if call.text("approximation", "erf") == "erf" else
    Form("F.gelu({0}, approximate='tanh')"),
    "Activation": lambda call: ACTIVATIONS[call.text("act_type")],
    "Embedding": lambda call: Form(
        "F.embedding({0}.long(), {1})", "nn.Embedding",
        dict(zip(("num_embeddings", "embedding_dim"), call.shapes[1])), {"weight": 1}, "{self}({0}.long())"),
    "_contrib_ModulatedDeformableConvolution": lambda call: Form(   # offsets and a mask come before the weight
        module="DeformableConv2d", args=_of_convolution(call, 3), state=_state(call, "weight", "bias", first=3)),
    "FullyConnected": lambda call: Form(   # a node of its own flattens the data; see :func:`.prepare.prepared`
        "F.linear({*})", "nn.Linear", state=_state(call, "weight", "bias"),
        args={"in_features": call.shapes[1][1], "out_features": call.shapes[1][0], "bias": len(call.node.inputs) > 2}),
    "LayerNorm": lambda call: Form(
        module="nn.LayerNorm", state=_state(call, "weight", "bias"),
        args={"normalized_shape": call.shapes[1][0], "eps": call.single("eps", 1e-5)},
        call="{self}({0})" if call.axis() == call.ndim - 1 else
        f"{{self}}({{0}}.transpose({call.axis()}, -1)).transpose({call.axis()}, -1)"),
    "_contrib_AdaptiveAvgPooling2D": lambda call: Form(
        f"F.adaptive_avg_pool2d({{0}}, {one(call.shape[2:])})", "nn.AdaptiveAvgPool2d",
        {"output_size": one(call.shape[2:])}),
})


def _check_layout(call: Call) -> None:
    call.refuse_if(call.has_channels_last, f"has layout {call.text('layout')}; expected channels first")


def _window(call: Call) -> dict[str, object]:
    """The arguments that convolutions and poolings share."""
    return dict(zip(("kernel_size", "stride", "padding"), map(one, call.window())))


def _state(call: Call, *names: str, first: int = 1) -> dict[str, int]:
    """The parameters of a layer by the position of their variables, which follow the data."""
    return dict(zip(names, range(first, len(call.node.inputs))))


@converts("Convolution", "Convolution_v1", "Deconvolution")
def convolution(call: Call) -> Form:
    _check_layout(call)
    spatial, is_transposed = call.ndim - 2, call.node.op == "Deconvolution"
    call.refuse_if(any(call.ints("target_shape", ())), "has a target_shape, which MXNet 1.9.1 itself fails on")
    call.refuse_if(is_transposed and spatial > 2,
                   "has three dimensions, for which MXNet has no float64 to compare with")
    _, strides, _, dilations = call.window()
    call.refuse_if(is_transposed and max(strides) > 1 and max(dilations) > 1,
                   "has strides and dilations, for which MXNet's float64 is wrong")
    kind, function = ("ConvTranspose", "conv_transpose") if is_transposed else ("Conv", "conv")
    args = _of_convolution(call, 1)
    options = "".join(f", {name}={args[name]!r}" for name in OPTIONS if args[name] != default_of("nn.Conv", name))
    return Form(f"F.{function}{spatial}d({{*}}{options})", f"nn.{kind}{spatial}d", args, _state(call, "weight", "bias"))


def _of_convolution(call: Call, first: int) -> dict[str, object]:
    """The arguments of a convolution. ``first``: the position of its weight."""
    *_, dilations = call.window()
    return {"in_channels": call.shapes[0][1], "out_channels": call.shape[1], **_window(call),
            "output_padding": one(call.ints("adj", (0,))),   # Only a deconvolution has some.
            "dilation": one(dilations), "groups": call.value("num_group", 1),
            "bias": len(call.node.inputs) > first + 1}


@converts("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", DARKNET)
def batch_norm(call: Call) -> Form:
    axis = call.axis(default=1)
    text = "{self}({0})" if axis == 1 else f"{{self}}({{0}}.transpose(1, {axis})).transpose(1, {axis})"
    args = {"channels": call.shapes[1][0], "eps": call.value("eps", Single(1e-3)),   # MXNet's default is 1e-3f
            "momentum": round(1 - call.value("momentum", 0.9), 12), "fix_gamma": call.flag("fix_gamma", True),
            "use_global_stats": call.flag("use_global_stats")}
    state = _state(call, "weight", "bias", "running_mean", "running_var")
    module = "DarknetBatchNorm" if call.node.op == DARKNET else "BatchNorm"
    return Form(module=module, args=args, state=state, call=text)


@converts("LRN")
def response_norm(call: Call) -> Form:
    call.refuse_if(call.ndim != 4, "normalizes data without pixels, or clips")
    call.refuse_if(call.value("nsize") % 2 == 0, "has an even nsize, of which MXNet makes the next odd one")
    args = {"size": call.value("nsize"), "alpha": call.single("alpha", 1e-4), "beta": call.single("beta", 0.75),
            "k": call.single("knorm", 2.0)}
    return Form(module="nn.LocalResponseNorm", args=args)


@converts("InstanceNorm")
def instance_norm(call: Call) -> Form:
    call.refuse_if(math.prod(call.shape[2:]) == 1, "normalizes single numbers, which torch refuses")
    args = {"num_features": call.shapes[1][0], "eps": call.value("eps", 1e-3), "affine": True}
    return Form(module=f"nn.InstanceNorm{call.ndim - 2}d", args=args, state=_state(call, "weight", "bias"))


@converts("GroupNorm", "gluonops.group_norm")
def group_norm(call: Call) -> Form | str:
    """MXNet's own has one gamma for each group, and an epsilon of float32."""
    if is_ours(call.node):
        groups, eps = call.value("num_groups", 32), call.value("eps", 1e-5)
    else:
        groups, eps = call.value("num_groups", 1), call.single("eps", 1e-5)
    channels = call.shapes[0][1]
    if call.shapes[1][0] != channels:
        parameters = [f"{{{i}}}.repeat_interleave({channels // groups})" for i in (1, 2)]
        return f"F.group_norm({{0}}, {groups}, {', '.join(parameters)}, {eps!r})"
    args = {"num_groups": groups, "num_channels": channels, "eps": eps}
    return Form(module="nn.GroupNorm", args=args, state=_state(call, "weight", "bias"))


@converts("gluonops.rms_norm", "gluonops.l2_normalize")
def scaled_rows(call: Call) -> str:
    """Rows divided by their length, or by the root of the mean of their squares, times a number for each channel."""
    is_mean = our_name(call.node) == "rms_norm"
    axis = call.axis(default=-1 if is_mean else 1)
    total, eps = ("mean", 1e-6) if is_mean else ("sum", 1e-10)
    scale = "{1}" + ".unsqueeze(-1)" * (call.ndim - 1 - axis)
    rows = f"{{0}}.square().{total}({axis}, keepdim=True)"
    return f"{{0}} * torch.rsqrt({rows} + {call.value('eps', eps)!r}) * {scale}"


@converts("L2Normalization")
def l2_normalization(call: Call) -> str:
    axes = {"instance": tuple(range(1, call.ndim)), "channel": 1, "spatial": tuple(range(2, call.ndim))}
    axis = axes[call.text("mode", "instance")]
    return f"{{0}} / ({{0}}.square().sum({axis}, keepdim=True) + {call.single('eps', 1e-10)!r}).sqrt()"


@converts("Pooling", "Pooling_v1")
def pooling(call: Call) -> Form:
    _check_layout(call)
    kind = call.text("pool_type", "max")
    call.refuse_if(kind not in ("max", "avg"), f"has pool_type {kind}; expected max or avg")
    name, spatial = kind.capitalize(), call.ndim - 2
    if call.flag("global_pool"):
        function = f"F.adaptive_{kind}_pool{spatial}d({{0}}, 1)"
        return Form(function, f"nn.Adaptive{name}Pool{spatial}d", {"output_size": 1})
    convention = call.text("pooling_convention", "valid")
    call.refuse_if(convention not in ("valid", "full"), f"has pooling_convention {convention}; expected valid or full")
    _check_windows(call)
    args = {**_window(call), "ceil_mode": convention == "full"}
    if kind == "avg":
        args["count_include_pad"] = call.flag("count_include_pad", True)
    text = "{self}({0})"
    if spatial == 3 and args.get("count_include_pad"):   # torch's takes no data that are smaller than the window
        padding = [pad for pad in reversed(call.window()[2]) for _ in ("before", "behind")]
        args["padding"], text = 0, f"{{self}}(F.pad({{0}}, {padding}))"
    return Form(module=f"nn.{name}Pool{spatial}d", args=args, call=text)


def _check_windows(call: Call) -> None:
    """Refuse what torch's poolings do not have: much padding, and windows that begin behind the data."""
    is_full = call.text("pooling_convention") == "full"
    for axis, (length, stride, pad, size, outputs) in enumerate(call.windows(), 2):
        call.refuse_if(2 * pad > length, f"pads {pad} for a kernel of {length}; expected half of it at most")
        call.refuse_if((outputs - 1) * stride >= size + pad,
                       "has a window wholly beyond the data, as pooling_convention='full' can make one")
        call.refuse_if(is_full and axis in call.free[0] and stride + pad > length,
                       "has a window wholly beyond the data of some images, as pooling_convention='full' can make one")


@converts("LeakyReLU")
def leaky_relu(call: Call) -> Form:
    kind, slope = call.text("act_type", "leaky"), float(call.value("slope", 0.25))
    if kind == "leaky":
        return Form(f"F.leaky_relu({{0}}, {slope!r})", "nn.LeakyReLU", {"negative_slope": slope})
    if kind == "prelu":
        return Form(module="nn.PReLU", args={"num_parameters": call.shapes[1][0]}, state={"weight": 1})
    if kind == "elu":
        return Form(f"F.elu({{0}}, {Single(slope)!r})", "nn.ELU", {"alpha": Single(slope)})
    call.refuse_if(kind not in ("selu", "gelu"), f"has act_type {kind}, which is random")
    return Form(f"F.{kind}({{0}})", f"nn.{kind.upper()}")


@converts("Dropout")
def dropout(call: Call) -> Form:
    """Elements along some axes may share their fate."""
    call.refuse_if(call.text("mode", "training") != "training", "drops at inference as well")
    axes = call.ints("axes", ())
    one_each = ", ".join(":1" if axis in axes else ":" for axis in range(max(axes, default=0) + 1))
    text = f"{{0}} * {{self}}(torch.ones_like({{0}}[{one_each}]))" if axes else "{self}({0})"
    return Form(module="nn.Dropout", args={"p": call.value("p", 0.5)}, call=text)


@converts("softmax", "log_softmax", "softmin", "SoftmaxActivation", "gluonops.softmax")
def softmax(call: Call) -> Form:
    if call.node.op == "SoftmaxActivation":
        axis = 1 if call.text("mode", "instance") == "channel" else call.ndim - 1
    else:
        axis = call.axis()
    function, module = ("log_softmax", "nn.LogSoftmax") if call.node.op == "log_softmax" else ("softmax", "nn.Softmax")
    temperature = call.value("temperature") or 1.0
    if call.node.op == "softmin":
        temperature = -temperature
    data = "{0}" if temperature == 1 else f"{{0}} / {temperature!r}"
    if call.flag("use_length"):
        call.refuse_if(function == "log_softmax", "takes lengths")
        return Form(call.snippet("softmax_within", axis=axis).replace("{*}", f"{data}, {{1}}"))
    if temperature != 1:
        return Form(f"F.{function}({data}, {axis})")
    return Form(f"F.{function}({{0}}, {axis})", module, {"dim": axis})


@converts("UpSampling")
def up_sampling(call: Call) -> Form | str:
    """Pixels are repeated until all inputs have the size of the first; or a deconvolution has the weights."""
    if call.text("sample_type") == "bilinear":
        _, stride, pad = call.bilinear_window()
        return f"F.conv_transpose2d({{0}}, {{1}}, stride={stride}, padding={pad}, groups={call.shape[1]})"
    repeated = [f"F.interpolate({{{index}}}, scale_factor={float(scale)})" for index, scale in enumerate(call.scales())]
    if len(repeated) == 1:
        return Form(repeated[0], "nn.Upsample", {"scale_factor": call.value("scale")})
    if call.text("multi_input_mode") == "sum":
        return " + ".join(repeated)
    return f"torch.cat([{', '.join(repeated)}], 1)"


@converts("_contrib_BilinearResize2D")
def bilinear_resize(call: Call) -> str:
    mode, scale = call.text("mode", "size"), call.value("scale_height")
    call.refuse_if(1 in call.shape[2:] and call.shape[2:] != call.shapes[0][2:], "resizes to one pixel")
    call.refuse_if(mode not in ("size", "like"), f"has the mode {mode}; expected size or like")
    size = "size={1}.shape[2:]" if mode == "like" else f"size={one(call.shape[2:])}"
    if mode == "size" and scale is not None:
        scales = float(scale), float(call.value("scale_width", 1.0))
        call.refuse_if(any(scale != int(scale) for scale in scales), "has a scale that is no integer")
        size = f"scale_factor={one(scales)}"
    return f"F.interpolate({{0}}, {size}, mode='bilinear', align_corners={call.flag('align_corners', True)})"


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
    return Form(module=module, args=args, state=_state(call, *state), outputs=outputs, call=text)
