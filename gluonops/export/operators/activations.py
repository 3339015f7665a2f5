"""Activations, dropout and softmax."""
from __future__ import annotations

import numpy as np

from ..graph import Node
from .forms import Form, Single, number
from .node_attributes import attributes_of
from .rule_registry import OnnxCall, Tensor, TorchCall, in_torch, indices, onnx, shape, torch, traits, types
from .shape_rules import Call, Shape
from .windows import across

DROPS_ALWAYS = "drops numbers at inference, too; expected mode='training'"

# -- activations and dropout ------------------------------------------------------------------------------------------
traits("Activation", "LeakyReLU", "relu", "clip", "gluonops_mish", "gluonops_swish", "gluonops_hard_swish",
       "gluonops_gelu", is_activation=True)
traits("sigmoid", "tanh", is_gate=True)
traits("LeakyReLU", "log_softmax", "sigmoid", "softmax", "softmin", "softsign", "tanh", is_of_floats=True)
traits("LeakyReLU", has_parameters=True)   # prelu reads slopes
traits("Dropout", is_identity=True, fusion_removes=True)
traits("Activation", "LeakyReLU", fuses_behind_convolution=True, fuses_behind_dense=True)
traits("Activation", "relu", "sigmoid", "tanh", keeps_batch=True)
traits("Activation", stays_float=True, shown=("act_type",))
traits("LeakyReLU", shown=("act_type", "slope"))
traits("softmax", "SoftmaxActivation", "gluonops_softmax", is_softmax=True)
traits("softmax", shown=("axis",))
IN_ONNX = {"relu": "Relu", "sigmoid": "Sigmoid", "softrelu": "Softplus", "softsign": "Softsign", "tanh": "Tanh"}
IN_TORCH = {"relu": Form("F.relu({0})", "nn.ReLU"), "sigmoid": Form("torch.sigmoid({0})", "nn.Sigmoid"),
            "tanh": Form("torch.tanh({0})", "nn.Tanh"), "softrelu": Form("F.softplus({0})", "nn.Softplus"),
            "softsign": Form("F.softsign({0})", "nn.Softsign"), "mish": Form("F.mish({0})", "nn.Mish"),
            "log_sigmoid": Form("F.logsigmoid({0})", "nn.LogSigmoid"), "gelu": Form("F.gelu({0})", "nn.GELU")}
for _name in ("relu", "sigmoid", "tanh", "softsign"):
    in_torch(_name, IN_TORCH[_name])
in_torch("gluonops_mish", IN_TORCH["mish"])
in_torch("gluonops_hard_swish", Form("F.hardswish({0})", "nn.Hardswish"))
in_torch("gluonops_swiglu", "F.silu({0}.chunk(2, {axis})[0]) * {0}.chunk(2, {axis})[1]")


def is_relu(node: Node) -> bool:
    """Whether a node is a ReLU, under either of MXNet's names."""
    return node.op == "relu" or (node.op == "Activation" and attributes_of(node)["act_type"] == "relu")


@shape("relu", "sigmoid", "softsign", "tanh", "Activation", "Dropout", "SoftmaxActivation")
def _(call: Call, data: Shape) -> Shape:
    return data


@onnx("relu")
def _(call: OnnxCall, data: Tensor) -> Tensor:
    """onnxruntime lacks it for integers."""
    if call.dtype.kind == "f":
        return data.apply("Relu")
    return data if call.dtype.kind == "u" else data.apply("Max", 0)


@onnx("sigmoid", function="Sigmoid")
@onnx("softsign", function="Softsign")
@onnx("tanh", function="Tanh")
def _(call: OnnxCall, data: Tensor, *, function) -> Tensor:
    return data.apply(function)


@onnx("Activation")
def _(call: OnnxCall, data: Tensor, *, act_type) -> Tensor:
    return data.apply(IN_ONNX[act_type])


@torch("Activation")
def _(call: TorchCall, *, act_type) -> Form:
    return IN_TORCH[act_type]


@shape("LeakyReLU")
def _(call: Call, *, act_type) -> Shape | list[Shape]:
    if act_type == "prelu":
        call.check(call.shapes[1] in ((1,), call.data[1:2]), 1, call.data[1:2])
    return [call.data, call.data] if act_type == "rrelu" else call.data   # with the slopes that it has drawn


@onnx("LeakyReLU")
def _(call: OnnxCall, data: Tensor, *gamma: Tensor, act_type, slope, lower_bound, upper_bound) -> Tensor:
    if act_type == "prelu":
        sizes = across(call.shapes[1][0], len(call.shapes[0]) - 1, 0)
        return data.apply("PRelu", gamma[0].reshape(sizes))
    if act_type == "elu":
        return data.apply("Elu", alpha=slope)
    if act_type == "selu":
        return data.apply("Selu")
    if act_type == "gelu" and call.model.opset >= 20:
        return data.apply("Gelu")
    if act_type == "gelu":   # x / 2 * (1 + erf(x / sqrt(2)))
        half = data * 0.5
        return half * ((data * np.sqrt(0.5)).apply("Erf") + 1)
    return data.apply("LeakyRelu", alpha=(lower_bound + upper_bound) / 2 if act_type == "rrelu" else slope)


