"""Op, Arg, Out, Attr, Cuda: what an operator declares, and what follows from the declaration alone.

One :class:`Op` per operator drives the CustomOpProp, the CUDA signatures, the parsing of attributes, validation,
the support table and the test suite. Tensors have a type variable each (``"T"``: the data, ``"A"``: what T
accumulates in, ``"L"``: the label), so that dtypes are inferred like shapes.
"""
import collections
import dataclasses
import functools
import typing

import numpy as np

from .attributes import Attr, Bool, Choice, Float, Int, IntOrTuple, Optional, Pairs
from .dims import UNKNOWN, Dim, Fixed, Size, names, solve
from .errors import OpError

__all__ = ["BLOCK", "FLOATS", "INTEGERS", "LABELS", "Arg", "Attr", "Bool", "Choice", "Cuda", "Dim", "Fixed", "Float",
           "Int", "IntOrTuple", "Op", "Optional", "Out", "Pairs", "Size", "UNKNOWN", "accumulator", "check_axis",
           "names"]

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("uint8", "int8", "int32", "int64")
LABELS = FLOATS + INTEGERS
MAX_NDIM = 8
BLOCK = 0   # a length; see Cuda


def accumulator(dtype):
    """What a dtype accumulates in: float16 in float32, every other in itself."""
    return "float32" if dtype == "float16" else dtype


@dataclasses.dataclass(frozen=True)
class Arg:
    """An input.

    ``dtype`` is its type variable, or a function of the attributes that gives it; ``gradient`` likewise says whether
    it has one. ``classes`` marks class indices: the tensor along whose ``axis`` attribute they count (without such an
    attribute, along its first dimension). ``values(attrs, array)`` -> (what, remedy) or None says what is wrong with
    the values of the input, a NumPy array; like class indices they are looked at only where labels are checked.
    """
    name: str
    dtype: typing.Union[str, typing.Callable]
    doc: str
    gradient: typing.Union[bool, typing.Callable] = True
    classes: typing.Optional[str] = None
    values: typing.Optional[typing.Callable] = None

    def has_gradient(self, attrs):
        return self.gradient(attrs) if callable(self.gradient) else self.gradient


@dataclasses.dataclass(frozen=True)
class Out:
    """An output. The first is the result; any other carries something from forward to backward, and functions and
    blocks drop it, unless the operator returns several."""
    name: str
    dtype: str
    doc: str


@dataclasses.dataclass(frozen=True)
class Cuda:
    """How ``kernel.cu`` is called.

    ``scalars(attrs, shapes)`` gives the numbers that follow the tensors in both kernels' arguments (a Python int
    becomes an int64_t, a float a double, a tuple of floats an array ``const double *``). ``forward(attrs, shapes)`` and
    ``backward(attrs, shapes)`` give (rows, length): the number of independent rows and the elements each of them walks
    through. Length 1 means rows of one element, which threads take four at a time; BLOCK means a block of 256 threads
    per row, whatever a row is to the kernel.

    ``steps`` is for kernels that need a number from several blocks, which cannot ask one another for it. Their
    arguments are also ``double *partial``, after the tensors they write, and ``int64_t step``, before the scalars.
    ``steps(direction, attrs, shapes)`` gives (blocks, numbers): how many blocks share a row (``gridDim.y``), and how
    many numbers ``partial`` has. Where it has some a kernel is launched twice: with step 0, when it leaves them, and
    with step 1; else with step 1 alone.
    """
    scalars: typing.Callable
    forward: typing.Callable
    backward: typing.Callable
    steps: typing.Optional[typing.Callable] = None


