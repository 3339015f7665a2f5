"""Compiles ``kernel.cu`` with ``mx.rtc``, once per operator, dtypes and device, and launches the kernels.

The arguments of a kernel follow from the contract, in this order: the tensors that it reads (``const``), the tensors
that it writes, an ``int`` with the request of each written tensor (0 null, 1 write, 2 add), and the contract's scalars.
A tuple of numbers becomes an array in device memory. The template parameters are the contract's type variables.
``prelude.cuh`` is put in front of each source. A kernel includes only files of its family
(``#include "../_softmax/softmax.cuh"``).

``mx.rtc`` gives NVRTC no architecture. So NVRTC 11 makes PTX for its default, compute_52, which the driver compiles for
any GPU from compute capability 5.2 on, also for GPUs newer than NVRTC.
"""
from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import pathlib
import re
import threading
import warnings
from collections.abc import Iterator
from typing import Union

import mxnet as mx

from .. import _driver
from .contract import BLOCK, Op, Steps, accumulator
from .errors import OpError

Scalar = Union[int, float, tuple]   # of floats
Dim3 = tuple[int, int, int]

PRELUDE = pathlib.Path(__file__).with_name("prelude.cuh")
C_TYPES = {"float16": "__half", "float32": "float", "float64": "double", "uint8": "uint8_t", "int8": "int8_t",
           "int32": "int32_t", "int64": "int64_t"}
REQUESTS = {"null": 0, "write": 1, "inplace": 1, "add": 2}
INCLUDE = re.compile(r'(?m)^#include "([^"\n]+)"$')
MAX_BLOCKS = 65536   # kernels have grid-stride loops
OPTIONS = tuple(os.environ.get("GLUONOPS_NVRTC_OPTIONS", "").split())   # -lineinfo for compute-sanitizer, say

# CustomOps run in threads of MXNet's. Neither the caches here nor MXNet's tables of modules are thread-safe.
lock = threading.Lock()
_failed = set()   # (op, types, device) whose kernels cannot be compiled or launched


def usable(context: mx.Context) -> bool:
    """Whether CUDA kernels compute on this context."""
    return context.device_type == "gpu"


def sources(op: Op) -> dict[str, str]:
    """The CUDA source of an operator as file -> text: the prelude, the included files, and ``kernel.cu``.

    NVRTC cannot include files, so each ``#include "../_family/name.cuh"`` is resolved here. A file comes once, in front
    of the files that include it. Its name is its path from ``gluonops/ops``. The line of an include stays as an empty
    line, so that line numbers do not change.
    """
    from . import registry
    kernel = registry.get(op.name).folder / "kernel.cu"
    files = {PRELUDE.name: PRELUDE.read_text()}
    for header in _headers(kernel):
        files[f"{header.parent.name}/{header.name}"] = _without_includes(header)
    files[kernel.name] = _without_includes(kernel)
    return files


def _headers(path: pathlib.Path) -> list[pathlib.Path]:
    """The files that a CUDA file includes, directly or not. Each comes after the files that it includes."""
    found = []
    for name in INCLUDE.findall(path.read_text()):
        header = (path.parent / name).resolve()
        found += [*_headers(header), header]
    return list(dict.fromkeys(found))


def _without_includes(path: pathlib.Path) -> str:
    return INCLUDE.sub("", path.read_text())


def source(op: Op) -> str:
    """The complete CUDA source of an operator. The compiler's messages have the original files and lines."""
    return "\n".join(f'#line 1 "{name}"\n{text}' for name, text in sources(op).items())


def written(op: Op, direction: str) -> tuple:
    """The tensors that a kernel writes: the outputs, or in backward the inputs that can have a gradient."""
    return op.outputs if direction == "forward" else tuple(arg for arg in op.inputs if arg.gradient)


def read(op: Op, direction: str) -> list[str]:
    """The names of the tensors that a kernel reads."""
    return [arg.name for arg in op.inputs] if direction == "forward" else list(op.backward)


def in_steps(op: Op) -> bool:
    """Whether an operator's kernels have steps; see :class:`.contract.Cuda`."""
    return op.cuda.steps is not None


def export_name(op: Op, direction: str, types: dict[str, str]) -> str:
    """The template instance, as CUDA spells it: ``reorg_forward<float>``."""
    return f"{op.name}_{direction}<{', '.join(C_TYPES[types[variable]] for variable in op.types)}>"


