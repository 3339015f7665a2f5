"""What a contract declares besides shapes and attributes: tensors, their values, numbers, memory, launches, errors."""
from __future__ import annotations

import dataclasses
import math
import types
import typing

from .expressions import expression

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("uint8", "int8", "int32", "int64")
LABELS = FLOATS + INTEGERS


def accumulator(dtype: str) -> str:
    """Return the dtype of sums of a dtype: float32 for float16, otherwise the dtype itself."""
    return "float32" if dtype == "float16" else dtype


def dtype_name(dtype: typing.Any) -> str:
    """Return the name of a dtype, such as ``"float32"``, from a string, a NumPy dtype or a NumPy type."""
    if isinstance(dtype, str):
        return dtype
    return getattr(dtype, "name", None) or dtype.__name__.rstrip("_")


@dataclasses.dataclass(frozen=True)
class Indices:
    """The values of an input are whole numbers from 0 to one less than the size of a dimension."""

    dimension: str              # its name in the shapes
    ignore: str | None = None   # an attribute, whose value, unless it is None, is also allowed
    when: str | None = None     # the condition under which the values are indices; None: always


@dataclasses.dataclass(frozen=True)
class ValidRows:
    """The values of an input are rows along its last axis. A row is valid, or all its numbers are 0.

    ``expected`` and ``remedy`` are the error's text; ``{expression}`` in them stands for a value.
    """

    columns: tuple[str, ...]   # names of the numbers in a row
    axes: tuple[str, ...]      # names of the other axes, for errors, such as ``("image", "box")``
    valid: str                 # the condition for a row, over the columns and the attributes
    expected: str
    remedy: str


@dataclasses.dataclass(frozen=True)
class Refused:
    """A combination of attributes, or of attributes and numbers of dimensions, that is an error.

    ``what`` and ``remedy`` are the error's text; ``{expression}`` in them stands for a value.
    """

    when: str   # the condition, over attributes and ``tensor.ndim``
    what: str
    remedy: str

    @property
    def reads_ndim(self) -> bool:
        return ".ndim" in self.when


@dataclasses.dataclass(frozen=True)
class Becomes:
    """The operator that replaces a loss head at inference, with the inputs and attributes that it takes over."""
    operator: str
    inputs: tuple
    attrs: tuple = ()


@dataclasses.dataclass(frozen=True)
class Arg:
    """An input."""

    name: str
    dtype: str                    # its type variable, or two and a condition: ``"L if sparse else T"``
    gradient: bool | str = True   # whether it has a gradient, or the condition under which it has one
    values: Indices | ValidRows | None = None   # the valid values, which backends/label_checks.py checks
    doc: str = ""   # what it means; the page says its shape and dtype if this is empty

    def has_gradient(self, attrs: tuple) -> bool:
        if isinstance(self.gradient, bool):
            return self.gradient
        return bool(expression(self.gradient)(attrs._asdict()))


@dataclasses.dataclass(frozen=True)
class Out:
    """An output.

    The first one is the result. Another one is hidden, for the backward pass, unless the operator returns several.
    """
    name: str
    dtype: str
    doc: str


@dataclasses.dataclass(frozen=True)
class Number:
    """A derived number whose type is not the usual one, or that is not an expression."""

    dtype: str                      # see :class:`Array`
    expression: str | None = None   # if None, ``derive`` in ``kernel.cc``, or of :class:`Cuda`, computes it
    count: int | None = None        # the length of an array of such numbers, for CUDA


@dataclasses.dataclass(frozen=True)
class Array:
    """Memory in which the kernels work. In C++ it holds zeros at first."""

    name: str
    # A dtype, such as ``"int64"``; "T", the type of the data; "A", the type in which it is computed; or a struct.
    dtype: str
    size: str   # an expression for the number of elements; in CUDA it may have ``splits``, those of a row
    direction: str | None = None   # the only pass that has it; the default is both
    # If True, a CUDA kernel finds zeros at its first launch, and later what the launch before it has left. If False, it
    # may find anything.
    kept: bool = False
    numbers: int = 1   # how many float64 have room for a struct in CUDA


