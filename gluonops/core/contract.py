"""Op, Arg, Out, Attr, Shapes, Cuda: what an operator declares, and what follows from the declaration alone.

One :class:`Op` per operator is the only source of its names, types, attributes, shapes and refusals. From it follow the
CustomOpProp, the CUDA signatures, the C++ operator (``gluonops/native/generate.py``), validation, the support table
and the test suite. Nothing here needs MXNet or NumPy: a build reads contracts without them.

Tensors have a type variable each (``"T"``: the data, ``"A"``: what T accumulates in, ``"L"``: the label), so that
dtypes are inferred like shapes. Conditions are :class:`gluonops.core.expressions.Expression` s, written as strings.
"""
from __future__ import annotations

import collections
import dataclasses
import functools
import re
import types as _types
import typing
import warnings

from .attributes import Attr, Bool, Choice, Float, Int, IntOrTuple, Optional, Pairs
from .dims import UNKNOWN, bare_sizes, solve
from .errors import OpError
from .expressions import Expression
from .shapes import Shapes, normalized_axis

__all__ = ["BLOCK", "FLOATS", "INTEGERS", "LABELS", "Arg", "Attr", "Becomes", "Bool", "Choice", "Cuda", "Float",
           "Indices", "Int", "IntOrTuple", "Op", "Optional", "Out", "Pairs", "Refused", "Rows", "Shapes", "UNKNOWN",
           "accumulator", "normalized_axis"]

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("uint8", "int8", "int32", "int64")
LABELS = FLOATS + INTEGERS
ROLES = ("layer", "loss", "loss head")
MAX_NDIM = 8
BLOCK = 0   # a length; see Cuda


def accumulator(dtype: str) -> str:
    """What a dtype accumulates in: float16 in float32, every other in itself."""
    return "float32" if dtype == "float16" else dtype


def dtype_name(dtype: typing.Any) -> str:
    """``"float32"`` of a string, a NumPy dtype or a NumPy type."""
    if isinstance(dtype, str):
        return dtype
    return getattr(dtype, "name", None) or dtype.__name__.rstrip("_")


@dataclasses.dataclass(frozen=True)
class Indices:
    """An input of whole numbers from 0 on, below the size of a dimension.

    Parameters
    ----------
    dimension : str
        Its name in the shapes.
    ignore : str, optional
        An attribute: the number, or None, that is allowed besides.
    when : str, optional
        The condition under which the input holds indices; always without it.
    """
    dimension: str
    ignore: str | None = None
    when: str | None = None


@dataclasses.dataclass(frozen=True)
class Rows:
    """An input whose last axis is a row of numbers, of which each row is valid or all zeros.

    Parameters
    ----------
    columns : tuple of str
    axes : tuple of str
        What the axes in front of the last one count: ``("image", "box")``.
    valid : str
        The condition, over the columns and the attributes.
    expected, remedy : str
        The error's text; ``{expression}`` stands for a value.
    """
    columns: tuple
    axes: tuple
    valid: str
    expected: str
    remedy: str


@dataclasses.dataclass(frozen=True)
class Refused:
    """A combination of attributes, or of attributes and numbers of dimensions, that is refused.

    Parameters
    ----------
    when : str
        The condition, over attributes and ``tensor.ndim``.
    what, remedy : str
        The error's text; ``{expression}`` stands for a value.
    """
    when: str
    what: str
    remedy: str

    @property
    def reads_ndim(self) -> bool:
        return ".ndim" in self.when


@dataclasses.dataclass(frozen=True)
class Becomes:
    """What a loss head is at inference: another operator on some of its inputs, with some of its attributes."""
    operator: str
    inputs: tuple
    attrs: tuple = ()


