"""Functions of each element alone, of one array, of two, and of an array and a number; casts.

MXNet's operators of two arrays are one for equal shapes and one that broadcasts. Others have a number behind the array
or in front of it, the attribute ``scalar``.
"""
from __future__ import annotations

import functools
import operator
from collections.abc import Callable

import numpy as np

from .forms import Form, Single, number
from .rule_registry import OnnxCall, Tensor, TorchCall, in_torch, onnx, shape, torch, traits, types, values
from .shape_rules import Call, Shape, broadcast

# -- functions of one array -------------------------------------------------------------------------------------------
# MXNet's name -> ONNX's operator and torch's function.
UNARY = {"abs": ("Abs", "abs"), "arccos": ("Acos", "acos"), "arccosh": ("Acosh", "arccosh"), "arcsin": ("Asin", "asin"),
         "arcsinh": ("Asinh", "arcsinh"), "arctan": ("Atan", "atan"), "arctanh": ("Atanh", "arctanh"),
         "cos": ("Cos", "cos"), "cosh": ("Cosh", "cosh"), "erf": ("Erf", "erf"), "exp": ("Exp", "exp"),
         "log": ("Log", "log"), "negative": ("Neg", "negative"), "reciprocal": ("Reciprocal", "reciprocal"),
         "sin": ("Sin", "sin"), "sinh": ("Sinh", "sinh"), "sqrt": ("Sqrt", "sqrt"), "tan": ("Tan", "tan")}
FORMULAS = {   # what ONNX computes in several steps, under torch's name
    "expm1": lambda call, x: x.apply("Exp") - 1,
    "log10": lambda call, x: x.apply("Log") / np.log(10.0),
    "log1p": lambda call, x: (x + 1).apply("Log"),
    "log2": lambda call, x: x.apply("Log") / np.log(2.0),
    "rsqrt": lambda call, x: x.apply("Sqrt").apply("Reciprocal"),
    "square": lambda call, x: x * x,
}
WHOLE = ("abs", "negative", "square")   # Of integers they are integers in torch, too.
traits(*(name for name in (*UNARY, *FORMULAS) if name not in WHOLE), is_of_floats=True)
traits(*UNARY, *FORMULAS, is_elementwise=True)
traits("_contrib_round_ste", "_contrib_sign_ste", "logical_not", "sign", jumps=True)
traits("abs", "exp", "sqrt", "square", fuses_behind_dense=True)


@shape(*UNARY, *FORMULAS, "cbrt", "degrees", "erfinv", "gamma", "gammaln", "logical_not", "radians", "rcbrt", "sign",
       "smooth_l1")
def _(call: Call, data: Shape) -> Shape:
    return data


def _applied(op: str, call: OnnxCall, data: Tensor) -> Tensor:
    return data.apply(op)


for _name, (_op, _function) in UNARY.items():
    onnx(_name)(functools.partial(_applied, _op))
    in_torch(_name, f"torch.{_function}({{0}})")
for _name, _formula in FORMULAS.items():
    onnx(_name)(_formula)
    in_torch(_name, f"torch.{_name}({{0}})")
in_torch("gluonops_abs", "torch.abs({0})")


@onnx("sign")
def _(call: OnnxCall, data: Tensor) -> Tensor:
    """MXNet's sign of NaN is 0."""
    sign = data.apply("Sign")
    return data.apply("IsNaN").apply("Where", 0, sign) if call.dtype.kind == "f" else sign


in_torch("sign", "torch.sign({0})")


@onnx("logical_not")
def _(call: OnnxCall, data: Tensor) -> Tensor:
    return data.cast(bool).apply("Not").cast(data.dtype)


in_torch("logical_not", "({0} == 0).to({0}.dtype)")
traits("smooth_l1", is_of_floats=True)


@onnx("smooth_l1")
def _(call: OnnxCall, data: Tensor, *, scalar) -> Tensor:
    call.refuse_integers()
    size, scale = data.apply("Abs"), scalar ** 2
    near = size * size * (scale / 2)
    far = size - 0.5 / scale
    return (size < 1 / scale).apply("Where", near, far)


