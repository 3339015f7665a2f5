"""MXNet's losses, and the heads that train a net. Their code in torch is in ``torch/loss_functions.txt``."""
from __future__ import annotations

import math

from .forms import Single, number
from .rule_registry import OnnxCall, Tensor, TorchCall, in_torch, onnx, shape, torch, traits
from .shape_rules import Call, Shape

traits("CTCLoss", "MakeLoss", "make_loss", "softmax_cross_entropy", is_loss=True)
traits("MakeLoss", "make_loss", acts_as="make_loss", moves=True)
traits("IdentityAttachKLSparseReg", "LinearRegressionOutput", "MAERegressionOutput", "SVMOutput", predicts="_copy")
traits("LogisticRegressionOutput", predicts="sigmoid")
traits("SoftmaxOutput", predicts="softmax", is_softmax=True)   # it has several forms; see ``passes.inference``
traits("gluonops_softmax_output", is_softmax=True)
traits("CTCLoss", example_label=(4,))


@shape("MakeLoss", "make_loss")
def _(call: Call, data: Shape) -> Shape:
    return data


@onnx("MakeLoss", "make_loss")
def _(call: OnnxCall, data: Tensor) -> Tensor:
    return data


@torch("MakeLoss")
@torch("make_loss", grad_scale=1.0, valid_thresh=0.0, normalization="null")
def _(call: TorchCall, *, grad_scale, valid_thresh, normalization) -> str:
    scale = number(Single(grad_scale))
    divisor = {"null": "", "batch": " / {0}.shape[0]", "valid":
               f" / ({{0}} > {number(Single(valid_thresh))}).sum().clamp(min=1)"}
    gradient = f"{scale} * torch.ones_like({{0}})" + divisor[normalization]
    return "{0}.detach()" if scale == "0" else f"GivenGradient.apply({{0}}, {{0}}, {gradient})"


@shape("softmax_cross_entropy")
def _(call: Call, data: Shape, label: Shape | None) -> Shape:
    call.expect(1, data[:-1])
    return (1,)


in_torch("softmax_cross_entropy", "F.cross_entropy({0}, {1}.long(), reduction='sum').reshape(1)")


@torch("gluonops_softmax_cross_entropy")
def _(call: TorchCall, *, axis, ignore_label, smoothing, sparse_label, class_weight) -> str:
    axis = call.from_front(axis)
    data, label = ("{0}", "{1}") if axis == 1 else (f"{{0}}.movedim({axis}, 1)", f"{{1}}.movedim({axis}, 1)")
    keeps_axis = sparse_label and len(call.shapes[1]) == call.ndim
    if sparse_label:
        label = "{1}.long()" + f".squeeze({axis})" * keeps_axis
    options = {"ignore_index": ignore_label, "label_smoothing": smoothing or None}
    if class_weight is not None:
        values = list(class_weight) * (call.shapes[0][axis] if len(class_weight) == 1 else 1)
        options["weight"] = f"torch.tensor({values}, dtype={{0}}.dtype, device={{0}}.device)"
    named = "".join(f", {name}={value}" for name, value in options.items() if value is not None)
    return f"F.cross_entropy({data}, {label}{named}, reduction='none')" + f".unsqueeze({axis})" * keeps_axis


# -- heads, which return a prediction and have the loss as a gradient -------------------------------------------------
@shape("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput")
def _(call: Call, data: Shape, label: Shape | None) -> Shape:
    if label is None:
        call.expect(1, data[:1] if data[1:] == (1,) else data)
    else:
        call.check(math.prod(label) == math.prod(data), 1, data)
    return data


@torch("LinearRegressionOutput", kind="linear")
@torch("LogisticRegressionOutput", kind="logistic")
@torch("MAERegressionOutput", kind="mae")
def _(call: TorchCall, *, grad_scale, kind) -> str:
    return call.snippet("regression_output", kind, Single(grad_scale))


@shape("SVMOutput")
def _(call: Call, data: Shape, label: Shape | None) -> Shape:
    call.expect(1, data[:-1])
    return data


@torch("SVMOutput")
def _(call: TorchCall, *, margin, regularization_coefficient, use_linear) -> str:
    call.refuse_if(call.ndim != 2, "reads data of more than two dimensions; expected (batch, classes)")
    return call.snippet("svm_output", Single(margin), Single(regularization_coefficient), not use_linear)


@shape("SoftmaxOutput")
def _(call: Call, data: Shape, label: Shape | None, *, multi_output) -> Shape:
    batch, _, *rest = data
    if multi_output:
        taken = [(batch, math.prod(rest)), (batch, *rest), (batch, 1, *rest), data]
        call.expect(1, label if label in taken else taken[0])
    elif label != data:
        call.expect(1, data[:-1])
    return data


@torch("SoftmaxOutput")
def _(call: TorchCall, *, grad_scale, ignore_label, multi_output, use_ignore, preserve_shape, normalization, out_grad,
      smooth_alpha) -> str:
    call.refuse_if(out_grad or smooth_alpha, "has out_grad or smooth_alpha; expected neither")
    scale = number(Single(grad_scale))
    if call.shapes[0] == call.shapes[1]:
        call.refuse_if(normalization != "null" or multi_output,
                       "has dense labels with multi_output or a normalization; expected neither with them")
        return f"GivenGradient.apply({{0}}, {{0}}.softmax(-1), {scale} * ({{0}}.softmax(-1) - {{1}}))"
    call.refuse_if(call.ndim > 2 and not multi_output and not preserve_shape,
                   "computes the softmax over several axes; expected preserve_shape or multi_output")
    options = f", {1 if multi_output else -1}"
    if use_ignore:
        options += f", ignore_label={number(Single(ignore_label))}"
    if normalization == "valid":
        options += ", normalization='valid'"
    elif normalization == "batch" or multi_output:   # multi_output takes the mean over each map in any case
        scale += " / {1}.numel()" if normalization == "batch" else " / {1}[0].numel()"
    options += f", grad_scale={scale}" if scale != "1" else ""
    label = "{1}.reshape({0}[:, 0].shape)" if multi_output and len(call.shapes[1]) != call.ndim - 1 else "{1}"
    return f"softmax_output({{0}}, {label}{options})"
