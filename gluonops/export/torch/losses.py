"""Converters of losses, whose torch code is in ``losses.txt``. A net has them if it is written for training.

A loss of gluonops has a function here where the operators of MXNet that it consists of take longer in torch, 1.3 to 4
times as long, or have no converter (``ohem``, ``lovasz_softmax``). ``iou_loss`` and ``yolo_loss`` need none.
"""
from __future__ import annotations

from ...contract import registry
from ..graph import Node, our_name
from ..operators.forms import number
from ..rules import attributes_of
from .registry import CONVERTERS, Call, arguments_of, converts, snippets

FUNCTIONS = registry.entries().keys() & snippets().keys()   # operators of gluonops that a function is named after
CONVERTERS.update({
    "softmax_cross_entropy": "F.cross_entropy({0}, {1}.long(), reduction='sum').reshape(1)",
    **dict.fromkeys(("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"),
                    lambda call: call.snippet("regression_output", call.node.op[:-len("RegressionOutput")].lower(),
                                              call.single("grad_scale", 1.0))),
})


@converts(*(f"gluonops_{name}" for name in FUNCTIONS))
def function(call: Call) -> str:
    """A call of the function of the operator's name, which has its arguments."""
    name = our_name(call.node)
    known = arguments_of(name)
    return call.snippet(name, **{key: list(value) if isinstance(value, tuple) else value
                                 for key, value in attributes_of(call.node)._asdict().items() if key in known})


def lacks_arguments(node: Node) -> bool:
    """Whether the function of a node's operator does not have an argument that the node needs."""
    name = our_name(node)
    if name not in FUNCTIONS:
        return False
    op, known, values = registry.get(name).op, arguments_of(name), attributes_of(node)._asdict()
    return any(attr.name not in known and values[attr.name] != attr.default for attr in op.attrs
               if attr.name != "parts")   # It is a second output, which may be read by nothing.


@converts("gluonops_softmax_cross_entropy")
def cross_entropy(call: Call) -> str:
    axis = call.axis()
    data, label = ("{0}", "{1}") if axis == 1 else (f"{{0}}.movedim({axis}, 1)", f"{{1}}.movedim({axis}, 1)")
    is_sparse = call.flag("sparse_label", True)
    keeps_axis = is_sparse and len(call.shapes[1]) == call.ndim
    if is_sparse:
        label = "{1}.long()" + f".squeeze({axis})" * keeps_axis
    options = {"ignore_index": call.value("ignore_label"), "label_smoothing": call.value("smoothing") or None}
    weight = call.value("class_weight")
    if weight is not None:
        values = list(weight) * (call.shapes[0][axis] if len(weight) == 1 else 1)
        options["weight"] = f"torch.tensor({values}, dtype={{0}}.dtype, device={{0}}.device)"
    named = "".join(f", {name}={value}" for name, value in options.items() if value is not None)
    return f"F.cross_entropy({data}, {label}{named}, reduction='none')" + f".unsqueeze({axis})" * keeps_axis


@converts("SVMOutput")
def svm_output(call: Call) -> str:
    call.refuse_if(call.ndim != 2, "reads data of more than two dimensions, with a label for each number but the last")
    return call.snippet("svm_output", call.single("margin", 1.0), call.single("regularization_coefficient", 1.0),
                        not call.flag("use_linear"))


@converts("SoftmaxOutput")
def softmax_output(call: Call) -> str:
    call.refuse_if(call.flag("out_grad") or float(call.value("smooth_alpha", 0.0)), "has out_grad or smooth_alpha")
    scale, normalization = number(call.single("grad_scale", 1.0)), call.text("normalization", "null")
    is_map = call.flag("multi_output")
    if call.shapes[0] == call.shapes[1]:
        call.refuse_if(normalization != "null" or is_map, "has dense labels with multi_output or a normalization")
        return f"GivenGradient.apply({{0}}, {{0}}.softmax(-1), {scale} * ({{0}}.softmax(-1) - {{1}}))"
    call.refuse_if(call.ndim > 2 and not is_map and not call.flag("preserve_shape"),
                   "takes the softmax over several axes")
    options = f", {1 if is_map else -1}"
    if call.flag("use_ignore"):
        options += f", ignore_label={number(call.value('ignore_label', -1.0))}"
    if normalization == "valid":
        options += ", normalization='valid'"
    elif normalization == "batch" or is_map:   # multi_output takes the mean over each map in any case
        scale += " / {1}.numel()" if normalization == "batch" else " / {1}[0].numel()"
    options += f", grad_scale={scale}" if scale != "1" else ""
    label = "{1}.reshape({0}[:, 0].shape)" if is_map and len(call.shapes[1]) != call.ndim - 1 else "{1}"
    return f"softmax_output({{0}}, {label}{options})"


@converts("MakeLoss", "make_loss")
def make_loss(call: Call) -> str:
    scale = number(call.single("grad_scale", 1.0))
    divisor = {"null": "", "batch": " / {0}.shape[0]", "valid":
               f" / ({{0}} > {number(call.single('valid_thresh', 0.0))}).sum().clamp(min=1)"}
    gradient = f"{scale} * torch.ones_like({{0}})" + divisor[call.text("normalization", "null")]
    return "{0}.detach()" if scale == "0" else f"GivenGradient.apply({{0}}, {{0}}, {gradient})"