@dataclasses.dataclass(frozen=True)
class Op:
    """The contract of one operator.

    Parameters
    ----------
    name : str
        As in ``gluonops.ops.<name>``, the folder, and ``gluonops_<name>`` in a graph.
    summary : str
        One line, for the support table.
    inputs, outputs : tuple of Arg, Out
    attrs : tuple of Attr
    types : dict
        The dtypes that each type variable may take.
    shapes : callable
        ``shapes(attrs, ndims)`` -> (patterns, required): the declared shape of every tensor, given the number of
        dimensions of the inputs (None where unknown, never for the first), and dimensions that must come out
        whole. See :mod:`gluonops.core.dims`.
    backward : tuple of str
        The tensors that the gradient reads, in the order in which ``reference.backward`` and the CUDA kernel
        take them; ``output_grad`` is the head gradient. Absent from it: the op ignores the head gradient.
    cuda : Cuda
    check : callable, optional
        ``check(attrs)`` -> (what, remedy) or None: combinations of attributes that are refused.
    wide : bool
        Whether float16 is computed in float32.
    returned : callable, optional
        ``returned(attrs)``: how many of the outputs, from the first on, functions and blocks return; 1 without it.
    waived : dict
        File of the op's folder -> the reason why this op has none.
    """
    name: str
    summary: str
    inputs: tuple
    outputs: tuple
    attrs: tuple
    types: dict
    shapes: typing.Callable
    backward: tuple
    cuda: typing.Optional[Cuda]
    check: typing.Optional[typing.Callable] = None
    wide: bool = False
    returned: typing.Optional[typing.Callable] = None
    waived: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        object.__setattr__(self, "Attrs", collections.namedtuple("Attrs", [a.name for a in self.attrs]))
        # An imperative call is validated every time, mostly with what the call before it had.
        object.__setattr__(self, "validate", functools.lru_cache(maxsize=256)(self._validate))

    @property
    def graph_name(self):
        return f"gluonops_{self.name}"

    @property
    def tensors(self):
        return self.inputs + self.outputs

    @property
    def reads_head_gradient(self):
        return any(name.endswith("_grad") for name in self.backward)

    def error(self, what, remedy):
        return OpError(self.name, what, remedy)

    # -- attributes ------------------------------------------------------------------------------------------
    def parse(self, values):
        """Typed attributes from Python values or from the strings in a graph."""
        known = {a.name for a in self.attrs}
        for name in values:
            if name not in known and not (name.startswith("__") and name.endswith("__")):
                expected = f"expected {', '.join(sorted(known))}" if known else "this op takes none"
                raise self.error(f"{name!r} is not an attribute; {expected}", "Check the spelling")
        attrs = self.Attrs(*(a.parse(self.name, values.get(a.name, a.default)) for a in self.attrs))
        refused = self.check(attrs) if self.check else None
        if refused:
            raise self.error(*refused)
        return attrs

    def strings(self, attrs):
        """The attributes as a graph stores them."""
        return {a.name: a.kind.text(value) for a, value in zip(self.attrs, attrs)}

    # -- shapes ----------------------------------------------------------------------------------------------
    def keeps_shape(self, attrs):
        """Whether the first output has the shape of the first input, however many dimensions that has."""
        first, output = self.inputs[0], self.outputs[0].name
        for ndim in range(1, MAX_NDIM + 1):
            ndims = {**dict.fromkeys((arg.name for arg in self.inputs), None), first.name: ndim}
            try:
                patterns, _ = self.shapes(attrs, ndims)
            except OpError:
                continue
            if len(patterns[first.name]) == ndim:
                return [str(dim) for dim in patterns[first.name]] == [str(dim) for dim in patterns[output]]
        return False

    def infer_shape(self, attrs, shapes):
        """Every tensor's shape, as far as it follows from those known.

        ``shapes`` maps names to tuples (a size may be UNKNOWN); what is missing is unknown. The result has a
        tuple for every tensor, or only what was given where the number of dimensions does not follow.
        """
        known = {t.name: tuple(shapes[t.name]) for t in self.tensors if shapes.get(t.name) is not None}
        first = self.inputs[0].name
        ndims = {arg.name: len(known[arg.name]) if arg.name in known else None for arg in self.inputs}
        if ndims[first] is None:
            ndims[first] = self._only_ndim(attrs, known, ndims)
            if ndims[first] is None:
                return known
        patterns, required = self.shapes(attrs, ndims)
        return solve(self.name, patterns, known, required)

    def _only_ndim(self, attrs, known, ndims):
        """The first input's number of dimensions, where the others leave just one."""
        first, found = self.inputs[0].name, []
        for ndim in range(1, MAX_NDIM + 1):
            try:
                patterns, _ = self.shapes(attrs, {**ndims, first: ndim})
            except OpError:
                continue
            if known and len(patterns[first]) == ndim and all(
                    len(patterns[name]) == len(shape) for name, shape in known.items()):
                found.append(ndim)
        return found[0] if len(found) == 1 else None

    # -- dtypes ----------------------------------------------------------------------------------------------
    def kinds(self, attrs):
        """The type variable of every tensor by name, gradients (``<name>_grad``) included."""
        kinds = {t.name: t.dtype(attrs) if callable(t.dtype) else t.dtype for t in self.tensors}
        return {**kinds, **{f"{name}_grad": kind for name, kind in kinds.items()}}

    def infer_type(self, attrs, dtypes):
        """Every tensor's dtype by name, from those known; a label without one takes the data's.

        Returns a dict of name to dtype string, None where it does not follow.
        """
        bound, kinds = {}, self.kinds(attrs)
        for tensor in self.tensors:
            dtype, kind = dtypes.get(tensor.name), kinds[tensor.name]
            if dtype is None or kind == "A":
                continue
            dtype = np.dtype(dtype).name
            allowed = self.types[kind]
            if dtype not in allowed:
                raise self.error(f"{tensor.name} has dtype {dtype}; expected {', '.join(allowed)}",
                                 f"Cast it, for instance {tensor.name}.astype('{allowed[min(1, len(allowed) - 1)]}')")
            other, source = bound.setdefault(kind, (dtype, tensor.name))
            if other != dtype:
                raise self.error(f"{tensor.name} has dtype {dtype}; expected {other}, the dtype of {source}",
                                 f"Cast it with {tensor.name}.astype('{other}')")
        if "T" in bound:
            dtype = bound["T"][0]
            bound["A"] = (accumulator(dtype), None)
            if "L" in self.types:
                bound.setdefault("L", (dtype, None))
        return {t.name: bound.get(kinds[t.name], (None,))[0] for t in self.tensors}

    def _validate(self, attrs, shapes, dtypes):
        """``validate``: every tensor's shape by name; an OpError unless these inputs are good.

        ``shapes`` and ``dtypes`` are tuples, in the order of the inputs.
        """
        inputs = [arg.name for arg in self.inputs]
        inferred = self.infer_shape(attrs, dict(zip(inputs, shapes)))
        self.infer_type(attrs, dict(zip(inputs, dtypes)))
        return inferred


def check_axis(name, axis, ndim, what="data"):
    """The axis counted from the front; an OpError where ``what`` has no such axis."""
    if not -ndim <= axis < ndim:
        raise OpError(name, f"axis {axis} is out of range for {what} of {ndim} dimension{'s' * (ndim != 1)}",
                      f"Choose an axis from {-ndim} to {ndim - 1}")
    return axis % ndim