@torch("smooth_l1")
def _(call: TorchCall, *, scalar) -> str:
    return f"F.smooth_l1_loss({{0}}, torch.zeros_like({{0}}), reduction='none', beta={1 / scalar ** 2!r})"


# -- rounding: integers stay as they are ------------------------------------------------------------------------------
def _truncated(value: Tensor) -> Tensor:
    return value.apply("Sign") * value.apply("Abs").apply("Floor")


def rounded(value: Tensor) -> Tensor:
    """MXNet rounds halves away from zero, ONNX to the even neighbour. To add 0.5 and cut would round the sum itself."""
    magnitude = value.apply("Abs")
    below = magnitude.apply("Floor")
    up = (magnitude - below >= 0.5).cast(value.dtype)
    return value.apply("Sign") * (below + up)


def _rounded_down(value: Tensor) -> Tensor:
    """What MXNet calls rint: the lower neighbour of a half."""
    below, above = value.apply("Floor"), value.apply("Ceil")
    return (above - value < value - below).apply("Where", above, below)


# MXNet's name -> a function of ONNX's tensor, and torch's text.
ROUNDING = {"ceil": (lambda value: value.apply("Ceil"), "torch.ceil({0})"),
            "floor": (lambda value: value.apply("Floor"), "torch.floor({0})"),
            "fix": (_truncated, "torch.trunc({0})"), "trunc": (_truncated, "torch.trunc({0})"),
            "rint": (_rounded_down, "half_down({0})"), "round": (rounded, "half_away({0})")}
traits(*ROUNDING, jumps=True)


@shape(*ROUNDING)
def _(call: Call, data: Shape) -> Shape:
    return data


def _rounding(compute: Callable[[Tensor], Tensor], call: OnnxCall, data: Tensor) -> Tensor:
    return compute(data) if call.dtype.kind == "f" else data


def _rounding_text(text: str, call: TorchCall) -> str:
    return text if call.dtype.kind == "f" else "{0}"


for _name, (_compute, _text) in ROUNDING.items():
    onnx(_name)(functools.partial(_rounding, _compute))
    torch(_name)(functools.partial(_rounding_text, _text))

# -- functions of two arrays, or of an array and a number -------------------------------------------------------------
OF_TWO = ("add", "sub", "mul", "div", "power", "mod", "maximum", "minimum", "hypot", "equal", "not_equal", "greater",
          "greater_equal", "lesser", "lesser_equal", "logical_and", "logical_or", "logical_xor")
REVERSED = ("sub", "div", "power", "mod")   # these also exist with a scalar in front
JUMPING = OF_TWO[OF_TWO.index("equal"):] + ("mod",)


def names_of(operation: str) -> list[str]:
    """MXNet's names of an operation: for equal shapes, for others, with a scalar behind it, and with one in front."""
    word = {"add": "plus", "sub": "minus"}.get(operation, operation)
    same = "elemwise" if operation in OF_TWO[:4] else ""
    front = [f"_r{word}_scalar"] if operation in REVERSED else []
    return [f"{same}_{operation}", f"broadcast_{operation}", f"_{word}_scalar", *front]


for _operation in OF_TWO:
    _same, _broadcast, _behind_it, *_in_front_of_it = names_of(_operation)
    traits(_same, _broadcast, _behind_it, *_in_front_of_it, is_elementwise=True, jumps=_operation in JUMPING)
    traits(_behind_it, of_arrays=_broadcast)
traits("elemwise_add", "broadcast_add", acts_as="sum")
traits("elemwise_mul", "broadcast_mul", acts_as="product")
traits("elemwise_add", fuses_behind_convolution=True, keeps_batch=True)
traits("elemwise_mul", stays_float=True)
traits("elemwise_add", "add_n", in_8_bits=True)
traits("add_n", is_elementwise=True)
traits("_mul_scalar", "_plus_scalar", keeps_sizes=True)
for _name, _symbol in (("plus", "+ {}"), ("minus", "\u2212 {}"), ("rminus", "{} \u2212"), ("mul", "\u00d7 {}"),
                       ("div", "\u00f7 {}"), ("rdiv", "{} \u00f7"), ("power", "^ {}")):
    traits(f"_{_name}_scalar", symbol=_symbol)