@dataclasses.dataclass(frozen=True)
class Arg:
    """An input.

    Parameters
    ----------
    name : str
    dtype : str
        Its type variable, or two and a condition: ``"L if sparse else T"``.
    doc : str
    gradient : bool or str
        Whether it has a gradient, or the condition under which it has one.
    values : Indices or Rows, optional
        What its numbers may be; looked at only where labels are checked (``GLUONOPS_CHECK_LABELS=1``).
    """
    name: str
    dtype: str
    doc: str
    gradient: bool | str = True
    values: Indices | Rows | None = None

    def has_gradient(self, attrs: tuple) -> bool:
        if isinstance(self.gradient, bool):
            return self.gradient
        return bool(expression(self.gradient)(attrs._asdict()))


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
    steps: typing.Callable | None = None


@functools.cache
def expression(text: str) -> Expression:
    """The expression of a text, parsed once."""
    return Expression(text)


_PLACE = re.compile(r"\{([^{}]*)\}")


def fill_in(text: str, values: dict) -> str:
    """``"axis is {axis}"`` with its expressions' values."""
    return _PLACE.sub(lambda match: str(expression(match[1])(values)), text)


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
    shapes : Shapes or tuple of Shapes
        The declared shape of every tensor; of several the first whose condition holds. See
        :mod:`gluonops.core.shapes`.
    backward : tuple of str
        The tensors that the gradient reads, in the order in which ``reference.backward`` and the CUDA kernel
        take them; ``output_grad`` is the head gradient. Absent from it: the op ignores the head gradient.
    cuda : Cuda
    refused : tuple of Refused
        Combinations of attributes and of numbers of dimensions.
    remedies : dict of str to str
        Dimension -> what the user can do where it does not divide. The default is to pad the input or to choose
        another attribute.
        A declaration in ``shapes`` can have remedies of its own.
    accumulate_fp32 : bool
        Whether float16 is computed in float32.
    returned : str
        An expression: how many of the outputs, from the first on, functions and blocks return.
    role : {'layer', 'loss', 'loss head'}
        A loss is for training only. A loss head outputs predictions, and its gradient is a loss's.
    inference : Becomes, optional
        What a loss head becomes in a graph that is exported for inference.
    unsupported : dict
        File of the op's folder -> the reason why this op has none.
    """
    name: str
    summary: str
    inputs: tuple
    outputs: tuple
    attrs: tuple
    types: dict
    shapes: Shapes | tuple
    backward: tuple
    cuda: Cuda | None
    refused: tuple = ()
    remedies: dict = dataclasses.field(default_factory=dict)
    accumulate_fp32: bool = False
    returned: str = "1"
    role: str = "layer"
    inference: Becomes | None = None
    unsupported: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"{self.name}: role is {self.role!r}; expected one of {ROLES}")
        names = [attr.name for attr in self.attrs]
        declared = self.shapes if isinstance(self.shapes, tuple) else (self.shapes,)
        object.__setattr__(self, "Attrs", collections.namedtuple("Attrs", names))
        object.__setattr__(self, "rules", tuple(shapes.bind(names) for shapes in declared))
        # An imperative call is validated every time, mostly with what the call before it had.
        object.__setattr__(self, "validate", functools.lru_cache(maxsize=256)(self._validate))

    @property
    def graph_name(self) -> str:
        return f"gluonops_{self.name}"

    @property
    def tensors(self) -> tuple:
        return self.inputs + self.outputs

    @property
    def reads_head_gradient(self) -> bool:
        return any(name.endswith("_grad") for name in self.backward)

    def error(self, what: str, remedy: str) -> OpError:
        return OpError(self.name, what, remedy)

    def number_returned(self, attrs: tuple) -> int:
        """How many of the outputs, from the first on, functions and blocks return."""
        return expression(self.returned)(attrs._asdict())

    # -- attributes ------------------------------------------------------------------------------------------
    def parse(self, values: dict) -> tuple:
        """Typed attributes from Python values or from the strings in a graph."""
        known = {a.name for a in self.attrs}
        for name in values:
            if name not in known and not (name.startswith("__") and name.endswith("__")):
                expected = f"expected {', '.join(sorted(known))}" if known else "this op takes none"
                raise self.error(f"{name!r} is not an attribute; {expected}", "Check the spelling")
        attrs = self.Attrs(*(a.parse(self.name, values.get(a.name, a.default)) for a in self.attrs))
        self._refuse(attrs._asdict(), reads_ndim=False)
        return attrs

    def _refuse(self, values: dict, reads_ndim: bool) -> None:
        for refused in self.refused:
            if refused.reads_ndim == reads_ndim and expression(refused.when)(values):
                raise self.error(fill_in(refused.what, values), fill_in(refused.remedy, values))

    def strings(self, attrs: tuple) -> dict[str, str]:
        """The attributes as a graph stores them."""
        return {a.name: a.kind.text(value) for a, value in zip(self.attrs, attrs)}

    # -- shapes ----------------------------------------------------------------------------------------------
    def keeps_shape(self, attrs: tuple) -> bool:
        """Whether the first output has the shape of the first input, however many dimensions that has."""
        first, output = self.inputs[0], self.outputs[0].name
        for ndim in range(1, MAX_NDIM + 1):
            ndims = {**dict.fromkeys((arg.name for arg in self.inputs), None), first.name: ndim}
            try:
                patterns, _, _ = self._expand(attrs, ndims)
            except OpError:
                continue
            if len(patterns[first.name]) == ndim:
                return [str(dim) for dim in patterns[first.name]] == [str(dim) for dim in patterns[output]]
        return False

    def infer_shape(self, attrs: tuple, shapes: dict[str, tuple]) -> dict[str, tuple]:
        """Every tensor's shape, as far as it follows from those known.

        ``shapes`` maps names to tuples (a size may be UNKNOWN); what is missing is unknown. The result has a
        tuple for every tensor, or only what was given where the number of dimensions does not follow.
        """
        known = {t.name: tuple(shapes[t.name]) for t in self.tensors if shapes.get(t.name) is not None}
        found = self._patterns(attrs, known)
        if found is None:
            return known
        patterns, whole, remedies = found
        return solve(self.name, patterns, known, whole, remedies)

    def sizes(self, attrs: tuple, shapes: dict[str, tuple]) -> dict[str, int]:
        """The size of every named dimension that follows from the known shapes."""
        known = {t.name: tuple(shapes[t.name]) for t in self.tensors if shapes.get(t.name) is not None}
        patterns, _, _ = self._patterns(attrs, known)
        return {name: size for name, (size, _) in bare_sizes(self.name, patterns, known).items()}

    def index_sizes(self, attrs: tuple, shapes: dict[str, tuple]) -> dict[str, int]:
        """Input -> the size below which its whole numbers are, for the inputs that hold indices with these attributes.

        ``shapes`` maps names to tuples.
        """
        holding = [arg for arg in self.inputs if isinstance(arg.values, Indices) and (
            arg.values.when is None or expression(arg.values.when)(attrs._asdict()))]
        sizes = self.sizes(attrs, shapes) if holding else {}
        return {arg.name: sizes[arg.values.dimension] for arg in holding}

    def _patterns(self, attrs: tuple, known: dict[str, tuple]) -> tuple[dict, tuple, dict] | None:
        """(patterns, whole, remedies) for the known shapes; None where the number of dimensions does not follow."""
        first = self.inputs[0].name
        ndims = {arg.name: len(known[arg.name]) if arg.name in known else None for arg in self.inputs}
        if ndims[first] is None:
            ndims[first] = self._only_ndim(attrs, known, ndims)
        return None if ndims[first] is None else self._expand(attrs, ndims)

    def _expand(self, attrs: tuple, ndims: dict[str, int | None]) -> tuple[dict, tuple, dict]:
        values = attrs._asdict()
        rule = next(rule for rule in self.rules if rule.holds(values, ndims))
        patterns, whole = rule.expand(self.name, values, ndims[self.inputs[0].name])
        tensors = {name: _types.SimpleNamespace(ndim=ndim) for name, ndim in ndims.items()}
        self._refuse({**values, **tensors}, reads_ndim=True)
        return patterns, whole, {**self.remedies, **rule.remedies}

    def _only_ndim(self, attrs: tuple, known: dict[str, tuple], ndims: dict[str, int | None]) -> int | None:
        """The first input's number of dimensions, where the others leave just one."""
        first, possible = self.inputs[0].name, []
        for ndim in range(1, MAX_NDIM + 1):
            try:
                patterns, _, _ = self._expand(attrs, {**ndims, first: ndim})
            except OpError:
                continue
            if known and len(patterns[first]) == ndim and all(
                    len(patterns[name]) == len(shape) for name, shape in known.items()):
                possible.append(ndim)
        return possible[0] if len(possible) == 1 else None

    # -- dtypes ----------------------------------------------------------------------------------------------
    def type_vars(self, attrs: tuple) -> dict[str, str]:
        """The type variable of every tensor by name, gradients (``<name>_grad``) included."""
        variables = {name: name for name in (*self.types, "A")}
        found = {t.name: expression(t.dtype)({**attrs._asdict(), **variables}) for t in self.tensors}
        return {**found, **{f"{name}_grad": variable for name, variable in found.items()}}

    def infer_type(self, attrs: tuple, dtypes: dict) -> dict:
        """Every tensor's dtype by name, from those known; a label without one takes the data's.

        Returns a dict of name to dtype string, None where it does not follow.
        """
        bound, variables = {}, self.type_vars(attrs)
        for tensor in self.tensors:
            dtype, variable = dtypes.get(tensor.name), variables[tensor.name]
            if dtype is None or variable == "A":
                continue
            dtype = dtype_name(dtype)
            allowed = self.types[variable]
            if dtype not in allowed:
                raise self.error(f"{tensor.name} has dtype {dtype}; expected {', '.join(allowed)}",
                                 f"Cast it, for instance {tensor.name}.astype('{allowed[min(1, len(allowed) - 1)]}')")
            other, source = bound.setdefault(variable, (dtype, tensor.name))
            if other != dtype:
                raise self.error(f"{tensor.name} has dtype {dtype}; expected {other}, the dtype of {source}",
                                 f"Cast it with {tensor.name}.astype('{other}')")
        if "T" in bound:
            dtype = bound["T"][0]
            bound["A"] = (accumulator(dtype), None)
            if "L" in self.types:
                bound.setdefault("L", (dtype, None))
        return {t.name: bound.get(variables[t.name], (None,))[0] for t in self.tensors}

    def _validate(self, attrs: tuple, shapes: tuple, dtypes: tuple) -> dict[str, tuple]:
        """``validate``: every tensor's shape by name; an OpError unless these inputs are good.

        ``shapes`` and ``dtypes`` are tuples, in the order of the inputs.
        """
        inputs = [arg.name for arg in self.inputs]
        inferred = self.infer_shape(attrs, dict(zip(inputs, shapes)))
        self.infer_type(attrs, dict(zip(inputs, dtypes)))
        return inferred

    # -- names of before ---------------------------------------------------------------------------------------
    def kinds(self, attrs: tuple) -> dict[str, str]:
        """The old name of :meth:`type_vars`."""
        _renamed("kinds", "type_vars")
        return self.type_vars(attrs)

    @property
    def waived(self) -> dict:
        """The old name of ``unsupported``."""
        _renamed("waived", "unsupported")
        return self.unsupported

    @property
    def wide(self) -> bool:
        """The old name of ``accumulate_fp32``."""
        _renamed("wide", "accumulate_fp32")
        return self.accumulate_fp32


def _renamed(old: str, new: str) -> None:
    warnings.warn(f"gluonops: Op.{old} is now Op.{new}", DeprecationWarning, stacklevel=3)
