"""Converters of arithmetic: element by element, with scalars, comparisons, reductions, products of matrices."""
import functools

import numpy as np

from .registry import converts

UNARY = {"abs": "Abs", "arccos": "Acos", "arccosh": "Acosh", "arcsin": "Asin", "arcsinh": "Asinh", "arctan": "Atan",
         "arctanh": "Atanh", "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "floor": "Floor",
         "log": "Log", "negative": "Neg", "reciprocal": "Reciprocal", "relu": "Relu", "sigmoid": "Sigmoid",
         "sign": "Sign", "sin": "Sin", "sinh": "Sinh", "softsign": "Softsign", "sqrt": "Sqrt", "tan": "Tan",
         "tanh": "Tanh"}
BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "power": "Pow", "maximum": "Max", "minimum": "Min"}
COMPARISONS = {"equal": "Equal", "not_equal": "Equal", "greater": "Greater", "greater_equal": "GreaterOrEqual",
               "lesser": "Less", "lesser_equal": "LessOrEqual"}
LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
# How the names of one operation differ: on equal shapes, broadcast, with a scalar right or left.
SAME = {"add": ("elemwise_add", "_plus", "_add"), "sub": ("elemwise_sub", "_minus", "_sub"),
        "mul": ("elemwise_mul", "_mul"), "div": ("elemwise_div", "_div"), "power": ("_power",),
        "maximum": ("_maximum",), "minimum": ("_minimum",)}
SCALAR = {"add": "_plus_scalar", "sub": "_minus_scalar", "mul": "_mul_scalar", "div": "_div_scalar",
          "power": "_power_scalar", "maximum": "_maximum_scalar", "minimum": "_minimum_scalar"}
REVERSED = {"sub": "_rminus_scalar", "div": "_rdiv_scalar", "power": "_rpower_scalar"}


def _widened(m, n, value):
    """int8 and uint8 as int32: ONNX has no powers and sums of them."""
    return m.cast(value, np.int32) if n.dtype.itemsize == 1 else value


def _narrowed(m, n, value):
    return m.cast(value, n.dtype) if n.dtype.itemsize == 1 else value


def _enter_unary(name, op):
    @converts(name)
    def convert(m, n):
        if n.dtype.kind in "iu":   # for which ONNX, or onnxruntime, lacks these
            if op in ("Floor", "Ceil") or (op, n.dtype.kind) == ("Relu", "u"):
                return n.inputs[0]
            if op == "Relu":
                return m.add("Max", n.inputs[0], m.scalar(0, n.dtype))
        return m.add(op, n.inputs[0])


def _scalar(m, n):
    return m.scalar(float(n.value("scalar", 0.0)), n.dtypes[0])


def _enter_binary(name, op):
    def combine(m, n, left, right):
        if op == "Pow":
            return _narrowed(m, n, m.add(op, _widened(m, n, left), _widened(m, n, right)))
        return m.add(op, left, right)

    @converts(*SAME[name], f"broadcast_{name}")
    def convert(m, n):
        return combine(m, n, *n.inputs)

    @converts(SCALAR[name])
    def convert_scalar(m, n):
        return combine(m, n, n.inputs[0], _scalar(m, n))

    if name in REVERSED:
        @converts(REVERSED[name])
        def convert_reversed(m, n):
            return combine(m, n, _scalar(m, n), n.inputs[0])


def _as_numbers(m, n, truth):
    """MXNet's comparisons answer in numbers."""
    return m.cast(truth, n.dtype)


def _enter_comparison(name, op):
    def compare(m, n, left, right):
        truth = m.add(op, left, right)
        return _as_numbers(m, n, m.add("Not", truth) if name == "not_equal" else truth)

    @converts(f"_{name}", f"broadcast_{name}")
    def convert(m, n):
        return compare(m, n, *n.inputs)

    @converts(f"_{name}_scalar")
    def convert_scalar(m, n):
        return compare(m, n, n.inputs[0], _scalar(m, n))


def _enter_logic(name, op):
    def combine(m, n, left, right):
        return _as_numbers(m, n, m.add(op, m.cast(left, bool), m.cast(right, bool)))

    @converts(f"_{name}", f"broadcast_{name}")
    def convert(m, n):
        return combine(m, n, *n.inputs)

    @converts(f"_{name}_scalar")
    def convert_scalar(m, n):
        return combine(m, n, n.inputs[0], _scalar(m, n))


