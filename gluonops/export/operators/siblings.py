"""The legacy operators that mean the same as NumPy's, where they do.

A graph of legacy operators runs in each of MXNet's modes, and every pass and converter knows them. So a graph from
NumPy mode is written with them as far as it can be. Whether an operator has such a sibling depends on shapes and types:
a legacy operator neither promotes types, for which a cast stands in front of it, nor makes a number of shape ``()``.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..graph import Node
from .numpy_arithmetic import OF_ONE, OF_TWO

SIBLINGS: dict[str, Callable] = {}
# The word of a NumPy operator -> that of the legacy one between arrays, and beside a scalar.
BETWEEN = {"add": "add", "subtract": "sub", "multiply": "mul", "true_divide": "div", "power": "power", "mod": "mod"}
BESIDE = {"add": "plus", "subtract": "minus", "rsubtract": "rminus", "multiply": "mul", "true_divide": "div",
          "rtrue_divide": "rdiv", "power": "power", "rpower": "rpower", "mod": "mod", "rmod": "rmod"}
OF_ELEMENTS = ("add", "sub", "mul", "div")   # these have an operator for arrays of one shape
RENAMED = {"absolute": "abs"}


@dataclasses.dataclass(frozen=True)
class Sibling:
    """A legacy operator in place of a NumPy one.

    - ``attrs``: its attributes.
    - ``inputs``: the type that all its inputs are cast to; None if they stay as they are.
    """
    op: str
    attrs: dict[str, str] = dataclasses.field(default_factory=dict)
    inputs: np.dtype | None = None


@dataclasses.dataclass(frozen=True)
class NumpyCall:
    """A node of which all shapes and types are known.

    - ``attributes``: all of them, with MXNet's types and defaults.
    - ``shapes``, ``dtypes``: of its inputs. ``shape``, ``dtype``: of its first output.
    - ``others``: the shapes of its inputs in a larger batch.
    """
    node: Node
    attributes: Mapping[str, Any]
    shapes: list[tuple[int, ...]]
    dtypes: list[np.dtype]
    shape: tuple[int, ...]
    dtype: np.dtype
    others: list[tuple[int, ...]]

    @property
    def is_alike(self) -> bool:
        """Whether its inputs have one shape, whatever the batch size is."""
        return len(set(self.shapes)) == len(set(self.others)) == 1


def sibling(*names: str) -> Callable:
    """Enter a function of a :class:`NumpyCall` for these operators: it returns a Sibling, or None if there is none."""
    def enter(function: Callable) -> Callable:
        SIBLINGS.update(dict.fromkeys(names, function))
        return function
    return enter


def _is_plain(shape: tuple) -> bool:
    """Whether a shape means the same in legacy mode."""
    return shape != () and 0 not in shape


@sibling(*(f"_npi_{word}" for word in OF_TWO))
def _between(call: NumpyCall) -> Sibling | None:
    """Truth values stay NumPy's."""
    if call.dtype.kind == "b":
        return None
    word = BETWEEN[call.node.op[len("_npi_"):]]
    is_alike = call.is_alike and word in OF_ELEMENTS
    return Sibling(f"elemwise_{word}" if is_alike else f"broadcast_{word}", inputs=call.dtype)


@sibling(*(f"_npi_{word}_scalar" for word in BESIDE))
def _beside(call: NumpyCall) -> Sibling | None:
    word, scalar = call.node.op[len("_npi_"):-len("_scalar")], call.attributes["scalar"]
    if call.dtype.kind == "b" or (call.dtype.kind in "iu" and call.dtype != call.dtypes[0]):
        return None
    text = call.node.attrs.get("scalar", "1") if scalar == scalar else "nan"
    if call.dtype.kind in "iu":
        text = str(int(scalar))
    return Sibling(f"_{BESIDE[word]}_scalar", {"scalar": text}, call.dtype)


@sibling(*(f"_npi_{word}" for word in (*OF_ONE, "expm1", "log10", "log1p", "log2", "square", "rint", "trunc", "fix")),
         "_npx_sigmoid", "_np_copy")
def _of_one(call: NumpyCall) -> Sibling | None:
    if call.dtype.kind == "b":
        return None
    word = call.node.op.split("_", 2)[2]
    return Sibling({**RENAMED, "copy": "_copy"}.get(word, word))


@sibling("_npx_relu")
def _relu(call: NumpyCall) -> Sibling | None:
    """Convolutions take in an Activation."""
    if call.dtype.kind == "f" and len(call.shape) > 1:
        return Sibling("Activation", {"act_type": "relu"})
    return Sibling("relu") if call.dtype.kind != "b" else None


@sibling("_np_reshape")
def _reshape(call: NumpyCall) -> Sibling | None:
    sizes = call.attributes["newshape"]
    if not sizes or 0 in sizes or min(sizes) < -1 or call.node.attrs.get("order", "C") != "C":
        return None
    return Sibling("Reshape", {"shape": str(tuple(sizes))}) if _is_plain(call.shapes[0]) else None


@sibling("_npx_reshape")
def _coded_reshape(call: NumpyCall) -> Sibling | None:
    """Dropped axes of size 1 are a squeeze; other codes have other numbers in Reshape."""
    codes = call.attributes["newshape"]
    reverse = call.attributes["reverse"]
    if 0 in codes or not _is_plain(call.shape) or not _is_plain(call.shapes[0]):
        return None
    if set(codes) <= {-2, -3, -4} and not reverse:
        gone = tuple(place for place, code in enumerate(codes) if code == -3)
        if gone:
            return Sibling("squeeze", {"axis": str(gone)}) if -4 not in codes[:max(gone)] else None
    if -3 in codes:
        return None
    renumbered, splits = [], 0
    for code in codes:   # the two sizes behind a split are no codes
        renumbered.append(code if splits else {-2: 0, -4: -2, -5: -3, -6: -4}.get(code, code))
        splits = 2 if code == -6 and not splits else max(splits - 1, 0)
    attrs = {"shape": str(tuple(renumbered))}
    return Sibling("Reshape", {**attrs, "reverse": "True"} if reverse else attrs)


