"""The declaration of an operator, :class:`Op`, and everything that follows from it alone.

The contract is the only source of an operator's names, types, attributes, shapes and error conditions. From it follow
the CustomOpProp, the CUDA kernels' arguments (:mod:`gluonops.contract.arguments`), the C++ operator
(``gluonops/native/writing``), validation, the support table and the test suite. This module needs neither MXNet nor
NumPy, because a build reads contracts without them.

Each tensor has a type variable (``"T"`` for the data, ``"A"`` for the accumulator of T, ``"L"`` for labels), so that
dtypes are inferred like shapes. Conditions are strings, see :class:`gluonops.contract.expressions.Expression`.
"""
from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import math
import types as _types
import typing
from collections.abc import Iterator, Mapping, Sequence

from .attributes import Attr, Bool, Choice, Float, Int, IntOrTuple, Numbers, Optional, Pairs, without_mxnet
from .declarations import (
    FLOATS,
    INTEGERS,
    LABELS,
    THREADS,
    WARP,
    Arg,
    Array,
    Becomes,
    Cuda,
    Indices,
    Kernels,
    Launch,
    Number,
    Out,
    Refused,
    ValidRows,
    accumulator,
    dtype_name,
    each_element,
    elements,
    rows,
)
from .dims import bare_sizes, solve
from .errors import OpError, quoted
from .expressions import expression, fill_in
from .shapes import Shapes, bare_name

# All words with which contracts are written. The contracts of operators import them from here.
__all__ = ["FLOATS", "INTEGERS", "LABELS", "THREADS", "WARP", "Arg", "Array", "Attr", "Becomes", "Bool", "Choice",
           "Cuda", "Float", "Indices", "Int", "IntOrTuple", "Kernels", "Launch", "Number", "Numbers", "Op", "Optional",
           "Out", "Pairs", "Refused", "Shapes", "ValidRows", "each_element", "elements", "rows"]

ROLES = ("layer", "loss", "loss head")
FAMILIES = ("softmax and sigmoid", "other losses", "boxes and detection", "activations", "normalisation", "moves")
MAX_NDIM = 8
PREFIX = "gluonops_"   # operators' names in graphs begin with it

# Most imperative calls have the arguments of the call before. Contracts live as long as the process.
cached = functools.lru_cache(maxsize=4096)


