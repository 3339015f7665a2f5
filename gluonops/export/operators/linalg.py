"""Matrices: MXNet's ``linalg`` family, diagonals and the Khatri-Rao product.

Matrices are the last two axes. ONNX has no factorization and no solver, so those operators have a converter to torch
alone.
"""
from __future__ import annotations

import numpy as np

from ..symbolic import Size
from .forms import number
from .rule_registry import OnnxCall, Tensor, TorchCall, in_torch, onnx, shape, torch
from .shape_rules import Call, Shape

OTHER_ROWS = "has the rows of its matrices along another axis than the last but one"


def _turned(shape: Shape, transpose: bool) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2]) if transpose else shape


def _onnx_turned(matrix: Tensor, ndim: int, transpose: bool) -> Tensor:
    return matrix.swapped(ndim, -2, -1) if transpose else matrix


def _torch_turned(text: str, transpose: bool) -> str:
    return f"{text}.mT" if transpose else text


def _times(factor: float, text: str) -> str:
    """The product with a factor, which is not written where it is 1."""
    return text if factor == 1 else f"{number(factor)} * {text}"


def _onnx_times(matrix: Tensor, factor: float) -> Tensor:
    return matrix if factor == 1 else matrix * factor


# -- products ---------------------------------------------------------------------------------------------------------
@shape("_linalg_gemm")
def _(call: Call, a: Shape, b: Shape, c: Shape, *, transpose_a, transpose_b) -> Shape:
    result = (*a[:-2], _turned(a, transpose_a)[-2], _turned(b, transpose_b)[-1])
    call.expect(2, result)
    return result


@onnx("_linalg_gemm")
def _(call: OnnxCall, a: Tensor, b: Tensor, c: Tensor, *, transpose_a, transpose_b, alpha, beta, axis) -> Tensor:
    ndim = len(call.shape)
    if axis not in (-2, ndim - 2):
        raise call.refuse(OTHER_ROWS)
    product = _onnx_turned(a, ndim, transpose_a).apply("MatMul", _onnx_turned(b, ndim, transpose_b))
    return _onnx_times(product, alpha) + _onnx_times(c, beta)


@torch("_linalg_gemm")
def _(call: TorchCall, *, transpose_a, transpose_b, alpha, beta, axis) -> str:
    call.refuse_if(axis not in (-2, call.ndim - 2), OTHER_ROWS)
    product = f"{_torch_turned('{0}', transpose_a)} @ {_torch_turned('{1}', transpose_b)}"
    return f"{_times(alpha, product)} + {_times(beta, '{2}')}"


@shape("_linalg_syrk")
def _(call: Call, a: Shape, *, transpose) -> Shape:
    rows = _turned(a, transpose)[-2]
    return (*a[:-2], rows, rows)


@onnx("_linalg_syrk")
def _(call: OnnxCall, a: Tensor, *, transpose, alpha) -> Tensor:
    ndim = len(call.shape)
    product = _onnx_turned(a, ndim, transpose).apply("MatMul", _onnx_turned(a, ndim, not transpose))
    return _onnx_times(product, alpha)


@torch("_linalg_syrk")
def _(call: TorchCall, *, transpose, alpha) -> str:
    return _times(alpha, f"{_torch_turned('{0}', transpose)} @ {_torch_turned('{0}', not transpose)}")


@shape("_linalg_trmm", "_linalg_trsm")
def _(call: Call, a: Shape, b: Shape, *, rightside) -> Shape:
    call.expect(0, (*b[:-2], *[b[-1 if rightside else -2]] * 2))
    return b


@onnx("_linalg_trmm")
def _(call: OnnxCall, a: Tensor, b: Tensor, *, transpose, rightside, lower, alpha) -> Tensor:
    triangle = _onnx_turned(a.apply("Trilu", upper=int(not lower)), len(call.shape), transpose)
    product = b.apply("MatMul", triangle) if rightside else triangle.apply("MatMul", b)
    return _onnx_times(product, alpha)


@torch("_linalg_trmm")
def _(call: TorchCall, *, transpose, rightside, lower, alpha) -> str:
    triangle = _torch_turned("{0}.tril()" if lower else "{0}.triu()", transpose)
    return _times(alpha, f"{{1}} @ {triangle}" if rightside else f"{triangle} @ {{1}}")


@torch("_linalg_trsm")
def _(call: TorchCall, *, transpose, rightside, lower, alpha) -> str:
    """MXNet solves with the triangle, or with its transpose, which has its numbers on the other side."""
    upper, left = lower == transpose, not rightside
    solved = f"torch.linalg.solve_triangular({_torch_turned('{0}', transpose)}, {{1}}, upper={upper}, left={left})"
    return _times(alpha, solved)


# -- functions of a square matrix -------------------------------------------------------------------------------------
@shape("_linalg_potrf", "_linalg_potri", "_linalg_inverse")
def _(call: Call, a: Shape) -> Shape:
    return a


@torch("_linalg_potrf")
def _(call: TorchCall) -> str:
    return "torch.linalg.cholesky({0})"


in_torch("_linalg_potri", "torch.cholesky_inverse({0}.tril())")
in_torch("_linalg_inverse", "torch.linalg.inv({0})")


@shape("_linalg_det", "_linalg_sumlogdiag")
def _(call: Call, a: Shape) -> Shape:
    return a[:-2] or (1,)