@shape("add_n", *(names_of(operation)[0] for operation in OF_TWO))
def _(call: Call) -> Shape:
    return call.alike()


@shape(*(f"broadcast_{operation}" for operation in OF_TWO))
def _(call: Call, left: Shape, right: Shape) -> Shape:
    return broadcast(left, right)


@shape(*(name for operation in OF_TWO for name in names_of(operation)[2:]))
def _(call: Call, data: Shape) -> Shape:
    return data


def _plain(op: str, call: OnnxCall, left: Tensor, right: Tensor) -> Tensor:
    return left.apply(op, right)


def _power(call: OnnxCall, left: Tensor, right: Tensor) -> Tensor:
    return call.widened(lambda base, exponent: base.apply("Pow", exponent), left, right)


def remainder(left: Tensor, right: Tensor) -> Tensor:
    """The remainder with the divisor's sign, as in Python. ONNX's own operator does so for integers only.

    Of floats it is computed from the remainder with the dividend's sign, which is exact. The quotient is not: the
    float next to 0.6 is contained in 3 only 4 times, but 3 / 0.6 is rounded to 5. MXNet's remainder of a division by 0
    is 0. ONNX's is NaN or an error.
    """
    by_zero = right.apply("Equal", 0)
    divisor = by_zero.apply("Where", 1, right)
    if left.dtype.kind in "iu":
        return left.apply("Mod", divisor)
    rest = left.apply("Mod", divisor, fmod=1)
    has_other_sign = rest * divisor.apply("Sign") < 0
    return by_zero.apply("Where", 0, has_other_sign.apply("Where", rest + divisor, rest))


def _comparison(op: str, call: OnnxCall, left: Tensor, right: Tensor) -> Tensor:
    """MXNet's comparisons return 0 and 1 in the type of their inputs."""
    return left.apply(op, right).cast(call.dtype)


def _difference(call: OnnxCall, left: Tensor, right: Tensor) -> Tensor:
    return left.apply("Equal", right).apply("Not").cast(call.dtype)


def _logic(op: str, call: OnnxCall, left: Tensor, right: Tensor) -> Tensor:
    return left.cast(bool).apply(op, right.cast(bool)).cast(call.dtype)


def _constant(call: OnnxCall, scalar: float) -> Tensor:
    return call.model.scalar(call.held(scalar), call.dtypes[0])


def _behind(compute: Callable[..., Tensor], call: OnnxCall, data: Tensor, *, scalar) -> Tensor:
    return compute(call, data, _constant(call, scalar))


def _in_front(compute: Callable[..., Tensor], call: OnnxCall, data: Tensor, *, scalar) -> Tensor:
    return compute(call, _constant(call, scalar), data)


def _text_behind(text: str, call: TorchCall, *, scalar) -> str:
    return text.format("{0}", f"({number(call.held(scalar))})")


def _text_in_front(text: str, call: TorchCall, *, scalar) -> str:
    return text.format(f"({number(call.held(scalar))})", "{0}")


def _enter(operation: str, compute: Callable[..., Tensor], text: str) -> None:
    """Enter what an operation is in ONNX, a function of the call and two tensors, and in torch."""
    same, broadcast, behind, *in_front = names_of(operation)
    onnx(same, broadcast)(compute)
    onnx(behind)(functools.partial(_behind, compute))
    onnx(*in_front)(functools.partial(_in_front, compute))
    in_torch((same, broadcast), text)
    torch(behind)(functools.partial(_text_behind, text))
    torch(*in_front)(functools.partial(_text_in_front, text))


for _name, _op, _sign in (("add", "Add", "+"), ("sub", "Sub", "-"), ("mul", "Mul", "*"), ("div", "Div", "/")):
    _enter(_name, functools.partial(_plain, _op), f"{{0}} {_sign} {{1}}")
for _name, _op, _function in (("maximum", "Max", "larger"), ("minimum", "Min", "smaller")):
    _enter(_name, functools.partial(_plain, _op), f"{_function}({{0}}, {{1}})")
