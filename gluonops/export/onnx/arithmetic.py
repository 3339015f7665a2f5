"""Converters of elementwise arithmetic, scalars, comparisons, reductions and matrix products."""
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..rules import names_of
from .model import Call, Model
from .registry import converts

UNARY = {"abs": "Abs", "arccos": "Acos", "arccosh": "Acosh", "arcsin": "Asin", "arcsinh": "Asinh", "arctan": "Atan",
         "arctanh": "Atanh", "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "floor": "Floor",
         "log": "Log", "negative": "Neg", "reciprocal": "Reciprocal", "relu": "Relu", "sigmoid": "Sigmoid",
         "sign": "Sign", "sin": "Sin", "sinh": "Sinh", "softsign": "Softsign", "sqrt": "Sqrt", "tan": "Tan",
         "tanh": "Tanh"}
OF_NUMBERS = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "power": "Pow", "maximum": "Max",
              "minimum": "Min"}
COMPARISONS = {"equal": "Equal", "not_equal": "Equal", "greater": "Greater", "greater_equal": "GreaterOrEqual",
               "lesser": "Less", "lesser_equal": "LessOrEqual"}
LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
OF_TWO = {**OF_NUMBERS, **COMPARISONS, **LOGIC, "mod": "Mod"}
OPERATIONS = {name: operation for operation in OF_TWO for name in names_of(operation)}   # MXNet's name -> ours


def _widened(model: Model, call: Call, value: str) -> str:
    """Casts int8 and uint8 to int32: ONNX has no powers and sums of 8 bits."""
    return model.cast(value, np.int32) if call.dtype.itemsize == 1 else value


def _narrowed(model: Model, call: Call, value: str) -> str:
    """Casts back what :func:`_widened` has cast."""
    return model.cast(value, call.dtype) if call.dtype.itemsize == 1 else value


@converts(*UNARY)
def unary(model: Model, call: Call) -> str:
    """ONNX, or onnxruntime, lacks some of these for integers."""
    op, kind = UNARY[call.node.op], call.dtype.kind
    if kind != "f" and (op in ("Floor", "Ceil") or (op == "Relu" and kind == "u")):
        return call.inputs[0]
    if kind != "f" and op == "Relu":
        return model.add("Max", call.inputs[0], model.scalar(0, call.dtype))
    return model.add(op, call.inputs[0])


@converts(*OPERATIONS)
def binary(model: Model, call: Call) -> str:
    """Of two tensors, or of one and a scalar. MXNet's comparisons return 0 and 1 in the type of their inputs."""
    operation = OPERATIONS[call.node.op]
    op = OF_TWO[operation]
    both = call.inputs
    if call.node.op.endswith("_scalar"):
        both = [*both, model.scalar(float(call.value("scalar", 0.0)), call.dtypes[0])]
    if call.node.op.startswith("_r"):
        both = both[::-1]
    if op == "Mod":
        return _modulo(model, call, *both)
    if op == "Pow":
        return _narrowed(model, call, model.add(op, *(_widened(model, call, value) for value in both)))
    if operation in LOGIC:
        both = [model.cast(value, bool) for value in both]
    result = model.add(op, *both)
    if operation == "not_equal":
        result = model.add("Not", result)
    return result if operation in OF_NUMBERS else model.cast(result, call.dtype)


def rounded(model: Model, value: str, dtype: np.dtype) -> str:
    """MXNet rounds halves away from zero, ONNX to the even neighbour. To add 0.5 and cut would round the sum itself."""
    magnitude = model.add("Abs", value)
    below = model.add("Floor", magnitude)
    rest = model.add("Sub", magnitude, below)
    up = model.cast(model.add("GreaterOrEqual", rest, model.scalar(0.5, dtype)), dtype)
    return model.add("Mul", model.add("Sign", value), model.add("Add", below, up))