@dataclasses.dataclass(frozen=True)
class Kernels:
    """The kernels of an operator whose family computes all of it: it has neither a ``kernel.cc`` nor a ``kernel.cu``.

    ``forward`` and ``backward`` are calls of the family's functions, the same in C++ and in CUDA. They name the struct
    of the operator, and ``args`` is the record of the arguments: ``activate_forward(args, Swish{args.beta})``.
    """

    file: str       # the family's, without its suffix: ``_activation/activation`` is .h in C++ and .cuh in CUDA
    forward: str
    backward: str
    shared: str | None = None   # a text for both that has the struct, such as ``_region/gaussian.inl``

    @property
    def family(self) -> str:
        """The family's folder."""
        return self.file.split("/")[0]


THREADS = 256   # The threads of a block, unless its launch says otherwise.
WARP = 32       # The threads of a warp.


@dataclasses.dataclass(frozen=True)
class Launch:
    """How a kernel is launched: with ``blocks`` of ``threads`` (x, y), times ``splits`` that share the same work.

    A kernel finds ``blocks`` in ``gridDim.x`` and ``splits`` in ``gridDim.y``. It is launched once, or for each of
    ``steps``, words of :class:`Cuda`.
    """
    blocks: int
    threads: tuple[int, int] = (THREADS, 1)
    splits: int = 1
    steps: tuple[str, ...] = ()

    @classmethod
    def of_elements(cls, count: int) -> Launch:
        """Return the launch in which each thread takes four elements, which are 16 bytes of float32."""
        return cls(math.ceil(count / (4 * THREADS)))

    @classmethod
    def of_rows(cls, count: int, threads: int, splits: int = 1, steps: tuple[str, ...] = ()) -> Launch:
        """Return the launch in which so many threads, a power of two, take each row.

        Rows with fewer than THREADS threads share a block.
        """
        rows = max(1, THREADS // threads)
        return cls(math.ceil(count / rows), (threads, rows), splits, steps)


def threads_along(length: int) -> int:
    """Return the number of threads for a row: about one for 8 elements up to a warp, and up to 512 for a long row."""
    if length <= 512:
        return min(32, 1 << (max(1, math.ceil(length / 8)) - 1).bit_length())
    return 256 if length <= 4096 else 512


@dataclasses.dataclass(frozen=True)
class Cuda:
    """How ``kernel.cu`` is launched, and what its kernels have besides the contract's arguments.

    ``forward(args)`` and ``backward(args)`` return a :class:`Launch`. ``args`` has every number of the record by name,
    and ``dtype``, the data's.
    """

    forward: typing.Callable[[types.SimpleNamespace], Launch]
    backward: typing.Callable[[types.SimpleNamespace], Launch]
    # The words of launches. A kernel compares ``args.step`` with them: ``args.step == args.COMBINE``.
    steps: tuple[str, ...] = ()
    derived: dict[str, str | Number] = dataclasses.field(default_factory=dict)   # see :class:`Op`
    # ``derive(attrs, shapes)`` returns a dict of the derived numbers that are no expressions.
    derive: typing.Callable[[tuple, dict], dict] | None = None
    scratch: tuple[Array, ...] = ()
    # The arguments of ``__launch_bounds__``, over T and what ``kernel.cu`` declares.
    forward_bounds: str = ""
    backward_bounds: str = ""


def elements(count: str) -> typing.Callable[[types.SimpleNamespace], Launch]:
    """Return the launch of a kernel that computes each of ``count`` elements, an expression, by itself."""
    return lambda args: Launch.of_elements(expression(count)(vars(args)))


def rows(count: str, length: str, steps: tuple[str, ...] = ()) -> typing.Callable[[types.SimpleNamespace], Launch]:
    """Return the launch of a kernel whose threads share rows. ``count`` and ``length`` of the rows are expressions."""
    return lambda args: Launch.of_rows(expression(count)(vars(args)), threads_along(expression(length)(vars(args))),
                                       steps=steps)


each_element = elements("size")