@onnx("_linalg_det")
def _(call: OnnxCall, a: Tensor) -> Tensor:
    return a.apply("Det").reshape(call.shape)


@torch("_linalg_det")
def _(call: TorchCall) -> str:
    return f"torch.linalg.det({{0}}){'.reshape(1)' if call.ndim == 2 else ''}"


@onnx("_linalg_sumlogdiag")
def _(call: OnnxCall, a: Tensor) -> Tensor:
    size = call.shapes[0][-1]
    diagonal = (a * call.model.constant(np.eye(size, dtype=call.dtype))).reduce("ReduceSum", [len(call.shapes[0]) - 1],
                                                                              keepdims=False)
    return diagonal.apply("Log").reduce("ReduceSum", [len(call.shapes[0]) - 2], keepdims=False).reshape(call.shape)


@torch("_linalg_sumlogdiag")
def _(call: TorchCall) -> str:
    text = "{0}.diagonal(dim1=-2, dim2=-1).log().sum(-1)"
    return f"{text}.reshape(1)" if call.ndim == 2 else text


# -- diagonals --------------------------------------------------------------------------------------------------------
def _places(rows: int, columns: int, offset: int) -> np.ndarray:
    """Where the elements of a diagonal are in a matrix whose rows lie behind one another."""
    return np.flatnonzero(np.eye(rows, columns, offset))


def _length(rows: Size, columns: Size, offset: int) -> Size:
    """How many elements a diagonal has."""
    return max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)


@shape("_linalg_extractdiag")
def _(call: Call, a: Shape, *, offset) -> Shape:
    return (*a[:-2], _length(*a[-2:], offset))


@onnx("_linalg_extractdiag")
def _(call: OnnxCall, a: Tensor, *, offset) -> Tensor:
    *batch, rows, columns = call.shapes[0]
    places = call.model.ints(*_places(rows, columns, offset).tolist())
    return a.reshape([*batch, rows * columns]).apply("Gather", places, axis=len(batch))


@torch("_linalg_extractdiag")
def _(call: TorchCall, *, offset) -> str:
    return f"{{0}}.diagonal({offset}, -2, -1)"


@shape("_linalg_makediag")
def _(call: Call, a: Shape, *, offset) -> Shape:
    return (*a[:-1], *[a[-1] + abs(offset)] * 2)


@onnx("_linalg_makediag")
def _(call: OnnxCall, a: Tensor, *, offset) -> Tensor:
    size = call.shape[-1]
    places = np.zeros((call.shapes[0][-1], size * size), call.dtype)
    places[np.arange(len(places)), _places(size, size, offset)] = 1
    flat = a.unsqueeze(len(call.shapes[0]) - 1).apply("MatMul", call.model.constant(places))
    return flat.reshape(call.shape)


@torch("_linalg_makediag")
def _(call: TorchCall, *, offset) -> str:
    return f"torch.diag_embed({{0}}, {offset})"


@shape("diag")
def _(call: Call, a: Shape, *, k, axis1, axis2) -> Shape:
    if len(a) == 1:
        return (a[0] + abs(k),) * 2
    first, second = axis1 % len(a), axis2 % len(a)
    rest = [size for axis, size in enumerate(a) if axis not in (first, second)]
    return (*rest, _length(a[first], a[second], k))


@onnx("diag")
def _(call: OnnxCall, a: Tensor, *, k, axis1, axis2) -> Tensor:
    sizes = call.shapes[0]
    if len(sizes) == 1:
        places = np.zeros((sizes[0], call.shape[0] ** 2), call.dtype)
        places[np.arange(sizes[0]), _places(*call.shape, k)] = 1
        return a.unsqueeze(0).apply("MatMul", call.model.constant(places)).reshape(call.shape)
    first, second = axis1 % len(sizes), axis2 % len(sizes)
    rest = [axis for axis in range(len(sizes)) if axis not in (first, second)]
    matrices = a.apply("Transpose", perm=[*rest, first, second])
    places = call.model.ints(*_places(sizes[first], sizes[second], k).tolist())
    flat = matrices.reshape([*[sizes[axis] for axis in rest], sizes[first] * sizes[second]])
    return flat.apply("Gather", places, axis=len(rest))


@torch("diag")
def _(call: TorchCall, *, k, axis1, axis2) -> str:
    return f"torch.diag_embed({{0}}, {k})" if call.ndim == 1 else f"{{0}}.diagonal({k}, {axis1}, {axis2})"


# -- the product of columns -------------------------------------------------------------------------------------------
@shape("khatri_rao")
def _(call: Call, *matrices: Shape) -> Shape:
    rows = 1
    for matrix in matrices:
        rows *= matrix[0]
    return rows, matrices[0][1]


@onnx("khatri_rao")
def _(call: OnnxCall, *matrices: Tensor) -> Tensor:
    columns, product = call.shape[1], matrices[0]
    for matrix in matrices[1:]:
        product = (product.unsqueeze(1) * matrix.unsqueeze(0)).reshape([-1, columns])
    return product


@torch("khatri_rao")
def _(call: TorchCall) -> str:
    text = "{0}"
    for position in range(1, len(call.shapes)):
        text = f"({text}[:, None] * {{{position}}}).flatten(0, 1)"
    return text
