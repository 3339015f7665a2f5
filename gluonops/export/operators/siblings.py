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
class Known:
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
    """Enter a function of a :class:`Known` node for these operators: it returns a Sibling, or None if it has none."""
    def enter(function: Callable) -> Callable:
        SIBLINGS.update(dict.fromkeys(names, function))
        return function
    return enter


def _is_plain(shape: tuple) -> bool:
    """Whether a shape means the same in legacy mode."""
    return shape != () and 0 not in shape


@sibling(*(f"_npi_{word}" for word in OF_TWO))
def _between(known: Known) -> Sibling | None:
    """Truth values stay NumPy's."""
    if known.dtype.kind == "b":
        return None
    word = BETWEEN[known.node.op[len("_npi_"):]]
    is_alike = known.is_alike and word in OF_ELEMENTS
    return Sibling(f"elemwise_{word}" if is_alike else f"broadcast_{word}", inputs=known.dtype)


@sibling(*(f"_npi_{word}_scalar" for word in BESIDE))
def _beside(known: Known) -> Sibling | None:
    word, scalar = known.node.op[len("_npi_"):-len("_scalar")], known.attributes["scalar"]
    if known.dtype.kind == "b" or (known.dtype.kind in "iu" and known.dtype != known.dtypes[0]):
        return None
    text = known.node.attrs.get("scalar", str(scalar)) if scalar == scalar else "nan"
    if known.dtype.kind in "iu":
        text = str(int(scalar))
    return Sibling(f"_{BESIDE[word]}_scalar", {"scalar": text}, known.dtype)


@sibling(*(f"_npi_{word}" for word in (*OF_ONE, "expm1", "log10", "log1p", "log2", "square", "rint", "trunc", "fix")),
         "_npx_sigmoid", "_np_copy")
def _of_one(known: Known) -> Sibling | None:
    if known.dtype.kind == "b":
        return None
    word = known.node.op.split("_", 2)[2]
    return Sibling({**RENAMED, "copy": "_copy"}.get(word, word))


@sibling("_npx_relu")
def _relu(known: Known) -> Sibling | None:
    """Convolutions take in an Activation."""
    if known.dtype.kind == "f" and len(known.shape) > 1:
        return Sibling("Activation", {"act_type": "relu"})
    return Sibling("relu") if known.dtype.kind != "b" else None


@sibling("_np_reshape")
def _reshape(known: Known) -> Sibling | None:
    sizes = known.attributes["newshape"]
    if not sizes or 0 in sizes or min(sizes) < -1 or known.attributes["order"] != "C":
        return None
    return Sibling("Reshape", {"shape": str(tuple(sizes))}) if _is_plain(known.shapes[0]) else None


@sibling("_npx_reshape")
def _coded_reshape(known: Known) -> Sibling | None:
    """Dropped axes of size 1 are a squeeze; other codes have other numbers in Reshape."""
    codes = known.attributes["newshape"]
    reverse = known.attributes["reverse"]
    if 0 in codes or not _is_plain(known.shape) or not _is_plain(known.shapes[0]):
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
def _transpose(known: Known) -> Sibling:
    axes = known.attributes["axes"]
    return Sibling("transpose", {"axes": str(tuple(axes))} if axes else {})


@sibling("_np_squeeze")
def _squeeze(known: Known) -> Sibling | None:
    axes = known.attributes["axis"]
    if axes is None or not _is_plain(known.shape):   # without axes it depends on the sizes
        return None
    return Sibling("squeeze", {"axis": str(tuple(axes))})


@sibling("_npi_concatenate")
def _concatenate(known: Known) -> Sibling | None:
    axis = known.attributes["axis"]
    if axis is None or not all(map(_is_plain, known.shapes)) or len(set(known.dtypes)) > 1:
        return None
    return Sibling("Concat", {"dim": str(axis), "num_args": str(len(known.shapes))})