@sibling("_np_transpose")
def _transpose(call: NumpyCall) -> Sibling:
    axes = call.attributes["axes"]
    return Sibling("transpose", {"axes": str(tuple(axes))} if axes else {})


@sibling("_np_squeeze")
def _squeeze(call: NumpyCall) -> Sibling | None:
    axes = call.attributes["axis"]
    if axes is None or not _is_plain(call.shape):   # without axes it depends on the sizes
        return None
    return Sibling("squeeze", {"axis": str(tuple(axes))})


@sibling("_npi_concatenate")
def _concatenate(call: NumpyCall) -> Sibling | None:
    axis = call.attributes["axis"]
    if axis is None or not all(map(_is_plain, call.shapes)) or len(set(call.dtypes)) > 1:
        return None
    return Sibling("Concat", {"dim": str(axis), "num_args": str(len(call.shapes))})


@sibling("_npi_vstack", "_npi_hstack", "_npi_dstack")
def _stacked(call: NumpyCall) -> Sibling | None:
    """Parts that need no further axis are joined. MXNet forgets the shapes of what its own operators read."""
    axis = {"_npi_vstack": 0, "_npi_hstack": 1, "_npi_dstack": 2}[call.node.op]
    least = min(map(len, call.shapes))
    if least <= max(axis, 1) or not all(map(_is_plain, call.shapes)) or len(set(call.dtypes)) > 1:
        return None
    return Sibling("Concat", {"dim": str(axis), "num_args": str(len(call.shapes))})


@sibling("_npi_stack")
def _stack(call: NumpyCall) -> Sibling | None:
    if not all(map(_is_plain, call.shapes)):
        return None
    return Sibling("stack", {"axis": str(call.attributes["axis"]), "num_args": str(len(call.shapes))})


@sibling("_np_sum", "_npi_mean", "_np_prod", "_np_max", "_np_min")
def _reduction(call: NumpyCall) -> Sibling | None:
    """Legacy reductions keep one axis at least, and of no axes reduce all."""
    axis, op = call.attributes["axis"], call.node.op.split("_", 2)[2]
    is_other_type = call.dtype != call.dtypes[0]
    if axis == () or call.attributes["initial"] is not None or call.dtype.kind == "b" or not _is_plain(call.shape):
        return None
    if not _is_plain(call.shapes[0]) or (call.dtype.kind in "iu" and (is_other_type or op == "mean")):
        return None
    attrs = {"keepdims": "True"} if call.attributes["keepdims"] else {}
    if axis is not None:
        attrs["axis"] = str(axis[0] if len(axis) == 1 else tuple(axis))
    return Sibling(op, attrs, call.dtype)


@sibling("_np_dot", "_npi_matmul")
def _product(call: NumpyCall) -> Sibling | None:
    """Of matrices. A legacy dot sums over the first axis of its second operand."""
    left, right = map(len, call.shapes)
    if call.node.op == "_np_dot" and 0 in (left, right):
        return Sibling("broadcast_mul", inputs=call.dtype)
    if not all(map(_is_plain, call.shapes)) or len(set(call.dtypes)) > 1:
        return None
    if right == 2 and left > 1:
        return Sibling("dot") if left == 2 or call.node.op == "_np_dot" else None
    is_batch = call.node.op == "_npi_matmul" and left == right > 2 and all(
        one[:-2] == other[:-2] for one, other in (call.shapes, call.others))
    return Sibling("batch_dot") if is_batch else None


@sibling("_npi_broadcast_to")
def _broadcast_to(call: NumpyCall) -> Sibling | None:
    sizes = call.attributes["shape"]
    if len(sizes) != len(call.shapes[0]) or not _is_plain(sizes) or min(sizes) < 0 or not _is_plain(call.shapes[0]):
        return None
    return Sibling("broadcast_to", {"shape": str(tuple(sizes))})


@sibling("_npi_flip")
def _flip(call: NumpyCall) -> Sibling | None:
    return Sibling("reverse", {"axis": str(tuple(call.attributes["axis"]))}) if call.attributes["axis"] else None


@sibling("_npi_where")
def _where(call: NumpyCall) -> Sibling | None:
    is_alike = call.is_alike and _is_plain(call.shape) and call.dtypes[0].kind != "b"
    return Sibling("where") if is_alike else None


@sibling("_npi_full_like")
def _full_like(call: NumpyCall) -> Sibling | None:
    op = {0: "zeros_like", 1: "ones_like"}.get(call.attributes["fill_value"])
    return Sibling(op) if op and call.dtype == call.dtypes[0] and call.dtype.kind != "b" else None


@sibling("_npi_zeros", "_npi_ones")
def _made(call: NumpyCall) -> Sibling | None:
    if not _is_plain(call.shape) or call.dtype.kind == "b":
        return None
    return Sibling(call.node.op.replace("_npi", ""), {"shape": str(call.shape), "dtype": call.dtype.name})


@sibling("_npi_arange")
def _arange(call: NumpyCall) -> Sibling | None:
    if not _is_plain(call.shape):
        return None
    kept = ("start", "stop", "step", "repeat", "dtype")
    attrs = {name: call.node.attrs[name] for name in kept if name in call.node.attrs}
    return Sibling("_arange", attrs)
