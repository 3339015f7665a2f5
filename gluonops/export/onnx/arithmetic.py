"""Converters of elementwise arithmetic, scalars, comparisons, reductions and matrix products."""
from __future__ import annotations

import functools
import operator
from collections.abc import Callable

import numpy as np

from ..rules import names_of
from .model import Call, Tensor, converts

UNARY = {"abs": "Abs", "arccos": "Acos", "arccosh": "Acosh", "arcsin": "Asin", "arcsinh": "Asinh", "arctan": "Atan",
         "arctanh": "Atanh", "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "floor": "Floor",
         "log": "Log", "negative": "Neg", "reciprocal": "Reciprocal", "relu": "Relu", "sigmoid": "Sigmoid",
         "sign": "Sign", "sin": "Sin", "sinh": "Sinh", "softsign": "Softsign", "sqrt": "Sqrt", "tan": "Tan",
         "tanh": "Tanh"}
ARITHMETIC = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "power": "Pow", "maximum": "Max",
              "minimum": "Min"}
COMPARISONS = {"equal": "Equal", "not_equal": "Equal", "greater": "Greater", "greater_equal": "GreaterOrEqual",
               "lesser": "Less", "lesser_equal": "LessOrEqual"}
LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}


def _widened(call: Call, compute: Callable[..., Tensor], *values: Tensor) -> Tensor:
    """What a function of tensors computes, of int8 and uint8 in int32: ONNX has no powers and sums of 8 bits."""
    if call.dtype.itemsize > 1:
        return compute(*values)
    return compute(*[value.cast(np.int32) for value in values]).cast(call.dtype)


def _operands(call: Call) -> list[Tensor]:
    """The operands of an operator. One of two may be the attribute ``scalar``."""
    if "scalar" not in call.node.op:
        return call.inputs
    number = call.held(float(call.value("scalar", 1.0)))
    if number is None:
        raise call.refuse(f"has the scalar {call.text('scalar')}, which {call.dtypes[0]} does not hold")
    if number == 0 and call.dtype.kind in "iu" and call.node.op == "_div_scalar":
        raise call.refuse("divides integers by 0, which ends MXNet's process")
    scalar = call.model.scalar(number, call.dtypes[0])
    return [scalar, *call.inputs] if call.node.op.startswith("_r") else [*call.inputs, scalar]


def _unary(op: str, call: Call, data: Tensor) -> Tensor:
    """ONNX, or onnxruntime, lacks some of these for integers. MXNet's sign of NaN is 0."""
    is_float, is_unsigned = call.dtype.kind == "f", call.dtype.kind == "u"
    if is_float and op == "Sign":
        return data.apply("IsNaN").apply("Where", 0, data.apply(op))
    if not is_float and (op in ("Floor", "Ceil") or (op == "Relu" and is_unsigned)):
        return data
    if not is_float and op == "Relu":
        return data.apply("Max", 0)
    return data.apply(op)


def _enter(compute: Callable[..., Tensor], *names: str) -> None:
    """Enter a function of the call and its operands for these operators."""
    converts(*names)(lambda call: compute(call, *_operands(call)))


def _arithmetic(op: str, call: Call, left: Tensor, right: Tensor) -> Tensor:
    if op == "Pow":
        return _widened(call, lambda base, exponent: base.apply(op, exponent), left, right)
    return left.apply(op, right)


def _comparison(op: str, call: Call, left: Tensor, right: Tensor) -> Tensor:
    """MXNet's comparisons return 0 and 1 in the type of their inputs."""
    truth = left.apply(op, right)
    if "not_equal" in call.node.op:
        truth = truth.apply("Not")
    return truth.cast(call.dtype)


def _logic(op: str, call: Call, left: Tensor, right: Tensor) -> Tensor:
    return left.cast(bool).apply(op, right.cast(bool)).cast(call.dtype)


def _modulo(call: Call, left: Tensor, right: Tensor) -> Tensor:
    """The remainder with the divisor's sign, as in Python. ONNX's own operator does so for integers only.

    Of floats it is computed from the remainder with the dividend's sign, which is exact. The quotient is not: the
    float next to 0.6 is contained in 3 only 4 times, but 3 / 0.6 is rounded to 5. MXNet's remainder of a division by 0
    is 0. ONNX's is NaN or an error.
    """
    by_zero = right.apply("Equal", 0)
    divisor = by_zero.apply("Where", 1, right)
    if call.dtype.kind in "iu":
        return left.apply("Mod", divisor)
    rest = left.apply("Mod", divisor, fmod=1)
    has_other_sign = rest * divisor.apply("Sign") < 0
    return by_zero.apply("Where", 0, has_other_sign.apply("Where", rest + divisor, rest))


def _rounding(compute: Callable[[Tensor], Tensor], call: Call, data: Tensor) -> Tensor:
    """What rounds numbers. Integers stay as they are."""
    return compute(data) if call.dtype.kind == "f" else data


def rounded(value: Tensor) -> Tensor:
    """MXNet rounds halves away from zero, ONNX to the even neighbour. To add 0.5 and cut would round the sum itself."""
    magnitude = value.apply("Abs")
    below = magnitude.apply("Floor")
    up = (magnitude - below >= 0.5).cast(value.dtype)
    return value.apply("Sign") * (below + up)


def _truncated(value: Tensor) -> Tensor:
    return value.apply("Sign") * value.apply("Abs").apply("Floor")


def _rounded_down(value: Tensor) -> Tensor:
    """What MXNet calls rint: the lower neighbour of a half."""
    below, above = value.apply("Floor"), value.apply("Ceil")
    return (above - value < value - below).apply("Where", above, below)