for _table, _enter in ((UNARY, _enter_unary), (BINARY, _enter_binary), (COMPARISONS, _enter_comparison),
                       (LOGIC, _enter_logic)):
    for _name, _op in _table.items():
        _enter(_name, _op)


@converts("logical_not")
def logical_not(m, n):
    return _as_numbers(m, n, m.add("Not", m.cast(n.inputs[0], bool)))


@converts("square")
def square(m, n):
    return m.add("Mul", n.inputs[0], n.inputs[0])


@converts("rsqrt")
def rsqrt(m, n):
    return m.add("Reciprocal", m.add("Sqrt", n.inputs[0]))


@converts("log1p")
def log1p(m, n):
    return m.add("Log", m.add("Add", n.inputs[0], m.scalar(1, n.dtype)))


@converts("expm1")
def expm1(m, n):
    return m.add("Sub", m.add("Exp", n.inputs[0]), m.scalar(1, n.dtype))


@converts("log2", "log10")
def log_of_base(m, n):
    return m.add("Div", m.add("Log", n.inputs[0]), m.scalar(np.log(float(n.node.op[3:])), n.dtype))


@converts("fix", "trunc")
def fix(m, n):
    return m.add("Mul", m.add("Sign", n.inputs[0]), m.add("Floor", m.add("Abs", n.inputs[0])))


@converts("round")
def away_from_zero(m, n):
    """MXNet rounds a half away from zero, ONNX to the even neighbour. A half is not added, which could round itself."""
    magnitude = m.add("Abs", n.inputs[0])
    below = m.add("Floor", magnitude)
    up = m.cast(m.add("GreaterOrEqual", m.add("Sub", magnitude, below), m.scalar(0.5, n.dtype)), n.dtype)
    return m.add("Mul", m.add("Sign", n.inputs[0]), m.add("Add", below, up))


def _modulo(m, n, left, right):
    """The rest has the divisor's sign, as in Python; ONNX's own operator does so for integers only.

    By 0 it is 0, which ONNX has as NaN or as an error.
    """
    zero = m.scalar(0, n.dtype)
    by_zero = m.add("Equal", right, zero)
    divisor = m.add("Where", by_zero, m.scalar(1, n.dtype), right)
    if n.dtype.kind in "iu":
        return m.add("Mod", left, divisor)
    rest = m.add("Sub", left, m.add("Mul", m.add("Floor", m.add("Div", left, divisor)), divisor))
    return m.add("Where", by_zero, zero, rest)


@converts("_mod", "broadcast_mod")
def mod(m, n):
    return _modulo(m, n, *n.inputs)


@converts("_mod_scalar")
def mod_scalar(m, n):
    return _modulo(m, n, n.inputs[0], _scalar(m, n))


@converts("_rmod_scalar")
def rmod_scalar(m, n):
    return _modulo(m, n, _scalar(m, n), n.inputs[0])


@converts("clip")
def clip(m, n):
    return m.add("Clip", n.inputs[0], m.scalar(n.value("a_min"), n.dtype), m.scalar(n.value("a_max"), n.dtype))


@converts("hard_sigmoid")
def hard_sigmoid(m, n):
    return m.add("HardSigmoid", n.inputs[0], alpha=float(n.value("alpha", 0.2)), beta=float(n.value("beta", 0.5)))


def _only_fractions(n):
    """Refuse what MXNet rounds, or lets run over, in its own way."""
    if n.dtype.kind in "iu":
        raise n.refuse(f"computes in {n.dtype}, where MXNet's numbers are not ONNX's; expected float32")


@converts("smooth_l1")
def smooth_l1(m, n):
    _only_fractions(n)
    scale = float(n.value("scalar", 1.0)) ** 2
    size = m.add("Abs", n.inputs[0])
    near = m.add("Mul", m.add("Mul", size, size), m.scalar(scale / 2, n.dtype))
    far = m.add("Sub", size, m.scalar(0.5 / scale, n.dtype))
    return m.add("Where", m.add("Less", size, m.scalar(1 / scale, n.dtype)), near, far)


