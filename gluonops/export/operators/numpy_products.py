"""MXNet's NumPy operators that multiply matrices: dot, matmul, tensordot and einsum."""
from __future__ import annotations

import string

from .numpy_arithmetic import promoted
from .rule_registry import OnnxCall, Tensor, TorchCall, in_torch, onnx, shape, torch, types
from .shape_rules import Call, Shape, broadcast


@shape("_np_dot")
def _(call: Call, left: Shape, right: Shape) -> Shape:
    """The last axis with the last but one."""
    if not left or not right:
        return left or right
    inner = right[-2] if len(right) > 1 else right[0]
    call.check(left[-1] == inner, 1, f"{left[-1]} rows")
    return (*left[:-1], *right[:-2], *(right[-1:] if len(right) > 1 else ()))


@onnx("_np_dot")
def _(call: OnnxCall, left: Tensor, right: Tensor) -> Tensor:
    left_rank, right_rank = map(len, call.shapes)
    if not left_rank or not right_rank:
        return left * right
    if right_rank <= 2:
        return left.apply("MatMul", right)
    return call.model.add("Einsum", left, right, equation=_summed(
        left_rank, right_rank, (left_rank - 1,), (right_rank - 2,)))


@torch("_np_dot")
def _(call: TorchCall) -> str:
    left_rank, right_rank = map(len, call.shapes)
    if not left_rank or not right_rank:
        return "{0} * {1}"
    return "{0} @ {1}" if right_rank <= 2 else "torch.tensordot({0}, {1}, ([-1], [-2]))"


def _summed(left: int, right: int, of_left: tuple[int, ...], of_right: tuple[int, ...]) -> str:
    """The equation of an einsum of arrays with so many axes, which sums over pairs of them."""
    names = string.ascii_letters
    first, second = list(names[:left]), list(names[left:left + right])
    for one, other in zip(of_left, of_right):
        second[other] = first[one]
    rest = [name for place, name in enumerate(first) if place not in of_left]
    rest += [name for place, name in enumerate(second) if place not in of_right]
    return f"{''.join(first)},{''.join(second)}->{''.join(rest)}"


def _pairs(call: Call) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes that a tensordot sums over."""
    left, right = map(len, call.shapes)
    attributes = call.attributes
    if "axes" in attributes:
        return tuple(range(left - attributes["axes"], left)), tuple(range(attributes["axes"]))
    return (tuple(axis % left for axis in attributes["a_axes_summed"]),
            tuple(axis % right for axis in attributes["b_axes_summed"]))


@shape("_npi_tensordot", "_npi_tensordot_int_axes")
def _(call: Call, left: Shape, right: Shape) -> Shape:
    of_left, of_right = _pairs(call)
    call.check([left[axis] for axis in of_left] == [right[axis] for axis in of_right], 1,
               f"sizes {[left[axis] for axis in of_left]} along {of_right}")
    return (*(size for axis, size in enumerate(left) if axis not in of_left),
            *(size for axis, size in enumerate(right) if axis not in of_right))


@onnx("_npi_tensordot", "_npi_tensordot_int_axes")
def _(call: OnnxCall, left: Tensor, right: Tensor) -> Tensor:
    return call.model.add("Einsum", left, right, equation=_summed(*map(len, call.shapes), *_pairs(call)))


@torch("_npi_tensordot", "_npi_tensordot_int_axes")
def _(call: TorchCall) -> str:
    of_left, of_right = map(list, _pairs(call))
    return f"torch.tensordot({{0}}, {{1}}, ({of_left}, {of_right}))"


@shape("_npi_matmul")
def _(call: Call, left: Shape, right: Shape) -> Shape:
    rows, columns = left[-2:-1], right[-1:] if len(right) > 1 else ()
    inner = right[-2] if len(right) > 1 else right[0]
    call.check(left[-1] == inner, 1, f"{left[-1]} rows")
    return (*broadcast(left[:-2], right[:-2]), *rows, *columns)


@onnx("_npi_matmul")
def _(call: OnnxCall, left: Tensor, right: Tensor) -> Tensor:
    return left.apply("MatMul", right)


in_torch("_npi_matmul", "{0} @ {1}")
types("_np_dot", "_npi_tensordot", "_npi_tensordot_int_axes", "_npi_matmul", "_npi_einsum")(promoted)


def _equation(subscripts: str) -> str:
    """An einsum's equation with its result: the letters that stand there once, in their order."""
    text = subscripts.replace(" ", "")
    if "->" in text:
        return text
    letters = text.replace(",", "").replace("...", "")
    dots = "..." if "..." in text else ""
    return f"{text}->{dots}{''.join(sorted(each for each in set(letters) if letters.count(each) == 1))}"


@shape("_npi_einsum")
def _(call: Call, *operands: Shape, subscripts) -> Shape:
    terms, result = _equation(subscripts).split("->")
    sizes = {}
    for term, operand in zip(terms.split(","), operands):
        for label, size in zip(_labels(term, len(operand)), operand):
            sizes[label], = broadcast((sizes.get(label, 1),), (size,))
    dots = sum(isinstance(label, int) for label in sizes) if "..." in result else 0
    return tuple(sizes[label] for label in _labels(result, len(result.replace("...", "")) + dots))


def _labels(term: str, rank: int) -> list[str | int]:
    """The letters of the axes of an operand, and numbers that end at -1 for those that dots stand for."""
    front, dots, back = term.partition("...")
    count = rank - len(front) - len(back)
    if count < 0 or count and not dots:
        raise ValueError(f"{term} has other axes than an operand of {rank}")
    return [*front, *range(-count, 0), *back]


@onnx("_npi_einsum")
def _(call: OnnxCall, *operands: Tensor, subscripts) -> Tensor:
    return call.model.add("Einsum", *operands, equation=_equation(subscripts))


@torch("_npi_einsum")
def _(call: TorchCall, *, subscripts) -> str:
    return f"torch.einsum({_equation(subscripts)!r}, *{{inputs}})"