@torch("LeakyReLU")
def _(call: TorchCall, *, act_type, slope) -> Form:
    if act_type == "leaky":
        return Form(f"F.leaky_relu({{0}}, {slope!r})", "nn.LeakyReLU", {"negative_slope": slope})
    if act_type == "prelu":
        return Form(module="nn.PReLU", args={"num_parameters": call.shapes[1][0]}, state={"weight": 1})
    if act_type == "elu":
        return Form(f"F.elu({{0}}, {Single(slope)!r})", "nn.ELU", {"alpha": Single(slope)})
    call.refuse_if(act_type not in ("selu", "gelu"), f"has act_type {act_type}, which draws random numbers")
    return Form(f"F.{act_type}({{0}})", f"nn.{act_type.upper()}")


@onnx("gluonops_gelu", opset=20)
def _(call: OnnxCall, data: Tensor, *, approximation) -> Tensor:
    return data.apply("Gelu", approximate="tanh" if approximation == "tanh" else "none")


@torch("gluonops_gelu")
def _(call: TorchCall, *, approximation) -> Form:
    return IN_TORCH["gelu"] if approximation == "erf" else Form("F.gelu({0}, approximate='tanh')")


@torch("gluonops_swish")
def _(call: TorchCall, *, beta) -> Form | str:
    return Form("F.silu({0})", "nn.SiLU") if beta == 1 else f"{{0}} * torch.sigmoid({number(beta)} * {{0}})"


@onnx("gluonops_mish", opset=18)
def _(call: OnnxCall, data: Tensor) -> Tensor:
    return data.apply("Mish")


@onnx("Dropout")
def _(call: OnnxCall, data: Tensor, *, mode) -> Tensor:
    if mode == "always":
        raise call.refuse(DROPS_ALWAYS)
    return data


@torch("Dropout")
def _(call: TorchCall, *, p, mode, axes) -> Form:
    """Elements along some axes may share their fate."""
    call.refuse_if(mode != "training", DROPS_ALWAYS)
    one_each = ", ".join(":1" if axis in axes else ":" for axis in range(max(axes, default=0) + 1))
    text = f"{{0}} * {{self}}(torch.ones_like({{0}}[{one_each}]))" if axes else "{self}({0})"
    return Form(module="nn.Dropout", args={"p": p}, call=text)


# -- softmax ----------------------------------------------------------------------------------------------------------
@shape("log_softmax", "softmax", "softmin")
def _(call: Call, *, axis) -> Shape:
    """It may read the length of each row."""
    axis = call.from_front(axis)
    call.expect(1, (*call.data[:axis], *call.data[axis + 1:]))
    return call.data


@types("log_softmax", "softmax", "softmin")
def _(call: Call, data: np.dtype, *lengths: np.dtype, dtype) -> np.dtype | str:
    return dtype or data


@indices("log_softmax", "softmax", "softmin", position=1, first=1, kind="length")
def _(call: Call, *, axis) -> int:
    return 1 + call.shapes[0][axis]


@onnx("softmax")
@onnx("log_softmax", function="LogSoftmax")
@onnx("softmin", sign=-1)
def _(call: OnnxCall, data: Tensor, *lengths: Tensor, axis, temperature, use_length, function="Softmax",
      sign=1) -> Tensor:
    temperature = sign * (temperature or 1.0)
    if temperature != 1:
        data = data / temperature
    axis = call.from_front(axis)
    if use_length:
        if (function, sign) != ("Softmax", 1):
            raise call.refuse("has use_length=True; expected False")
        others = [i for i in range(len(call.shape)) if i != axis]
        inside = lengths[0].within(call.shape, axis, others)
        data = inside.apply("Where", data, -np.inf)
    result = data.apply(function, axis=axis)
    if use_length:   # a row of length 0 would be NaN
        result = inside.apply("Where", result, 0)
    return result if call.dtype == call.dtypes[0] else result.cast(call.dtype)


@torch("softmax")
@torch("gluonops_softmax", use_length=False)
@torch("log_softmax", function="log_softmax", module="nn.LogSoftmax")
@torch("softmin", sign=-1)
def _(call: TorchCall, *, axis, temperature, use_length, function="softmax", module="nn.Softmax", sign=1) -> Form:
    axis = call.from_front(axis)
    temperature = sign * (temperature or 1.0)
    data = "{0}" if temperature == 1 else f"{{0}} / {temperature!r}"
    if use_length:
        call.refuse_if(function == "log_softmax",
                       f"computes {function} with use_length=True; expected softmax or softmin")
        return Form(call.snippet("softmax_within", inputs=f"{data}, {{1}}", axis=axis))
    if temperature != 1:
        return Form(f"F.{function}({data}, {axis})")
    return Form(f"F.{function}({{0}}, {axis})", module, {"dim": axis})


@onnx("SoftmaxActivation")
def _(call: OnnxCall, data: Tensor, *, mode) -> Tensor:
    return data.apply("Softmax", axis=1 if mode == "channel" else -1)


@torch("SoftmaxActivation")
def _(call: TorchCall, *, mode) -> Form:
    axis = 1 if mode == "channel" else call.ndim - 1
    return Form(f"F.softmax({{0}}, {axis})", "nn.Softmax", {"dim": axis})