for _name, _op, _sign in (("equal", "Equal", "=="), ("greater", "Greater", ">"), ("lesser", "Less", "<"),
                          ("greater_equal", "GreaterOrEqual", ">="), ("lesser_equal", "LessOrEqual", "<=")):
    _enter(_name, functools.partial(_comparison, _op), f"({{0}} {_sign} {{1}}).to({{0}}.dtype)")
for _name, _op, _sign in (("and", "And", "&"), ("or", "Or", "|"), ("xor", "Xor", "^")):
    _enter(f"logical_{_name}", functools.partial(_logic, _op), f"(({{0}} != 0) {_sign} ({{1}} != 0)).to({{0}}.dtype)")
_enter("not_equal", _difference, "({0} != {1}).to({0}.dtype)")
_enter("power", _power, "{0} ** {1}")
_enter("mod", lambda call, left, right: remainder(left, right), "remainder({0}, {1})")


@values("_div_scalar", compute=operator.truediv)
@values("_minus_scalar", compute=operator.sub)
@values("_mul_scalar", compute=operator.mul)
@values("_plus_scalar", compute=operator.add)
def _(call: Call, x: np.ndarray, *, scalar, compute) -> np.ndarray:
    return compute(x, x.dtype.type(scalar))


@values("broadcast_add", compute=operator.add)
@values("broadcast_mul", compute=operator.mul)
@values("broadcast_sub", compute=operator.sub)
def _(call: Call, x: np.ndarray, y: np.ndarray, *, compute) -> np.ndarray:
    return compute(x, y)


@torch("_mul_scalar")
def _(call: TorchCall, *, scalar) -> str:
    scalar = call.held(scalar)
    return "-{0}" if scalar == -1 else f"{{0}} * {number(scalar)}"


@torch("_maximum_scalar", bound="min")
@torch("_minimum_scalar", bound="max")
def _(call: TorchCall, *, scalar, bound) -> str:
    return f"{{0}}.clamp({bound}={number(call.held(scalar))})"


@torch("_mod_scalar")
def _(call: TorchCall, *, scalar) -> str:
    scalar = call.held(scalar)
    return f"torch.remainder({{0}}, {number(scalar)})" if scalar else "torch.zeros_like({0})"


@torch("_rmod_scalar")
def _(call: TorchCall, *, scalar) -> str:
    return f"remainder(torch.full_like({{0}}, {number(call.held(scalar))}), {{0}})"


BY_ZERO = "divides integers by 0, which ends MXNet's process"


@onnx("_div_scalar")
def _(call: OnnxCall, data: Tensor, *, scalar) -> Tensor:
    if call.dtype.kind in "iu" and call.held(scalar) == 0:
        raise call.refuse(BY_ZERO)
    return data / _constant(call, scalar)


@torch("elemwise_div", "broadcast_div")
def _(call: TorchCall) -> str:
    return _quotient(call, "{1}")


@torch("_div_scalar")
def _(call: TorchCall, *, scalar) -> str:
    scalar = call.held(scalar)
    call.refuse_if(call.dtype.kind in "iu" and scalar == 0, BY_ZERO)
    return _quotient(call, number(scalar))


def _quotient(call: TorchCall, divisor: str) -> str:
    """Of integers it is cut."""
    is_cut = call.dtype.kind in "iu"
    return f"torch.div({{0}}, {divisor}, rounding_mode='trunc')" if is_cut else f"{{0}} / {divisor}"


@onnx("add_n")
def _(call: OnnxCall, *inputs: Tensor) -> Tensor:
    """ONNX's Sum takes floating-point numbers only."""
    if call.dtype.kind == "f":
        return call.model.add("Sum", *inputs)
    return functools.reduce(operator.add, inputs)


@torch("add_n")
def _(call: TorchCall) -> str:
    return " + ".join(f"{{{index}}}" for index in range(len(call.node.inputs)))