FORMULAS = {
    "expm1": lambda call, x: x.apply("Exp") - 1,
    "fix": functools.partial(_rounding, _truncated),
    "log10": lambda call, x: x.apply("Log") / np.log(10.0),
    "log1p": lambda call, x: (x + 1).apply("Log"),
    "log2": lambda call, x: x.apply("Log") / np.log(2.0),
    "logical_not": lambda call, x: x.cast(bool).apply("Not").cast(x.dtype),
    "rint": functools.partial(_rounding, _rounded_down),
    "round": functools.partial(_rounding, rounded),
    "rsqrt": lambda call, x: x.apply("Sqrt").apply("Reciprocal"),
    "square": lambda call, x: x * x,
    "trunc": functools.partial(_rounding, _truncated),
}
for _name, _op in UNARY.items():
    _enter(functools.partial(_unary, _op), _name)
for _name, _formula in FORMULAS.items():
    _enter(_formula, _name)
for _compute, _words in ((_arithmetic, ARITHMETIC), (_comparison, COMPARISONS), (_logic, LOGIC)):
    for _word, _op in _words.items():
        _enter(functools.partial(_compute, _op), *names_of(_word))
_enter(_modulo, *names_of("mod"))


def _refuse_integers(call: Call) -> None:
    """Raise an OpError for integers: MXNet rounds them, or they overflow, differently than in ONNX."""
    if call.dtype.kind in "iu":
        raise call.refuse(f"computes in {call.dtype}, where MXNet's numbers are not ONNX's; expected float32")


@converts("smooth_l1")
def smooth_l1(call: Call) -> Tensor:
    _refuse_integers(call)
    scale = float(call.value("scalar", 1.0)) ** 2
    size = call.inputs[0].apply("Abs")
    near = size * size * (scale / 2)
    far = size - 0.5 / scale
    return (size < 1 / scale).apply("Where", near, far)


@converts("_np_cumsum")
def cumulative_sum(call: Call) -> Tensor:
    axis = call.value("axis")
    value = call.inputs[0].reshape(call.shape) if axis is None else call.inputs[0]
    return value.apply("CumSum", call.model.scalar(axis or 0, np.int64))


@converts("add_n")
def add_n(call: Call) -> Tensor:
    """ONNX's Sum takes floating-point numbers only."""
    if call.dtype.kind == "f":
        return call.model.add("Sum", *call.inputs)
    return functools.reduce(operator.add, call.inputs)


@converts("where")
def where(call: Call) -> Tensor:
    condition = call.inputs[0].cast(bool)
    if len(call.shapes[0]) < len(call.shapes[1]):   # one condition per row
        condition = condition.reshape(call.shapes[0] + (1,) * (len(call.shapes[1]) - 1))
    return condition.apply("Where", *call.inputs[1:])


def _reduced(op: str, call: Call) -> Tensor:
    """The result of a reduction. MXNet returns a vector of one element if no axis is left."""
    if op == "ReduceMean" and call.dtype.itemsize == 1:   # MXNet's sum overflows
        _refuse_integers(call)
    axes, keepdims = call.reduced_axes(), call.flag("keepdims")
    result = _widened(call, lambda value: value.reduce(op, axes, keepdims), call.inputs[0])
    no_axis_left = len(axes) == len(call.shapes[0]) and not keepdims
    return result.reshape(call.shape) if no_axis_left else result


for _name in ("max", "mean", "min", "prod", "sum"):
    converts(_name)(functools.partial(_reduced, f"Reduce{_name.capitalize()}"))


@converts("norm")
def norm(call: Call) -> Tensor:
    _refuse_integers(call)
    order = call.value("ord", 2)
    if order not in (1, 2):
        raise call.refuse(f"has ord={order}; ONNX knows 1 and 2")
    return _reduced(f"ReduceL{order}", call)


@converts("argmax", "argmin")
def arg_extreme(call: Call) -> Tensor:
    op = {"argmax": "ArgMax", "argmin": "ArgMin"}[call.node.op]
    keepdims = int(call.flag("keepdims"))
    axis, data = call.value("axis"), call.inputs[0]
    if axis is not None:
        return data.apply(op, axis=axis, keepdims=keepdims).cast(call.dtype)
    if not all(isinstance(size, int) for size in call.shapes[0]):
        raise call.refuse("runs over the whole batch; expected an axis")
    flat = data.reshape((int(np.prod(call.shapes[0])),))
    return flat.apply(op, axis=0, keepdims=keepdims).cast(call.dtype).reshape(call.shape)


def _transposed(call: Call, position: int, flag: str) -> Tensor:
    """An input, with its last two axes exchanged if the node's flag says so."""
    value = call.inputs[position]
    return value.swapped(len(call.shapes[position]), -2, -1) if call.flag(flag) else value


def _product(call: Call) -> Tensor:
    return _transposed(call, 0, "transpose_a").apply("MatMul", _transposed(call, 1, "transpose_b"))


@converts("batch_dot", "_linalg_gemm2")
def batch_dot(call: Call) -> Tensor:
    product = _product(call)
    alpha = float(call.value("alpha", 1.0))
    return product if alpha == 1 else product * alpha


@converts("dot")
def dot(call: Call) -> Tensor:
    if len(call.shapes[1]) > 2 or (len(call.shapes[0]) > 2 and call.flag("transpose_a")):
        raise call.refuse("multiplies tensors of more than two dimensions")
    product = _product(call)
    of_vectors = call.shape == (1,) and len(call.shapes[0]) <= 1
    return product.reshape((1,)) if of_vectors else product