def signature(op: Op, direction: str, types: dict[str, str], variables: dict[str, str],
              scalars: dict[str, Scalar]) -> str:
    """The argument list of a kernel, as ``mx.rtc`` and ``kernel.cu`` spell it.

    Parameters
    ----------
    types : dict of str to str
        Type variable -> dtype, ``"A"`` included.
    variables : dict of str to str
        Tensor -> type variable; see ``Op.type_vars``.
    scalars : dict of str to int, float or tuple of float
    """
    def c_type(tensor: str) -> str:
        return C_TYPES[types[variables[tensor]]]

    grad = "_grad" if direction == "backward" else ""
    targets = [tensor.name for tensor in written(op, direction)]
    parts = [f"const {c_type(name)} *{name}" for name in read(op, direction)]
    parts += [f"{c_type(name)} *{name}{grad}" for name in targets]
    if in_steps(op):
        parts.append("double *partial")
    parts += [f"int {name}{grad}_request" for name in targets]
    if in_steps(op):
        parts.append("int64_t step")
    parts += [_scalar_type(value) + name for name, value in scalars.items()]
    return ", ".join(parts)


def _scalar_type(value: Scalar) -> str:
    if isinstance(value, tuple):
        return "const double *"
    return "double " if isinstance(value, float) else "int64_t "


@functools.lru_cache(maxsize=256)
def _table(values: tuple[float, ...], context: mx.Context) -> mx.nd.NDArray:
    """A tuple of numbers in device memory."""
    return mx.nd.array(values, context, "float64")