@sibling("_npi_vstack", "_npi_hstack", "_npi_dstack")
def _stacked(known: Known) -> Sibling | None:
    """Parts that need no further axis are joined. MXNet forgets the shapes of what its own operators read."""
    axis = {"_npi_vstack": 0, "_npi_hstack": 1, "_npi_dstack": 2}[known.node.op]
    least = min(map(len, known.shapes))
    if least <= max(axis, 1) or not all(map(_is_plain, known.shapes)) or len(set(known.dtypes)) > 1:
        return None
    return Sibling("Concat", {"dim": str(axis), "num_args": str(len(known.shapes))})


@sibling("_npi_stack")
def _stack(known: Known) -> Sibling | None:
    if not all(map(_is_plain, known.shapes)):
        return None
    return Sibling("stack", {"axis": str(known.attributes["axis"]), "num_args": str(len(known.shapes))})


@sibling("_np_sum", "_npi_mean", "_np_prod", "_np_max", "_np_min")
def _reduction(known: Known) -> Sibling | None:
    """Legacy reductions keep one axis at least, and of no axes reduce all."""
    axis, op = known.attributes["axis"], known.node.op.split("_", 2)[2]
    is_other_type = known.dtype != known.dtypes[0]
    if axis == () or known.attributes["initial"] is not None or known.dtype.kind == "b" or not _is_plain(known.shape):
        return None
    if not _is_plain(known.shapes[0]) or (known.dtype.kind in "iu" and (is_other_type or op == "mean")):
        return None
    attrs = {"keepdims": "True"} if known.attributes["keepdims"] else {}
    if axis is not None:
        attrs["axis"] = str(axis[0] if len(axis) == 1 else tuple(axis))
    return Sibling(op, attrs, known.dtype)


@sibling("_np_dot", "_npi_matmul")
def _product(known: Known) -> Sibling | None:
    """Of matrices. A legacy dot sums over the first axis of its second operand."""
    left, right = map(len, known.shapes)
    if known.node.op == "_np_dot" and 0 in (left, right):
        return Sibling("broadcast_mul", inputs=known.dtype)
    if not all(map(_is_plain, known.shapes)) or len(set(known.dtypes)) > 1:
        return None
    if right == 2 and left > 1:
        return Sibling("dot") if left == 2 or known.node.op == "_np_dot" else None
    is_batch = known.node.op == "_npi_matmul" and left == right > 2 and all(
        one[:-2] == other[:-2] for one, other in (known.shapes, known.others))
    return Sibling("batch_dot") if is_batch else None


@sibling("_npi_broadcast_to")
def _broadcast_to(known: Known) -> Sibling | None:
    sizes = known.attributes["shape"]
    if len(sizes) != len(known.shapes[0]) or not _is_plain(sizes) or min(sizes) < 0 or not _is_plain(known.shapes[0]):
        return None
    return Sibling("broadcast_to", {"shape": str(tuple(sizes))})


@sibling("_npi_flip")
def _flip(known: Known) -> Sibling | None:
    return Sibling("reverse", {"axis": str(tuple(known.attributes["axis"]))}) if known.attributes["axis"] else None


@sibling("_npi_where")
def _where(known: Known) -> Sibling | None:
    is_alike = known.is_alike and _is_plain(known.shape) and known.dtypes[0].kind != "b"
    return Sibling("where") if is_alike else None


@sibling("_npi_full_like")
def _full_like(known: Known) -> Sibling | None:
    op = {0: "zeros_like", 1: "ones_like"}.get(known.attributes["fill_value"])
    return Sibling(op) if op and known.dtype == known.dtypes[0] and known.dtype.kind != "b" else None


@sibling("_npi_zeros", "_npi_ones")
def _made(known: Known) -> Sibling | None:
    if not _is_plain(known.shape) or known.dtype.kind == "b":
        return None
    return Sibling(known.node.op.replace("_npi", ""), {"shape": str(known.shape), "dtype": known.dtype.name})


@sibling("_npi_arange")
def _arange(known: Known) -> Sibling | None:
    if not _is_plain(known.shape):
        return None
    kept = ("start", "stop", "step", "repeat", "dtype")
    attrs = {name: known.node.attrs[name] for name in kept if name in known.node.attrs}
    return Sibling("_arange", attrs)