@dataclasses.dataclass(frozen=True, eq=False)   # compared by identity, so that caches take it as a key
class Op:
    """The contract of one operator."""

    name: str      # names ``gluonops.ops.<name>``, the folder, and ``gluonops_<name>`` in a graph
    summary: str   # one line, for the support table
    family: str    # one of FAMILIES: the table of the operators' index that has it
    inputs: tuple[Arg, ...]
    outputs: tuple[Out, ...]
    # The shape of each tensor; see :mod:`gluonops.contract.shapes`. If there are several, the first one counts whose
    # condition holds.
    shapes: Shapes | tuple[Shapes, ...]
    cuda: Cuda | None
    attrs: tuple[Attr, ...] = ()
    # The tensors that the gradient reads, in the order in which ``reference.backward`` takes them. ``output_grad`` is
    # the head gradient, which an operator without this entry ignores. The default is the head gradient, the inputs, and
    # the outputs behind the first one.
    backward: tuple[str, ...] = ()
    # The dtypes that each type variable may have. The default has T, and L if an input has that type.
    types: dict[str, tuple] = dataclasses.field(default_factory=dict)
    # Combinations of attributes and of numbers of dimensions that are errors.
    refused: tuple[Refused, ...] = ()
    # What the user can do if the size of a dimension is not divisible, by the name of the dimension. The default is to
    # pad the input or to choose another attribute. A declaration in ``shapes`` can have other remedies.
    remedies: dict[str, str] = dataclasses.field(default_factory=dict)
    accumulate_fp32: bool = True   # whether float16 is computed in float32
    # The dimension for which an attribute of the kind :class:`Numbers` has its numbers, by the name of the attribute:
    # one for each index of the dimension, or a single one for all of them.
    counts: dict[str, str] = dataclasses.field(default_factory=dict)
    # The numbers that follow from others, in this order. Each name has an expression over attributes, dimensions,
    # constants, and the derived numbers before it. A kernel gets them under these names, and real numbers in the type
    # in which it computes.
    derived: dict[str, str | Number] = dataclasses.field(default_factory=dict)
    constants: dict[str, int] = dataclasses.field(default_factory=dict)   # the kernels have them, too
    scratch: tuple[Array, ...] = ()   # the kernels' memory
    returned: str = "1"   # an expression: how many of the outputs functions and blocks return, from the first on
    # One of ROLES. A loss is for training only. A loss head outputs predictions, and its gradient is that of a loss.
    role: str = "layer"
    inference: Becomes | None = None   # what a loss head becomes in a graph that is exported for inference
    kernels: Kernels | None = None     # None if the operator's folder has them, or if there are none
    unsupported: dict[str, str] = dataclasses.field(default_factory=dict)   # why the folder lacks a file, by its name
    # The dtypes of the data that have C++ kernels for AVX-512. Others use those for AVX2: see ``native/build.py``.
    avx512: tuple[str, ...] = ("float32",)

    def __post_init__(self) -> None:
        for field, allowed in (("role", ROLES), ("family", FAMILIES)):
            if getattr(self, field) not in allowed:
                raise ValueError(f"{self.name}: {field} is {getattr(self, field)!r}; expected one of {allowed}")
        if not self.types:
            has_labels = any("L" in arg.dtype.split() for arg in self.inputs)
            object.__setattr__(self, "types", {"T": FLOATS, **({"L": LABELS} if has_labels else {})})
        if not self.backward:
            kept = [tensor.name for tensor in (*self.inputs, *self.outputs[1:])]
            object.__setattr__(self, "backward", (f"{self.outputs[0].name}_grad", *kept))
        names = [attr.name for attr in self.attrs]
        declared = self.shapes if isinstance(self.shapes, tuple) else (self.shapes,)
        object.__setattr__(self, "Attrs", collections.namedtuple("Attrs", names))
        object.__setattr__(self, "takes_tuples", any(attr.kind.takes_tuples for attr in self.attrs))
        object.__setattr__(self, "restricts_values", any(arg.values for arg in self.inputs))
        object.__setattr__(self, "rules", tuple(shapes.bind(names) for shapes in declared))

    @property
    def graph_name(self) -> str:
        return f"{PREFIX}{self.name}"

    @property
    def tensors(self) -> tuple:
        return self.inputs + self.outputs

    @functools.cached_property
    def offered_to_backward(self) -> list[str]:
        """The names of what MXNet offers to the gradient, in its order: head gradients, inputs and outputs."""
        return [*(f"{out.name}_grad" for out in self.outputs), *(tensor.name for tensor in self.tensors)]

    @property
    def reads_head_gradient(self) -> bool:
        return any(name.endswith("_grad") for name in self.backward)

    def error(self, what: str, remedy: str) -> OpError:
        return OpError(self.name, what, remedy)

    def number_returned(self, attrs: tuple) -> int:
        """Return how many of the outputs functions and blocks return, from the first on."""
        return expression(self.returned)(attrs._asdict())

    # -- attributes ------------------------------------------------------------------------------------------
    def parse(self, values: dict) -> tuple:
        """Return typed attributes from Python values or from the strings in a graph."""
        if self.takes_tuples:
            values = without_mxnet(values)
        names = {attr.name for attr in self.attrs}
        for name in values:
            is_mark = name.startswith("__") and name.endswith("__")
            if name not in names and not is_mark:
                expected = f"expected {', '.join(sorted(names))}" if names else "this operator takes none"
                raise self.error(f"{quoted(name)} is not an attribute; {expected}", "Check the spelling")
        attrs = self.Attrs(*(attr.parse(self.name, values.get(attr.name, attr.default)) for attr in self.attrs))
        self._refuse(attrs._asdict(), reads_ndim=False)
        return attrs

    def _refuse(self, values: dict, reads_ndim: bool) -> None:
        for refused in self.refused:
            if refused.reads_ndim == reads_ndim and expression(refused.when)(values):
                raise self.error(fill_in(refused.what, values), fill_in(refused.remedy, values))

    @cached
    def strings(self, attrs: tuple) -> _types.MappingProxyType[str, str]:
        """Return the attributes as the strings that a graph stores, which :meth:`parse` reads back."""
        return _types.MappingProxyType({name: str(value) for name, value in attrs._asdict().items()})

    # -- shapes ----------------------------------------------------------------------------------------------
    def keeps_shape(self, attrs: tuple) -> bool:
        """Return whether the first output has the shape of the first input, for any number of dimensions."""
        first, output = self.inputs[0].name, self.outputs[0].name
        kept = [[str(dim) for dim in patterns[first]] == [str(dim) for dim in patterns[output]]
                for _, patterns in self._possible(attrs, {})]
        return bool(kept) and all(kept)

    def infer_shape(self, attrs: tuple, shapes: dict[str, tuple]) -> dict[str, tuple]:
        """Return every tensor's shape as far as it follows from the known ones. A size in them may be UNKNOWN.

        If the number of dimensions does not follow, only the known shapes are returned.
        """
        known_shapes = self._shapes_of_tensors(shapes)
        expanded = self._patterns(attrs, known_shapes)
        if expanded is None:
            return known_shapes
        patterns, whole, remedies = expanded
        solved = solve(self.name, patterns, known_shapes, whole, remedies)
        if self.counts:
            self._check_counts(attrs, bare_sizes(self.name, patterns, known_shapes))
        return solved

    def _check_counts(self, attrs: tuple, sizes: dict[str, tuple]) -> None:
        """Raise an OpError if an attribute has neither a number for each index of its dimension nor a single one."""
        for name, dimension in self.counts.items():
            numbers = getattr(attrs, name)
            if numbers is None or dimension not in sizes:
                continue
            size, _ = sizes[dimension]
            if len(numbers) not in (1, size):
                raise self.error(f"{name} has {len(numbers)} numbers; expected {size}, one for each of the {dimension}",
                                 f"Pass another {name}")

    @functools.cached_property
    def dims(self) -> list[str]:
        """The names of dimensions and groups whose sizes every declaration of the shapes shows in an input."""
        names_by_rule = [[bare_name(term) for arg in self.inputs for term in rule.patterns[arg.name]]
                         for rule in self.rules]
        first = dict.fromkeys(name for name in names_by_rule[0] if name)
        return [name for name in first if all(name in names for names in names_by_rule)]

    def dim_sizes(self, attrs: tuple, shapes: dict[str, tuple]) -> dict[str, int]:
        """Return the size of each of ``dims``. That of a group is the product of its sizes.

        ``shapes`` has the shape of every input.
        """
        ndims = {arg.name: len(shapes[arg.name]) for arg in self.inputs}
        groups = self.rule(attrs, ndims).groups(self.name, attrs._asdict(), ndims[self.inputs[0].name])
        sizes = self.sizes(attrs, {arg.name: shapes[arg.name] for arg in self.inputs})
        sizes.update({name: math.prod(sizes[dim.name] for dim in dims) for name, dims in groups.items()})
        return {name: sizes[name] for name in self.dims}

    def sizes(self, attrs: tuple, shapes: dict[str, tuple]) -> dict[str, int]:
        """Return the size of every named dimension that follows from the known shapes."""
        known_shapes = self._shapes_of_tensors(shapes)
        patterns, _, _ = self._patterns(attrs, known_shapes)
        return {name: size for name, (size, _) in bare_sizes(self.name, patterns, known_shapes).items()}

    def _shapes_of_tensors(self, shapes: dict[str, tuple | None]) -> dict[str, tuple]:
        names = [tensor.name for tensor in self.tensors]
        return {name: tuple(shapes[name]) for name in names if shapes.get(name) is not None}

    def index_sizes(self, attrs: tuple, shapes: dict[str, tuple]) -> dict[str, int]:
        """Return for each input that holds indices with these attributes the size that they are below."""
        holding = [arg for arg in self.inputs if isinstance(arg.values, Indices)
                   and (arg.values.when is None or expression(arg.values.when)(attrs._asdict()))]
        sizes = self.sizes(attrs, shapes) if holding else {}
        return {arg.name: sizes[arg.values.dimension] for arg in holding}

    def _patterns(self, attrs: tuple, known_shapes: dict[str, tuple]) -> tuple[dict, tuple, dict] | None:
        """Return what :meth:`expand` does for the known shapes, or None if the number of dimensions does not follow."""
        first = self.inputs[0].name
        ndims = {name: len(shape) for name, shape in known_shapes.items()}
        if known_shapes and first not in known_shapes:
            fitting = [ndim for ndim, patterns in self._possible(attrs, ndims)
                       if all(len(patterns[name]) == len(shape) for name, shape in known_shapes.items())]
            if len(fitting) == 1:
                ndims[first] = fitting[0]
        return self.expand(attrs, ndims) if first in ndims else None

    def _possible(self, attrs: tuple, ndims: dict[str, int]) -> Iterator[tuple[int, dict]]:
        """Yield each number of dimensions that the first input may have, with the patterns of every tensor for it."""
        first = self.inputs[0].name
        for ndim in range(1, MAX_NDIM + 1):
            with contextlib.suppress(OpError):
                patterns, _, _ = self.expand(attrs, {**ndims, first: ndim})
                if len(patterns[first]) == ndim:
                    yield ndim, patterns

    def expand(self, attrs: tuple, ndims: Mapping[str, int]) -> tuple[dict, tuple, dict]:
        """Return ``patterns``, ``whole`` and ``remedies`` for :func:`.dims.solve`.

        ``ndims`` has the numbers of dimensions of the tensors, that of the first input among them.
        """
        rule = self.rule(attrs, ndims)
        patterns, whole = rule.expand(self.name, attrs._asdict(), ndims[self.inputs[0].name])
        self._refuse(self._values(attrs, ndims), reads_ndim=True)
        return patterns, whole, {**self.remedies, **rule.remedies}

    def rule(self, attrs: tuple, ndims: Mapping[str, int]) -> Shapes:
        """Return the declaration of the shapes that holds for these attributes and known numbers of dimensions."""
        values = self._values(attrs, ndims)
        return next(rule for rule in self.rules if rule.when is None or rule.when(values))

    def _values(self, attrs: tuple, ndims: Mapping[str, int]) -> dict[str, typing.Any]:
        """Return what the names in a condition stand for. A number of dimensions that is not known is None."""
        tensors = {arg.name: _types.SimpleNamespace(ndim=ndims.get(arg.name)) for arg in self.inputs}
        return {**attrs._asdict(), **tensors}

    # -- dtypes ----------------------------------------------------------------------------------------------
    def type_vars(self, attrs: tuple) -> dict[str, str]:
        """Return the type variable of every tensor by name, gradients (``<name>_grad``) included."""
        values = attrs._asdict()
        values.update((variable, variable) for variable in (*self.types, "A"))
        type_vars = {tensor.name: expression(tensor.dtype)(values) for tensor in self.tensors}
        type_vars.update([(f"{name}_grad", variable) for name, variable in type_vars.items()])
        return type_vars

    def infer_type(self, attrs: tuple, dtypes: dict) -> dict:
        """Return the dtype of every tensor, or None if it does not follow from the known ones.

        A label of unknown dtype has the dtype of the data.
        """
        bound = {}   # the dtype of each type variable, and the tensor that has it
        variables = self.type_vars(attrs)
        for tensor in self.tensors:
            dtype, variable = dtypes.get(tensor.name), variables[tensor.name]
            if dtype is None or variable == "A":
                continue
            dtype = dtype_name(dtype)
            allowed = self.types[variable]
            if dtype not in allowed:
                example = allowed[min(1, len(allowed) - 1)]
                raise self.error(f"{tensor.name} has dtype {dtype}; expected {', '.join(allowed)}",
                                 f"Cast it, for instance {tensor.name}.astype('{example}')")
            other, source = bound.setdefault(variable, (dtype, tensor.name))
            if other != dtype:
                raise self.error(f"{tensor.name} has dtype {dtype}; expected {other}, the dtype of {source}",
                                 f"Cast it with {tensor.name}.astype('{other}')")
        if "T" in bound:
            dtype = bound["T"][0]
            bound["A"] = (accumulator(dtype), None)
            if "L" in self.types:
                bound.setdefault("L", (dtype, None))
        dtypes_of = {variable: dtype for variable, (dtype, _) in bound.items()}
        return {tensor.name: dtypes_of.get(variables[tensor.name]) for tensor in self.tensors}

    @cached
    def shapes_of(self, attrs: tuple, input_shapes: tuple) -> dict[str, tuple]:
        """Call :meth:`infer_shape` with the shapes of the inputs in their order, of which unknown ones are None."""
        return self.infer_shape(attrs, {arg.name: shape for arg, shape in zip(self.inputs, input_shapes)})

    @cached
    def dtypes_of(self, attrs: tuple, input_dtypes: tuple) -> dict[str, str | None]:
        """Call :meth:`infer_type` with the dtypes of the inputs in their order, of which unknown ones are None."""
        return self.infer_type(attrs, {arg.name: dtype for arg, dtype in zip(self.inputs, input_dtypes)})

    def validate(self, attrs: tuple, arrays: Sequence[typing.Any]) -> dict[str, tuple]:
        """Return the shape of every tensor. Raise an OpError if the inputs, arrays in order, are not valid."""
        inferred = self.shapes_of(attrs, tuple(array.shape for array in arrays))
        self.dtypes_of(attrs, tuple(array.dtype for array in arrays))
        return inferred