def geometry(rows: int, length: int) -> tuple[Dim3, Dim3]:
    """Grid and block for ``rows`` independent rows of ``length`` elements each; see :class:`.contract.Cuda`.

    Rows of one element: a thread computes four, which are 16 bytes of float32. BLOCK: 256 threads compute a row.
    Otherwise ``blockDim.x`` threads share a row and ``blockDim.y`` rows share a block. A short row has a power of two
    of threads, up to a warp, with about 8 elements each. A long row has up to 512 threads.
    """
    if length == BLOCK:
        return (_limited(rows), 1, 1), (256, 1, 1)
    if length == 1:
        return (_limited(_divided(rows, 4 * 256)), 1, 1), (256, 1, 1)
    if length <= 512:
        threads = min(32, 1 << (_divided(length, 8) - 1).bit_length())
    else:
        threads = 256 if length <= 4096 else 512
    rows_per_block = max(1, 256 // threads)
    return (_limited(_divided(rows, rows_per_block)), 1, 1), (threads, rows_per_block, 1)


def _divided(count: int, by: int) -> int:
    """The quotient, rounded up."""
    return -(-count // by)


def _limited(blocks: int) -> int:
    """A number of blocks from 1 to MAX_BLOCKS."""
    return max(1, min(blocks, MAX_BLOCKS))


def plan(op: Op, direction: str, attrs: tuple, shapes: dict[str, tuple]) -> tuple[tuple, int, Dim3, Dim3]:
    """How a kernel is launched: (steps, size of ``partial``, grid, block)."""
    planned = op.cuda.steps(direction, attrs, shapes) if in_steps(op) else Steps()
    if not isinstance(planned, Steps):
        planned = Steps(*planned, (0, 1) if planned[1] else (1,))
    rows, length = getattr(op.cuda, direction)(attrs, shapes)
    (blocks, _, _), block = geometry(rows, length)
    return tuple(planned.steps), max(1, planned.partial), (blocks, min(planned.blocks, MAX_BLOCKS), 1), block


def type_combinations(op: Op) -> list[dict[str, str]]:
    """Every assignment of dtypes to the type variables that the contract allows."""
    combinations = [{}]
    for variable, dtypes in op.types.items():
        supported = [dtype for dtype in dtypes if dtype in C_TYPES]
        combinations = [{**types, variable: dtype} for types in combinations for dtype in supported]
    return combinations


@contextlib.contextmanager
def same_locale() -> Iterator[None]:
    """Restore the thread's locale: NVRTC leaves it at C, in which Python does not open UTF-8 files."""
    try:
        uselocale = ctypes.CDLL(None).uselocale
    except (AttributeError, OSError, TypeError):   # a C library without POSIX locales
        yield
        return
    uselocale.argtypes, uselocale.restype = [ctypes.c_void_p], ctypes.c_void_p
    before = uselocale(None)
    try:
        yield
    finally:
        uselocale(before)


def keep_alive(loaded: object) -> object:
    """Keep a module or a kernel of ``mx.rtc`` until the process ends, by a reference that is never released.

    When the last reference is released, the code is unloaded. At the end of the interpreter the driver may refuse that.
    Then MXNet's destructor throws, which aborts the process.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(loaded))
    return loaded


@functools.cache
def _module(op_name: str, exports: tuple[str, ...], device: int) -> mx.rtc.CudaModule:
    from . import registry
    op = registry.get(op_name).op
    try:
        with same_locale():
            return keep_alive(mx.rtc.CudaModule(source(op), options=OPTIONS, exports=exports))
    except mx.MXNetError as error:
        raise OpError(op_name, f"the CUDA kernels {', '.join(exports)} do not compile with "
                               f"{' '.join(OPTIONS) or 'no options'}:\n{error}\n{excerpts(sources(op), str(error))}",
                      "Report it with this text") from error


def excerpts(files: dict[str, str], message: str, around: int = 2) -> str:
    """The lines of the source that a compiler's message names, with their numbers and the lines around them."""
    shown = []
    for file, text in files.items():
        named = {int(number) for number in re.findall(rf"{re.escape(file)}\((\d+)\)", message)}
        lines = []
        for number, line in enumerate(text.splitlines(), 1):
            is_near = any(abs(number - other) <= around for other in named)
            if is_near:
                mark = ">" if number in named else " "
                lines.append(f"{mark}{number:5d}  {line}")
        if lines:
            shown += [f"{file}:", *lines]
    return "\n".join([*shown, ""])


@functools.cache
def _kernel(op_name: str, direction: str, types: tuple, text: str, device: int) -> mx.rtc.CudaKernel:
    from . import registry
    op = registry.get(op_name).op
    exports = tuple(export_name(op, d, dict(types)) for d in ("forward", "backward"))
    return keep_alive(_module(op_name, exports, device).get_kernel(exports[direction == "backward"], text))


def launch(op: Op, direction: str, attrs: tuple, shapes: dict[str, tuple], tensors: dict[str, mx.nd.NDArray],
           targets: dict[str, tuple[str, mx.nd.NDArray]]) -> bool:
    """Run a kernel.

    Parameters
    ----------
    op : Op
    direction : {'forward', 'backward'}
    attrs : Attrs
    shapes : dict of str to tuple of int
        The shapes of the inputs, at least.
    tensors : dict of str to NDArray
        The tensors that the kernel reads.
    targets : dict of str to (str, NDArray)
        Request and array of the tensors that it writes. In backward they have the inputs' names.

    Returns
    -------
    bool
        False if there is no kernel, or if it does not compile or start. Then the caller computes with ``mx.nd``. The
        first time a RuntimeWarning says why.
    """
    if op.cuda is None:
        return False
    variables = op.type_vars(attrs)
    types = _bind_types(op, variables, tensors, targets)
    context = _context_of(tensors, targets)
    scalars = op.cuda.scalars(attrs, shapes)
    text = signature(op, direction, dict(types), variables, scalars)
    steps, partial_size, grid, block = plan(op, direction, attrs, shapes)

    arrays = [tensors[name] for name in read(op, direction)]
    requests = []
    for tensor in written(op, direction):
        request, array = targets.get(tensor.name, ("null", None))
        if request == "null":   # the kernel does not touch it, but mx.rtc needs an array of the right type
            array = mx.nd.empty((1,), context, dict(types)[variables[tensor.name]])
        arrays.append(array)
        requests.append(REQUESTS[request])
    if in_steps(op):
        arrays.append(mx.nd.empty((partial_size,), context, "float64"))
    numbers = [_table(value, context) if isinstance(value, tuple) else value for value in scalars.values()]
    launches = []
    for step in steps:
        step_argument = [step] if in_steps(op) else []
        launches.append(arrays + requests + step_argument + numbers)

    key = (op.name, types, context.device_id)
    with lock:
        if key in _failed:
            return False
        try:   # a kernel is compiled at its first use, and loaded at its first launch
            _driver.make_current(context.device_id)
            kernel = _kernel(op.name, direction, types, text, context.device_id)
            for arguments in launches:
                kernel.launch(arguments, context, grid, block)
            return True
        except (OpError, mx.MXNetError) as error:
            _failed.add(key)
            reason = error
    of = ", ".join(dtype for variable, dtype in types if variable != "A")
    warnings.warn(f"gluonops.{op.name}: no CUDA kernel for {of} on {context}, computing with mx.nd instead: {reason}",
                  RuntimeWarning, stacklevel=2)
    return False


def _bind_types(op: Op, variables: dict[str, str], tensors: dict, targets: dict) -> tuple[tuple[str, str], ...]:
    """(type variable, dtype) of each type variable, ``"A"`` included."""
    arrays = dict(tensors)
    arrays.update((name, array) for name, (request, array) in targets.items() if request != "null")
    dtypes = {variables[name]: array.dtype.__name__ for name, array in arrays.items()}
    types = [(variable, dtypes.get(variable, dtypes["T"])) for variable in op.types]
    types.append(("A", accumulator(dict(types)["T"])))
    return tuple(types)


def _context_of(tensors: dict, targets: dict) -> mx.Context:
    arrays = [*tensors.values(), *(array for request, array in targets.values() if request != "null")]
    return arrays[0].context

