"""``kernel.cu`` -> kernels of ``mx.rtc``: signatures from the contract, compiled once per (op, dtypes, device).

A kernel's arguments are, in this order: the tensors it reads (``const``), the tensors it writes, one ``int`` of
request per written tensor (0 null, 1 write, 2 add), and the contract's scalars (a tuple of numbers is an array in
the device's memory). Its template parameters are the contract's type variables. ``prelude.cuh`` goes in front of every
source; a kernel includes nothing but its family's files (``#include "../_softmax/softmax.cuh"``).

``mx.rtc`` tells NVRTC no architecture, so it gets PTX for NVRTC 11's own default, compute_52, and the driver compiles
that for the GPU at hand: every one from compute capability 5.2 up, those newer than NVRTC included.
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
from .contract import BLOCK, Op, accumulator
from .errors import OpError

Scalar = Union[int, float, tuple]   # of floats
Dim3 = tuple[int, int, int]

PRELUDE = pathlib.Path(__file__).with_name("prelude.cuh")
C_TYPES = {"float16": "__half", "float32": "float", "float64": "double", "uint8": "uint8_t", "int8": "int8_t",
           "int32": "int32_t", "int64": "int64_t"}
REQUESTS = {"null": 0, "write": 1, "inplace": 1, "add": 2}
INCLUDE = re.compile(r'(?m)^#include "([^"\n]+)"$')
MAX_BLOCKS = 65536   # kernels stride over what is left
OPTIONS = tuple(os.environ.get("GLUONOPS_NVRTC_OPTIONS", "").split())   # -lineinfo for compute-sanitizer, say

# CustomOps run in MXNet's threads, and neither the caches here nor MXNet's tables of loaded modules are guarded.
lock = threading.Lock()
_failed = set()   # (op, types, device) that have no kernel


def usable(context: mx.Context) -> bool:
    """Whether tensors on this context are computed by CUDA kernels."""
    return context.device_type == "gpu"


def sources(op: Op) -> dict[str, str]:
    """File -> text of an operator's CUDA source, in order: the prelude, the files that ``kernel.cu`` includes, itself.

    NVRTC has no files to include, so an ``#include "../_family/name.cuh"`` is resolved here: every file comes once, in
    front of those that include it, and its name is its path from ``gluonops/ops``. Its line stays, empty, so that the
    numbers of the lines after it are those of the file.
    """
    from . import registry
    kernel = registry.get(op.name).folder / "kernel.cu"
    files = {PRELUDE.name: PRELUDE.read_text()}
    for header in _headers(kernel):
        files[f"{header.parent.name}/{header.name}"] = _without_includes(header)
    files[kernel.name] = _without_includes(kernel)
    return files


def _headers(path: pathlib.Path) -> list[pathlib.Path]:
    """The files that a CUDA file includes, directly or not, each behind those that it includes itself."""
    found = []
    for name in INCLUDE.findall(path.read_text()):
        header = (path.parent / name).resolve()
        found += [*_headers(header), header]
    return list(dict.fromkeys(found))


def _without_includes(path: pathlib.Path) -> str:
    return INCLUDE.sub("", path.read_text())


def source(op: Op) -> str:
    """The complete CUDA source of an operator; a compiler's messages name the file and its own lines."""
    return "\n".join(f'#line 1 "{name}"\n{text}' for name, text in sources(op).items())


def written(op: Op, direction: str) -> tuple:
    """The tensors that a kernel writes: outputs, or the inputs that can have a gradient."""
    return op.outputs if direction == "forward" else tuple(arg for arg in op.inputs if arg.gradient)


def read(op: Op, direction: str) -> list[str]:
    """Names of the tensors that a kernel reads."""
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
    grad = "_grad" if direction == "backward" else ""
    parts = [f"const {C_TYPES[types[variables[name]]]} *{name}" for name in read(op, direction)]
    parts += [f"{C_TYPES[types[variables[t.name]]]} *{t.name}{grad}" for t in written(op, direction)]
    parts += ["double *partial"] * in_steps(op)
    parts += [f"int {t.name}{grad}_request" for t in written(op, direction)]
    parts += ["int64_t step"] * in_steps(op)
    parts += [_scalar_type(value) + name for name, value in scalars.items()]
    return ", ".join(parts)


def _scalar_type(value: Scalar) -> str:
    return "const double *" if isinstance(value, tuple) else "double " if isinstance(value, float) else "int64_t "


@functools.lru_cache(maxsize=256)
def _table(values: tuple[float, ...], context: mx.Context) -> mx.nd.NDArray:
    """A tuple of numbers in a device's memory."""
    return mx.nd.array(values, context, "float64")