@converts("add_n", "ElementWiseSum")
def add_n(m, n):
    """ONNX's Sum takes fractions only."""
    if n.dtype.kind == "f":
        return m.add("Sum", *n.inputs)
    return functools.reduce(lambda left, right: m.add("Add", left, right), n.inputs)


@converts("where")
def where(m, n):
    condition = m.cast(n.inputs[0], bool)
    if len(n.shapes[0]) < len(n.shapes[1]):   # one truth per row
        condition = m.reshape(condition, n.shapes[0] + (1,) * (len(n.shapes[1]) - 1))
    return m.add("Where", condition, *n.inputs[1:])


def reduced_axes(n):
    """The axes that a reduction runs over."""
    ndim = len(n.shapes[0])
    named = [axis % ndim for axis in n.ints("axis", ())]
    if n.flag("exclude"):
        return [axis for axis in range(ndim) if axis not in named]
    return sorted(named) or list(range(ndim))


def _kept(m, n, result, axes):
    """MXNet makes a vector of one where nothing is left."""
    keeps = n.flag("keepdims")
    return result if keeps or len(axes) < len(n.shapes[0]) else m.reshape(result, n.shape)


@converts("sum", "sum_axis")
def reduce_sum(m, n):
    axes = reduced_axes(n)
    total = m.reduce("ReduceSum", _widened(m, n, n.inputs[0]), axes, n.flag("keepdims"))
    return _kept(m, n, _narrowed(m, n, total), axes)


def _enter_reduction(names, op):
    @converts(*names)
    def convert(m, n):
        axes = reduced_axes(n)
        if op == "ReduceMean" and n.dtype.itemsize == 1:   # MXNet's sum runs over
            _only_fractions(n)
        result = m.reduce(op, _widened(m, n, n.inputs[0]), axes, n.flag("keepdims"))
        return _kept(m, n, _narrowed(m, n, result), axes)


for _names, _op in ((("mean",), "ReduceMean"), (("max", "max_axis"), "ReduceMax"), (("min", "min_axis"), "ReduceMin"),
                    (("prod",), "ReduceProd")):
    _enter_reduction(_names, _op)


@converts("norm")
def norm(m, n):
    _only_fractions(n)
    order, axes = n.value("ord", 2), reduced_axes(n)
    if order not in (1, 2):
        raise n.refuse(f"has ord={order}; ONNX knows 1 and 2")
    return _kept(m, n, m.reduce(f"ReduceL{order}", n.inputs[0], axes, n.flag("keepdims")), axes)


@converts("argmax", "argmin")
def arg_extreme(m, n):
    op = {"argmax": "ArgMax", "argmin": "ArgMin"}[n.node.op]
    source, axis = n.inputs[0], n.value("axis")
    if axis is None:
        source, axis = m.reshape(source, _flat(n, n.shapes[0])), 0
    found = m.add(op, source, axis=axis, keepdims=int(n.flag("keepdims")))
    return m.reshape(m.cast(found, n.dtype), n.shape) if n.value("axis") is None else m.cast(found, n.dtype)


def _flat(n, shape):
    if not all(isinstance(size, int) for size in shape):
        raise n.refuse("runs over the whole batch; expected an axis")
    return (int(np.prod(shape)),)


def _transposed(m, n, position, flag):
    """An input, with its last two axes exchanged where the node asks for it."""
    if not n.flag(flag):
        return n.inputs[position]
    order = list(range(len(n.shapes[position])))
    order[-2:] = order[:-3:-1]
    return m.add("Transpose", n.inputs[position], perm=order)


@converts("batch_dot", "_linalg_gemm2")
def batch_dot(m, n):
    product = m.add("MatMul", _transposed(m, n, 0, "transpose_a"), _transposed(m, n, 1, "transpose_b"))
    alpha = float(n.value("alpha", 1.0))
    return product if alpha == 1 else m.add("Mul", product, m.scalar(alpha, n.dtype))


@converts("dot")
def dot(m, n):
    if len(n.shapes[1]) > 2 or (len(n.shapes[0]) > 2 and n.flag("transpose_a")):
        raise n.refuse("multiplies tensors of more than two dimensions")
    product = m.add("MatMul", _transposed(m, n, 0, "transpose_a"), _transposed(m, n, 1, "transpose_b"))
    return product if n.shape != (1,) or len(n.shapes[0]) > 1 else m.reshape(product, (1,))