# -- casts, and copies ------------------------------------------------------------------------------------------------
traits("BlockGrad", "Cast", "_copy", "_identity_with_attr_like_rhs", "amp_cast", moves=True)
traits("BlockGrad", "_copy", is_identity=True)
traits("BlockGrad", keeps_sizes=True)
traits("_copy", fusion_removes=True)
traits("_copyto", assigns=True)
traits("Cast", jumps=True)
traits("Cast", "amp_cast", chooses_type=True)


@shape("BlockGrad", "_copy")
def _(call: Call, data: Shape) -> Shape:
    return data


@shape("_identity_with_attr_like_rhs")
def _(call: Call, data: Shape, like: Shape) -> Shape:
    call.expect(1, data)
    return data


@onnx("BlockGrad", "_NoGradient", "_copy", "_identity_with_attr_like_rhs")
def _(call: OnnxCall, data: Tensor, *others: Tensor) -> Tensor:
    return data


in_torch("_copy", "{0}")
in_torch("BlockGrad", "{0}.detach()")


@shape("Cast", "amp_cast")
def _(call: Call, data: Shape) -> Shape:
    return data


@types("Cast")
def _(call: Call, data: np.dtype, *, dtype) -> str:
    return dtype


@types("amp_cast")
def _(call: Call, data: np.dtype, *, dtype) -> np.dtype | str:
    """It casts what a mixed precision has only."""
    return dtype if data in (np.float16, np.float32) else data


@onnx("Cast", "amp_cast")
def _(call: OnnxCall, data: Tensor) -> Tensor:
    return data if call.dtype == call.dtypes[0] else data.cast(call.dtype)


@torch("Cast", "amp_cast")
def _(call: TorchCall, *, dtype) -> str:
    """Between the net's own types nothing is cast: it runs in the one that ``load`` is asked for."""
    if call.dtype == call.dtypes[0] or {call.dtype.name, call.dtypes[0].name} <= set(call.own):
        return "{0}"
    return f"{{0}}.to({call.chosen_type(dtype)})"


# -- scaling, and bounds ----------------------------------------------------------------------------------------------
traits("clip", is_elementwise=True, fuses_behind_convolution=True, fuses_behind_dense=True, in_8_bits=True,
       shown=("a_min", "a_max"))


@shape("_contrib_div_sqrt_dim", "clip", "hard_sigmoid")
def _(call: Call, data: Shape) -> Shape:
    return data


@onnx("_contrib_div_sqrt_dim")
def _(call: OnnxCall, data: Tensor) -> Tensor:
    return data / np.sqrt(call.shape[-1])


in_torch("_contrib_div_sqrt_dim", "{0} / {0}.shape[-1] ** 0.5")


traits("hard_sigmoid", is_of_floats=True)


@onnx("hard_sigmoid")
def _(call: OnnxCall, data: Tensor, *, alpha, beta) -> Tensor:
    return data.apply("HardSigmoid", alpha=alpha, beta=beta)


@torch("hard_sigmoid")
def _(call: TorchCall, *, alpha, beta) -> str:
    """At the ends it has no gradient."""
    return f"F.hardtanh({number(Single(alpha))} * {{0}} + {number(Single(beta))}, 0.0, 1.0)"


def _bounds(dtype: np.dtype, *bounds: float) -> list[float]:
    """The bounds of a clip. Beyond the limits of integers they bound nothing."""
    if dtype.kind not in "iu":
        return list(bounds)
    limits = np.iinfo(dtype)
    return [min(max(int(bound), limits.min), limits.max) for bound in bounds]


@onnx("clip")
def _(call: OnnxCall, data: Tensor, *, a_min, a_max) -> Tensor:
    """MXNet holds the bounds in float32."""
    return data.apply("Clip", *_bounds(call.dtype, float(np.float32(a_min)), float(np.float32(a_max))))


@torch("clip")
def _(call: TorchCall, *, a_min, a_max) -> Form:
    """It is no nn.ReLU6: the gradient passes where a number is equal to a bound."""
    lowest, highest = _bounds(call.dtype, Single(a_min), Single(a_max))
    return Form(f"{{0}}.clamp({number(lowest)}, {number(highest)})", "Clip", {"low": lowest, "high": highest})