def geometry(rows: int, length: int) -> tuple[Dim3, Dim3]:
    """Grid and block for ``rows`` independent rows of ``length`` elements each; see :class:`.contract.Cuda`.

    Rows of one element: a thread for every four, which are 16 bytes of float32. BLOCK: 256 threads for a row.
    Else ``blockDim.x`` threads share a row and ``blockDim.y`` rows share a block: for short rows a power of two up to a
    warp, about 8 elements each; for long ones a block, of 512 threads at most.
    """
    if length in (1, BLOCK):
        blocks = rows if length == BLOCK else -(-rows // (4 * 256))
        return (max(1, min(blocks, MAX_BLOCKS)), 1, 1), (256, 1, 1)
    if length <= 512:
        eights = -(-length // 8)
        across = min(32, 1 << (eights - 1).bit_length())
    else:
        across = 256 if length <= 4096 else 512
    down = max(1, 256 // across)
    return (max(1, min(-(-rows // down), MAX_BLOCKS)), 1, 1), (across, down, 1)


def plan(op: Op, direction: str, attrs: tuple, shapes: dict[str, tuple]) -> tuple[tuple, int, Dim3, Dim3]:
    """How a kernel is launched: (steps, size of ``partial``, grid, block)."""
    blocks, numbers = op.cuda.steps(direction, attrs, shapes) if in_steps(op) else (1, 0)
    (across, _, _), block = geometry(*getattr(op.cuda, direction)(attrs, shapes))
    return (0, 1) if numbers else (1,), max(1, numbers), (across, min(blocks, MAX_BLOCKS), 1), block


def type_combinations(op: Op) -> list[dict[str, str]]:
    """Every assignment of dtypes to the type variables that the contract allows."""
    combinations = [{}]
    for variable, dtypes in op.types.items():
        combinations = [{**c, variable: dtype} for c in combinations for dtype in dtypes if dtype in C_TYPES]
    return combinations


@contextlib.contextmanager
def same_locale() -> Iterator[None]:
    """NVRTC leaves the thread that compiled in the C locale, where Python no longer opens UTF-8 files: put it back."""
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
    """A module or a kernel of ``mx.rtc``, which is never freed: on purpose.

    The last one to be freed unloads the code. At the interpreter's end the driver may refuse that, and MXNet's
    destructor throws, which ends the process with an abort. The reference taken here is never given back.
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
    """The lines of the source that a compiler's message names, marked, with their numbers and neighbours."""
    shown = []
    for file, text in files.items():
        named = {int(number) for number in re.findall(rf"{re.escape(file)}\((\d+)\)", message)}
        lines = [f"{'>' if i in named else ' '}{i:5d}  {line}" for i, line in enumerate(text.splitlines(), 1)
                 if any(abs(i - number) <= around for number in named)]
        shown += [f"{file}:", *lines] if lines else []
    return "\n".join([*shown, ""])


@functools.cache
def _kernel(op_name: str, direction: str, types: tuple, text: str, device: int) -> mx.rtc.CudaKernel:
    from . import registry
    op = registry.get(op_name).op
    exports = tuple(export_name(op, d, dict(types)) for d in ("forward", "backward"))
    return keep_alive(_module(op_name, exports, device).get_kernel(exports[direction == "backward"], text))


def launch(op: Op, direction: str, attrs: tuple, shapes: dict[str, tuple], tensors: dict[str, mx.nd.NDArray],
           targets: dict[str, tuple[str, mx.nd.NDArray]]) -> bool:
    """Run a kernel; False where it cannot be had, after one warning, so that the caller computes in ``mx.nd``.

    Parameters
    ----------
    op : Op
    direction : {'forward', 'backward'}
    attrs : Attrs
    shapes : dict of str to tuple
        The shapes of the inputs (at least).
    tensors : dict of str to NDArray
        What the kernel reads.
    targets : dict of str to (str, NDArray)
        Request and array for what it writes; for backward under the inputs' names.
    """
    if op.cuda is None:
        return False
    variables = op.type_vars(attrs)
    arrays = {**tensors, **{name: array for name, (request, array) in targets.items() if request != "null"}}
    dtypes = {variables[name]: array.dtype.__name__ for name, array in arrays.items()}
    types = tuple((variable, dtypes.get(variable, dtypes["T"])) for variable in op.types)
    types += (("A", accumulator(dict(types)["T"])),)
    scalars = op.cuda.scalars(attrs, shapes)
    context = next(iter(arrays.values())).context
    outputs = []
    for tensor in written(op, direction):
        request, array = targets.get(tensor.name, ("null", None))
        if request == "null":   # never touched by the kernel, but mx.rtc wants an array of the right type
            array = mx.nd.empty((1,), context, dict(types)[variables[tensor.name]])
        outputs.append((REQUESTS[request], array))
    arrays = [tensors[name] for name in read(op, direction)] + [array for _, array in outputs]
    numbers = [_table(value, context) if isinstance(value, tuple) else value for value in scalars.values()]
    requests = [request for request, _ in outputs]
    steps, left, grid, block = plan(op, direction, attrs, shapes)
    if in_steps(op):
        arrays.append(mx.nd.empty((left,), context, "float64"))
    launches = [arrays + requests + [step] * in_steps(op) + numbers for step in steps]
    text, key = signature(op, direction, dict(types), variables, scalars), (op.name, types, context.device_id)
    with lock:
        if key in _failed:
            return False
        try:   # a kernel is compiled on first use, and loaded at its first launch
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
