"""MXNet's NumPy operators of single elements: arithmetic, comparisons, logic, and what chooses between two arrays.

They broadcast, and promote types: of integers and floats the float's, of bool and others the others', of several the
larger one. A division of integers is float32. ``is_int`` of a scalar says whether it was a Python integer: integers
beside a Python float become float64.
"""
from __future__ import annotations

import numpy as np

from ..values import NodeValues
from .arithmetic import remainder
from .forms import number
from .rule_registry import OnnxCall, Tensor, TorchCall, in_torch, onnx, shape, torch, traits, types
from .shape_rules import Call, Misfit, Shape, broadcast

FLOAT32, FLOAT64, INT32, INT64, BOOL = map(np.dtype, ("float32", "float64", "int32", "int64", "bool"))
# The word in MXNet's name -> the operator of ONNX, and the expression in torch.
OF_TWO = {"add": ("Add", "{0} + {1}"), "subtract": ("Sub", "{0} - {1}"), "multiply": ("Mul", "{0} * {1}"),
          "true_divide": ("Div", "{0} / {1}"), "power": ("Pow", "{0} ** {1}"), "mod": ("Mod", "remainder({0}, {1})")}
OF_BOOLS = {"Add": "Or", "Mul": "And"}
REVERSED = {"subtract": "rsubtract", "true_divide": "rtrue_divide", "power": "rpower", "mod": "rmod"}
COMPARISONS = {"equal": ("Equal", "=="), "not_equal": ("Equal", "!="), "greater": ("Greater", ">"),
               "greater_equal": ("GreaterOrEqual", ">="), "less": ("Less", "<"), "less_equal": ("LessOrEqual", "<=")}