def _cut_off(model: Model, value: str, dtype: np.dtype) -> str:
    return model.add("Mul", model.add("Sign", value), model.add("Floor", model.add("Abs", value)))


def _logarithm(base: int) -> Callable:
    return lambda model, x, dtype: model.add("Div", model.add("Log", x), model.scalar(np.log(float(base)), dtype))


# What several operators of ONNX compute: functions of the model, the input and its type.
COMPOSED = {
    "expm1": lambda model, x, dtype: model.add("Sub", model.add("Exp", x), model.scalar(1, dtype)),
    "fix": _cut_off,
    "log10": _logarithm(10),
    "log1p": lambda model, x, dtype: model.add("Log", model.add("Add", x, model.scalar(1, dtype))),
    "log2": _logarithm(2),
    "logical_not": lambda model, x, dtype: model.cast(model.add("Not", model.cast(x, bool)), dtype),
    "round": rounded,
    "rsqrt": lambda model, x, dtype: model.add("Reciprocal", model.add("Sqrt", x)),
    "square": lambda model, x, dtype: model.add("Mul", x, x),
    "trunc": _cut_off,
}


@converts(*COMPOSED)
def composed(model: Model, call: Call) -> str:
    return COMPOSED[call.node.op](model, call.inputs[0], call.dtype)


def _modulo(model: Model, call: Call, left: str, right: str) -> str:
    """The remainder with the divisor's sign, as in Python. ONNX's own operator does so for integers only.

    MXNet's remainder of a division by 0 is 0. ONNX's is NaN or an error.
    """
    zero = model.scalar(0, call.dtype)
    by_zero = model.add("Equal", right, zero)
    divisor = model.add("Where", by_zero, model.scalar(1, call.dtype), right)
    if call.dtype.kind in "iu":
        return model.add("Mod", left, divisor)
    quotient = model.add("Floor", model.add("Div", left, divisor))
    rest = model.add("Sub", left, model.add("Mul", quotient, divisor))
    return model.add("Where", by_zero, zero, rest)


@converts("clip")
def clip(model: Model, call: Call) -> str:
    lowest = model.scalar(call.value("a_min"), call.dtype)
    highest = model.scalar(call.value("a_max"), call.dtype)
    return model.add("Clip", call.inputs[0], lowest, highest)


@converts("hard_sigmoid")
def hard_sigmoid(model: Model, call: Call) -> str:
    alpha = float(call.value("alpha", 0.2))
    beta = float(call.value("beta", 0.5))
    return model.add("HardSigmoid", call.inputs[0], alpha=alpha, beta=beta)


def _refuse_integers(call: Call) -> None:
    """Raise an OpError for integers: MXNet rounds them, or they overflow, differently than in ONNX."""
    if call.dtype.kind in "iu":
        raise call.refuse(f"computes in {call.dtype}, where MXNet's numbers are not ONNX's; expected float32")


@converts("smooth_l1")
def smooth_l1(model: Model, call: Call) -> str:
    _refuse_integers(call)
    scale = float(call.value("scalar", 1.0)) ** 2
    size = model.add("Abs", call.inputs[0])
    near = model.add("Mul", model.add("Mul", size, size), model.scalar(scale / 2, call.dtype))
    far = model.add("Sub", size, model.scalar(0.5 / scale, call.dtype))
    return model.add("Where", model.add("Less", size, model.scalar(1 / scale, call.dtype)), near, far)


@converts("_np_cumsum")
def cumulative_sum(model: Model, call: Call) -> str:
    axis = call.value("axis")
    value = model.reshape(call.inputs[0], call.shape) if axis is None else call.inputs[0]
    return model.add("CumSum", value, model.scalar(axis or 0, np.int64))


@converts("add_n")
def add_n(model: Model, call: Call) -> str:
    """ONNX's Sum takes floating-point numbers only."""
    if call.dtype.kind == "f":
        return model.add("Sum", *call.inputs)
    total, *others = call.inputs
    for value in others:
        total = model.add("Add", total, value)
    return total