# Functions of one element, with the legacy operator of the same name -> their operator in ONNX.
OF_ONE = {"absolute": "Abs", "arccos": "Acos", "arccosh": "Acosh", "arcsin": "Asin", "arcsinh": "Asinh",
          "arctan": "Atan", "arctanh": "Atanh", "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "exp": "Exp",
          "floor": "Floor", "log": "Log", "negative": "Neg", "reciprocal": "Reciprocal", "sign": "Sign", "sin": "Sin",
          "sinh": "Sinh", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh"}
FORMULAS = {"expm1": lambda x: x.apply("Exp") - 1, "log10": lambda x: x.apply("Log") / np.log(10.0),
            "log1p": lambda x: (x + 1).apply("Log"), "log2": lambda x: x.apply("Log") / np.log(2.0),
            "square": lambda x: x * x}
TORCHS = {"absolute": "abs", "arccos": "acos", "arcsin": "asin", "arctan": "atan"}   # others have the same name


# -- types --------------------------------------------------------------------------------------------------------
def promoted(call: NodeValues, *read: np.dtype) -> np.dtype:
    """The type of a sum or product of arrays."""
    floats = [one for one in read if one.kind == "f"]
    if floats:
        return max(floats, key=lambda one: one.itemsize)
    if {one.name for one in read} == {"int8", "uint8"}:
        return INT32
    return np.result_type(*read)


def divided(call: NodeValues, *read: np.dtype) -> np.dtype:
    """The type of a quotient."""
    common = promoted(call, *read)
    return common if common.kind == "f" else FLOAT32


def beside_scalar(call: NodeValues, data: np.dtype, *, is_int: bool) -> np.dtype:
    """The type of an array with a scalar."""
    if data.kind == "f":
        return data
    if not is_int:
        return FLOAT64
    return INT64 if data == BOOL else data


def divided_by_scalar(call: NodeValues, data: np.dtype) -> np.dtype:
    return data if data.kind == "f" else FLOAT32


def truth(call: NodeValues, *read: np.dtype) -> np.dtype:
    return BOOL


def first(call: NodeValues, data: np.dtype, *others: np.dtype) -> np.dtype:
    return data


def alike(call: NodeValues, *read: np.dtype) -> np.dtype:
    """The common type of the inputs."""
    if len(set(read)) > 1:
        raise Misfit(f"{call.node.name!r} ({call.node.op}) reads {read[1]} beside {read[0]}; expected one type")
    return read[0]


# -- two arrays, or an array and a scalar -------------------------------------------------------------------------
def _broadcast(call: Call, *shapes: Shape) -> Shape:
    return broadcast(*shapes)


def _same(call: Call, data: Shape, *others: Shape) -> Shape:
    return data


def _computed(call: OnnxCall, op: str, left: Tensor, right: Tensor) -> Tensor:
    """What an operator of ONNX makes of two operands, in the type of the result. ONNX has no powers of 8 bits."""
    narrow = op == "Pow" and call.dtype.itemsize == 1 and call.dtype != BOOL
    left, right = (each.cast(INT32 if narrow else call.dtype) if each.dtype != call.dtype or narrow else each
                   for each in (left, right))
    if call.dtype == BOOL:
        if op not in OF_BOOLS:
            raise call.refuse("computes with bools; cast its inputs to float32 in the net")
        op = OF_BOOLS[op]
    result = remainder(left, right) if op == "Mod" else left.apply(op, right)
    return result.cast(call.dtype) if narrow else result


def _of_two(call: OnnxCall, left: Tensor, right: Tensor, *, op) -> Tensor:
    return _computed(call, op, left, right)


def _with_scalar(call: OnnxCall, data: Tensor, *, scalar, op, is_front=False) -> Tensor:
    """Integers that stay integers see the integer part of the scalar."""
    value = call.held(scalar) if call.dtype == call.dtypes[0] else scalar
    if value is None:
        raise call.refuse(f"has the scalar {scalar}, which does not fit into {call.dtypes[0]}")
    operands = [data, call.model.scalar(value, call.dtype)]
    return _computed(call, op, *(operands[::-1] if is_front else operands))


def _text_of_two(call: TorchCall, *, text) -> str:
    """Truth values become numbers beside numbers: torch subtracts none."""
    operands = (f"{{{place}}}" if dtype != BOOL or call.dtype == BOOL else f"{{{place}}}.to(torch.{call.dtype})"
                for place, dtype in enumerate(call.dtypes))
    return text.format(*operands)


def _text_with_scalar(call: TorchCall, *, text, is_front=False) -> str:
    keeps = call.dtype == call.dtypes[0]
    value = call.attributes["scalar"]
    value = call.held(value) if keeps else value
    data = "{0}" if keeps else f"{{0}}.to(torch.{call.dtype})"
    if "remainder" in text:
        if is_front:
            return f"remainder(torch.full_like({data}, {number(value)}), {data})"
        return f"torch.remainder({data}, {number(value)})" if value else f"torch.zeros_like({data})"
    operands = [data, f"({number(value)})"]
    return text.format(*(operands[::-1] if is_front else operands))


for _word, (_op, _text) in OF_TWO.items():
    shape(f"_npi_{_word}")(_broadcast)
    onnx(f"_npi_{_word}", op=_op)(_of_two)
    torch(f"_npi_{_word}", text=_text)(_text_of_two)
    types(f"_npi_{_word}")(divided if _word == "true_divide" else promoted)
    for _name in (f"_npi_{_word}_scalar", *([f"_npi_{REVERSED[_word]}_scalar"] if _word in REVERSED else [])):
        _is_front = _name != f"_npi_{_word}_scalar"
        shape(_name)(_same)
        onnx(_name, op=_op, is_front=_is_front)(_with_scalar)
        torch(_name, text=_text, is_front=_is_front)(_text_with_scalar)
        types(_name)(divided_by_scalar if _word == "true_divide" else beside_scalar)
        traits(_name, jumps=_word == "mod")
    traits(f"_npi_{_word}", jumps=_word == "mod")


def _seen(call: OnnxCall | TorchCall) -> float:
    """The scalar that numbers are compared with: beside integers it loses its fraction, unless ``is_int`` is False."""
    value = float(call.attributes["scalar"])
    return float(int(value)) if call.dtypes[0].kind in "iu" and call.attributes["is_int"] else value


def _compared(call: OnnxCall, left: Tensor, right: Tensor | None = None, *, op, is_negated) -> Tensor:
    """Truth values."""
    common = promoted(call, *call.dtypes)
    if right is None:
        value = _seen(call)
        common = common if value.is_integer() and common != BOOL else divided_by_scalar(call, *call.dtypes)
        right = call.model.scalar(value, common)
    left, right = (each if each.dtype == common else each.cast(common) for each in (left, right))
    if common == BOOL and op != "Equal":
        left, right = left.cast(INT32), right.cast(INT32)
    result = left.apply(op, right)
    return result.apply("Not") if is_negated else result


def _text_compared(call: TorchCall, *, symbol) -> str:
    return f"{{0}} {symbol} {number(_seen(call))}"


for _word, (_op, _symbol) in COMPARISONS.items():
    in_torch(f"_npi_{_word}", f"{{0}} {_symbol} {{1}}")
    torch(f"_npi_{_word}_scalar", symbol=_symbol)(_text_compared)
    for _name in (f"_npi_{_word}", f"_npi_{_word}_scalar"):
        shape(_name)(_same if "scalar" in _name else _broadcast)
        onnx(_name, op=_op, is_negated=_word == "not_equal")(_compared)
        types(_name)(truth)
        traits(_name, jumps=True)


def refuse(call: OnnxCall | TorchCall, what: str) -> None:
    """Raise the OpError of a converter that does not support a node."""
    if hasattr(call, "refuse"):
        raise call.refuse(what)
    call.refuse_if(True, what)


# -- one array ------------------------------------------------------------------------------------------------------
def _refuse_integers(call: OnnxCall | TorchCall) -> None:
    if call.dtype.kind != "f":
        refuse(call, f"computes in {call.dtype}, where it loses fractions; cast its input to float32 in the net")


def _of_one(call: OnnxCall, data: Tensor, *, op) -> Tensor:
    if call.dtype.kind == "f":
        return data.apply("IsNaN").apply("Where", 0, data.apply(op)) if op == "Sign" else data.apply(op)
    if op in ("Floor", "Ceil"):
        return data
    if op not in ("Abs", "Neg", "Sign"):
        _refuse_integers(call)
    return data.apply(op)


def _by_formula(call: OnnxCall, data: Tensor, *, formula) -> Tensor:
    if formula != "square":
        _refuse_integers(call)
    return FORMULAS[formula](data)


def _function(call: TorchCall, *, name, keeps_integers) -> str:
    if not keeps_integers:
        _refuse_integers(call)
    return f"torch.{name}({{0}})"


for _word in (*OF_ONE, *FORMULAS):
    _name = f"_npi_{_word}"
    shape(_name)(_same)
    types(_name)(first)
    if _word in OF_ONE:
        onnx(_name, op=OF_ONE[_word])(_of_one)
    else:
        onnx(_name, formula=_word)(_by_formula)
    torch(_name, name=TORCHS.get(_word, _word),
          keeps_integers=_word in ("absolute", "negative", "sign", "square", "floor", "ceil"))(_function)


shape("_npx_relu", "_npx_sigmoid", "_np_copy", "_npi_logical_not", "_npi_isnan", "_npi_isinf", "_npi_isfinite",
      "_npi_around", "_npi_rint", "_npi_trunc", "_npi_fix", "_npi_full_like")(_same)
types("_npx_relu", "_npx_sigmoid", "_np_copy", "_npi_around", "_npi_rint", "_npi_trunc", "_npi_fix")(first)
types("_npi_logical_not", "_npi_isnan", "_npi_isinf", "_npi_isfinite")(truth)
traits("_npi_around", "_npi_ceil", "_npi_copysign", "_npi_copysign_scalar", "_npi_fix", "_npi_floor",
       "_npi_logical_not", "_npi_rcopysign_scalar", "_npi_rint", "_npi_sign", "_npi_trunc", "_npi_where",
       "_npi_where_lscalar", "_npi_where_rscalar", "_npi_where_scalar2", jumps=True)
traits("_npi_boolean_mask_assign_scalar", "_npi_boolean_mask_assign_tensor", assigns=True)


@onnx("_npx_relu")
def _(call: OnnxCall, data: Tensor) -> Tensor:
    """onnxruntime has it for floats."""
    return data.apply("Relu") if call.dtype.kind == "f" else data.apply("Max", 0)


in_torch("_npx_relu", "F.relu({0})")


@onnx("_npx_sigmoid")
def _(call: OnnxCall, data: Tensor) -> Tensor:
    _refuse_integers(call)
    return data.apply("Sigmoid")


torch("_npx_sigmoid", name="sigmoid", keeps_integers=False)(_function)


@onnx("_np_copy")
def _(call: OnnxCall, data: Tensor) -> Tensor:
    return data


in_torch("_np_copy", "{0}")


@onnx("_npi_logical_not")
def _(call: OnnxCall, data: Tensor) -> Tensor:
    return data.cast(bool).apply("Not")


in_torch("_npi_logical_not", "{0} == 0")


@onnx("_npi_isnan", op="IsNaN")
@onnx("_npi_isinf", op="IsInf")
@onnx("_npi_isfinite", op="")
def _(call: OnnxCall, data: Tensor, *, op) -> Tensor:
    """Integers are finite."""
    data = data if call.dtypes[0].kind == "f" else data.cast(FLOAT32)
    if op:
        result = data.apply(op)
        result.dtype = BOOL
        return result
    return (data - data).apply("Equal", 0)


in_torch("_npi_isnan", "torch.isnan({0})")
in_torch("_npi_isinf", "torch.isinf({0})")
in_torch("_npi_isfinite", "torch.isfinite({0})")


@onnx("_npi_around")
def _(call: OnnxCall, data: Tensor, *, decimals) -> Tensor:
    """Halves go to the even neighbour."""
    if call.dtype.kind != "f":
        return data
    scale = 10.0 ** decimals
    return data.apply("Round") if decimals == 0 else (data * scale).apply("Round") / scale


@torch("_npi_around")
def _(call: TorchCall, *, decimals) -> str:
    if call.dtype.kind != "f":
        return "{0}"
    return f"torch.round({{0}}, decimals={decimals})" if decimals else "torch.round({0})"


@onnx("_npi_rint")
def _(call: OnnxCall, data: Tensor) -> Tensor:
    """MXNet takes the lower neighbour of a half."""
    if call.dtype.kind != "f":
        return data
    below, above = data.apply("Floor"), data.apply("Ceil")
    return (above - data < data - below).apply("Where", above, below)


torch("_npi_rint")(lambda call: "half_down({0})" if call.dtype.kind == "f" else "{0}")


@onnx("_npi_trunc", "_npi_fix")
def _(call: OnnxCall, data: Tensor) -> Tensor:
    return data.apply("Sign") * data.apply("Abs").apply("Floor") if call.dtype.kind == "f" else data


torch("_npi_trunc", "_npi_fix")(lambda call: "torch.trunc({0})" if call.dtype.kind == "f" else "{0}")


# -- constants of a shape, and choices ----------------------------------------------------------------------------
traits("_npi_full_like", shape_inputs=(0,))


@types("_npi_full_like")
def _(call: NodeValues, data: np.dtype, *, dtype) -> np.dtype | str:
    return dtype or data


@onnx("_npi_full_like")
def _(call: OnnxCall, data: Tensor, *, fill_value) -> Tensor:
    """The first input may be read for its shape only."""
    return call.model.scalar(fill_value, call.dtype).expand(call.shape)


@torch("_npi_full_like")
def _(call: TorchCall, *, fill_value) -> str:
    dtype = "" if call.dtype == call.dtypes[0] else f", dtype=torch.{call.dtype}"
    return f"torch.full_like({{0}}, {fill_value if call.dtype.kind == 'f' else int(fill_value)!r}{dtype})"


@shape("_npi_where", "_npi_where_lscalar", "_npi_where_rscalar", "_npi_where_scalar2")
def _(call: Call, *shapes: Shape) -> Shape:
    return broadcast(*shapes)


@types("_npi_where", "_npi_where_lscalar", "_npi_where_rscalar")
def _(call: NodeValues, condition: np.dtype, *chosen: np.dtype) -> np.dtype:
    return alike(call, *chosen)


@types("_npi_where_scalar2")
def _(call: NodeValues, condition: np.dtype) -> np.dtype:
    return FLOAT32


@onnx("_npi_where")
def _(call: OnnxCall, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return condition.cast(bool).apply("Where", x, y)


in_torch("_npi_where", "torch.where({0} != 0, {1}, {2})")


@onnx("_npi_where_lscalar", is_first=True)
@onnx("_npi_where_rscalar", is_first=False)
def _(call: OnnxCall, condition: Tensor, other: Tensor, *, scalar, is_first) -> Tensor:
    constant = call.model.scalar(scalar, other.dtype)
    return condition.cast(bool).apply("Where", *((constant, other) if is_first else (other, constant)))


@torch("_npi_where_lscalar", text="torch.where({{0}} != 0, {}, {{1}})")
@torch("_npi_where_rscalar", text="torch.where({{0}} != 0, {{1}}, {})")
def _(call: TorchCall, *, text) -> str:
    """A number beside integers would make floats of them."""
    value = call.attributes["scalar"]
    return text.format(repr(value if call.dtype.kind == "f" else int(value)))


@onnx("_npi_where_scalar2")
def _(call: OnnxCall, condition: Tensor, *, x, y) -> Tensor:
    return condition.cast(bool).apply("Where", call.model.scalar(x, FLOAT32), call.model.scalar(y, FLOAT32))


@torch("_npi_where_scalar2")
def _(call: TorchCall, *, x, y) -> str:
    return f"torch.where({{0}} != 0, {float(x)!r}, {float(y)!r})"