@converts("where")
def where(model: Model, call: Call) -> str:
    condition = model.cast(call.inputs[0], bool)
    if len(call.shapes[0]) < len(call.shapes[1]):   # one condition per row
        condition = model.reshape(condition, call.shapes[0] + (1,) * (len(call.shapes[1]) - 1))
    return model.add("Where", condition, *call.inputs[1:])


def _reshaped_if_scalar(model: Model, call: Call, result: str, axes: Sequence[int]) -> str:
    """The result of a reduction. MXNet returns a vector of one element if no axis is left."""
    no_axis_left = len(axes) == len(call.shapes[0])
    if no_axis_left and not call.flag("keepdims"):
        return model.reshape(result, call.shape)
    return result


REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd"}


@converts(*REDUCTIONS)
def reduction(model: Model, call: Call) -> str:
    axes = call.reduced_axes()
    if call.node.op == "mean" and call.dtype.itemsize == 1:   # MXNet's sum overflows
        _refuse_integers(call)
    widened = _widened(model, call, call.inputs[0])
    result = model.reduce(REDUCTIONS[call.node.op], widened, axes, call.flag("keepdims"))
    return _reshaped_if_scalar(model, call, _narrowed(model, call, result), axes)


@converts("norm")
def norm(model: Model, call: Call) -> str:
    _refuse_integers(call)
    order = call.value("ord", 2)
    if order not in (1, 2):
        raise call.refuse(f"has ord={order}; ONNX knows 1 and 2")
    axes = call.reduced_axes()
    result = model.reduce(f"ReduceL{order}", call.inputs[0], axes, call.flag("keepdims"))
    return _reshaped_if_scalar(model, call, result, axes)


@converts("argmax", "argmin")
def arg_extreme(model: Model, call: Call) -> str:
    op = {"argmax": "ArgMax", "argmin": "ArgMin"}[call.node.op]
    keepdims = int(call.flag("keepdims"))
    axis = call.value("axis")
    if axis is not None:
        return model.cast(model.add(op, call.inputs[0], axis=axis, keepdims=keepdims), call.dtype)
    flat = model.reshape(call.inputs[0], _flat(call, call.shapes[0]))
    index = model.add(op, flat, axis=0, keepdims=keepdims)
    return model.reshape(model.cast(index, call.dtype), call.shape)


def _flat(call: Call, shape: tuple) -> tuple[int]:
    if not all(isinstance(size, int) for size in shape):
        raise call.refuse("runs over the whole batch; expected an axis")
    return (int(np.prod(shape)),)


def _transposed(model: Model, call: Call, position: int, flag: str) -> str:
    """An input, with its last two axes exchanged if the node's flag says so."""
    if not call.flag(flag):
        return call.inputs[position]
    order = list(range(len(call.shapes[position])))
    order[-2], order[-1] = order[-1], order[-2]
    return model.add("Transpose", call.inputs[position], perm=order)


def _product(model: Model, call: Call) -> str:
    left = _transposed(model, call, 0, "transpose_a")
    right = _transposed(model, call, 1, "transpose_b")
    return model.add("MatMul", left, right)


@converts("batch_dot", "_linalg_gemm2")
def batch_dot(model: Model, call: Call) -> str:
    product = _product(model, call)
    alpha = float(call.value("alpha", 1.0))
    return product if alpha == 1 else model.add("Mul", product, model.scalar(alpha, call.dtype))


@converts("dot")
def dot(model: Model, call: Call) -> str:
    if len(call.shapes[1]) > 2 or (len(call.shapes[0]) > 2 and call.flag("transpose_a")):
        raise call.refuse("multiplies tensors of more than two dimensions")
    product = _product(model, call)
    of_vectors = call.shape == (1,) and len(call.shapes[0]) <= 1
    return model.reshape(product, (1,)) if of_vectors else product
