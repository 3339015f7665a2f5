"""Compiles ``kernel.cu`` with ``mx.rtc``, once per operator and dtypes, and launches the kernels.

The arguments of a kernel follow from the contract; see :mod:`.record`. A tuple of numbers becomes an array in device
memory. The template parameters are the contract's type variables. :mod:`.cuda_source` has the source.

``mx.rtc`` gives NVRTC no architecture. So NVRTC 11 makes PTX for its default, compute_52, which the driver compiles for
any GPU from compute capability 5.2 on, also for GPUs newer than NVRTC. One module serves all GPUs: MXNet passes its PTX
to the driver when a kernel first runs on a GPU.

What a launch needs besides its arrays is prepared once, and belongs to a :class:`BoundOp`.
"""
from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import itertools
import os
import threading
import time
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import mxnet as mx
import numpy as np

from ..contract import registry
from ..contract.declarations import Launch, accumulator
from ..contract.errors import OpError
from ..contract.op import Op
from ..runtime import driver
from . import cuda_source, record
from .record import C_TYPES, written

Dim3 = tuple[int, int, int]

REQUESTS = {"null": 0, "write": 1, "inplace": 1, "add": 2}
MAX_BLOCKS = 65536   # kernels have grid-stride loops
SMALL = 1 << 17   # float64 of scratch memory, 1 MiB, that a pass keeps to save an allocation for each launch
# With -default-device lambdas are code of the GPU, too. The environment variable adds options, such as -lineinfo for
# compute-sanitizer.
OPTIONS = ("--std=c++14", "-default-device", *os.environ.get("GLUONOPS_NVRTC_OPTIONS", "").split())

# CustomOps run in threads of MXNet. Neither the caches here nor MXNet's tables of modules are thread-safe.
lock = threading.Lock()
_failed = {}   # the failures of kernels by operator, dtypes of the inputs, and context

SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 64.0   # seconds until a kernel that could not be launched is tried again
DTYPE_NAMES = {number: np.dtype(dtype).name for number, dtype in mx.ndarray.ndarray._DTYPE_MX_TO_NP.items()
               if dtype is not None}


class Layout(NamedTuple):
    """Where the kernels of a node find their tensors, and which shapes they do not take.

    - ``read``: the indices of what backward reads, among the head gradients, inputs and outputs.
    - ``written``: the indices of the inputs whose gradients the kernel can write.
    - ``gradients``: the indices of the inputs that have a gradient with these attributes.
    """
    read: tuple[int, ...]
    written: tuple[int, ...]
    gradients: tuple[int, ...]
    has_empty: bool
    may_have_scalars: bool


class BoundOp:
    """An operator with its attributes, a device, and the shapes and dtypes of its inputs.

    It owns what its launches need besides the arrays. The shape of a scalar is (1,) here.
    """

    def __init__(self, op: Op, attrs: tuple, context: mx.Context, shapes: tuple[tuple[int, ...], ...],
                 dtypes: tuple[str, ...]):
        self.op, self.attrs, self.context, self.shapes, self.dtypes = op, attrs, context, shapes, dtypes
        self._passes = {}   # by direction and requests

    @staticmethod
    def created(op: Op, attrs: tuple, context: mx.Context, shapes: list[list[int]], dtypes: list[int]) -> BoundOp:
        """Return the bound operator for what MXNet passes to ``create_operator``."""
        return _bound_op(op, attrs, context, tuple(tuple(shape) or (1,) for shape in shapes),
                         tuple(DTYPE_NAMES[number] for number in dtypes))

    @staticmethod
    def of(op: Op, attrs: tuple, arrays: list[mx.nd.NDArray]) -> BoundOp:
        """Return the bound operator for these inputs."""
        return _bound_op(op, attrs, arrays[0].context, tuple(array.shape or (1,) for array in arrays),
                         tuple(array.dtype.__name__ for array in arrays))

    @functools.cached_property
    def layout(self) -> Layout:
        op = self.op
        inferred = op.shapes_of(self.attrs, self.shapes).values()
        return Layout(
            read=tuple(map(op.offered_to_backward.index, op.backward)),
            written=tuple(index for index, arg in enumerate(op.inputs) if arg.gradient),
            gradients=tuple(index for index, arg in enumerate(op.inputs) if arg.has_gradient(self.attrs)),
            has_empty=any(0 in shape for shape in inferred),
            may_have_scalars=any(shape in ((), (1,)) for shape in inferred))

    def prepared(self, direction: str, requests: tuple[str, ...]) -> Pass:
        """Return the pass of a direction. The caller holds ``lock``."""
        if (direction, requests) not in self._passes:
            self._passes[direction, requests] = Pass(self, direction, requests)
        return self._passes[direction, requests]

    def types(self) -> tuple[tuple[str, str], ...]:
        """Return each type variable with its dtype, ``"A"`` included."""
        variables = self.op.type_vars(self.attrs)
        bound = {variables[arg.name]: dtype for arg, dtype in zip(self.op.inputs, self.dtypes)}
        types = [(variable, bound.get(variable, bound["T"])) for variable in self.op.types]
        return *types, ("A", accumulator(dict(types)["T"]))


_bound_op = functools.lru_cache(maxsize=512)(BoundOp)   # a bound operator may keep memory of the GPU


def operators() -> list[str]:
    """Return the names of the operators that have CUDA kernels."""
    return [name for name, registered in registry.entries().items() if registered.op.cuda is not None]


def usable(context: mx.Context) -> bool:
    """Return whether CUDA kernels compute on this context."""
    return context.device_type == "gpu"


def export_name(op: Op, direction: str, types: dict[str, str]) -> str:
    """Return the name of a template's instance as CUDA spells it, such as ``reorg_forward<float>``."""
    return f"{op.name}_{direction}<{', '.join(C_TYPES[types[variable]] for variable in op.types)}>"


def geometry(launch: Launch) -> tuple[Dim3, Dim3]:
    """Return the grid and the block of a launch. Kernels have loops over what the grid does not reach."""
    return (max(1, min(launch.blocks, MAX_BLOCKS)), min(launch.splits, MAX_BLOCKS), 1), (*launch.threads, 1)


def type_combinations(op: Op) -> list[dict[str, str]]:
    """Return every assignment of dtypes to the type variables that the contract allows."""
    return [dict(zip(op.types, dtypes)) for dtypes in itertools.product(*op.types.values())]


@contextlib.contextmanager
def same_locale() -> Iterator[None]:
    """Restore the thread's locale, which NVRTC leaves at C. Python does not open UTF-8 files in that one."""
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


def compiled(where: str, files: dict[str, str], exports: tuple[str, ...], fault: str, remedy: str) -> mx.rtc.CudaModule:
    """Return the module of a source, of which ``files`` has the text of each file in order.

    Raise an OpError with the compiler's messages and the lines that they name.
    """
    try:
        with same_locale():
            return mx.rtc.CudaModule(cuda_source.joined(files), options=OPTIONS, exports=exports)
    except mx.MXNetError as error:
        raise OpError(where, f"{fault}:\n{error}\n{cuda_source.excerpts(files, str(error))}", remedy) from error


@functools.cache
def _module(op_name: str, exports: tuple[str, ...]) -> mx.rtc.CudaModule:
    fault = f"the CUDA kernels {', '.join(exports)} do not compile with {' '.join(OPTIONS)}"
    files = cuda_source.sources(registry.get(op_name).op)
    return keep_alive(compiled(op_name, files, exports, fault, "Report it with this text"))


@functools.cache
def _kernel(op_name: str, direction: str, types: tuple, text: str) -> mx.rtc.CudaKernel:
    op = registry.get(op_name).op
    exports = tuple(export_name(op, d, dict(types)) for d in ("forward", "backward"))
    return keep_alive(_module(op_name, exports).get_kernel(exports[direction == "backward"], text))


class Start:
    """A kernel with its grid, its block, and the arguments behind the tensors. A call with the tensors launches it.

    ``CudaKernel.launch`` does the same, but converts each number at each launch.
    """

    def __init__(self, kernel: mx.rtc.CudaKernel, context: mx.Context, grid: Dim3, block: Dim3, numbers: list):
        first = len(kernel._dtypes) - len(numbers)
        self._kept = [value if is_array else np.array(value, dtype) for value, is_array, dtype in zip(
            numbers, kernel._is_ndarray[first:], kernel._dtypes[first:])]
        self._behind = [value.handle.value if isinstance(value, mx.nd.NDArray) else value.ctypes.data
                        for value in self._kept]
        self._pointers = ctypes.c_void_p * len(kernel._dtypes)
        self._kernel, self._device = kernel, context.device_id
        self._sizes = [mx.base.mx_uint(number) for number in (*grid, *block, 0)]   # no dynamic shared memory

    def __call__(self, arrays: list[mx.nd.NDArray]) -> None:
        pointers = self._pointers(*[array.handle.value for array in arrays], *self._behind)
        mx.base.check_call(mx.base._LIB.MXRtcCudaKernelCall(
            self._kernel.handle, self._device, pointers, *self._sizes))


class Pass:
    """The launches of one direction of a bound operator, with everything that they need except the tensors.

    ``requests`` has the request of each tensor in :func:`.record.written`.
    """

    def __init__(self, bound_op: BoundOp, direction: str, requests: tuple[str, ...]):
        op, attrs, context, types = bound_op.op, bound_op.attrs, bound_op.context, bound_op.types()
        variables, dtypes = op.type_vars(attrs), dict(types)
        shapes = op.infer_shape(attrs, {arg.name: shape for arg, shape in zip(op.inputs, bound_op.shapes)})
        planned = record.plan(op, direction, attrs, shapes, bound_op.dtypes[0])
        kernel = _kernel(op.name, direction, types, record.signature(op, direction, dtypes))

        self._context, self._loaded = context, False
        # An array, by the index in `written`, that the kernel does not touch. ``mx.rtc`` needs one of the right type.
        self._untouched = {index: mx.nd.empty((1,), context, dtypes[variables[tensor.name]])
                           for index, (tensor, request) in enumerate(zip(written(op, direction), requests))
                           if request == "null"}
        # The memory, in order, that is kept from launch to launch, or the size of memory for a single one. Zeros are
        # made on the CPU, as MXNet may have no kernel for this GPU.
        self._scratch = [mx.nd.array(np.zeros(size), context, "float64") if array.kept or size <= SMALL else size
                         for array, size in zip(record.scratch(op, direction), planned.scratch.values())]

        tables = record.table_dtypes(op, dtypes)
        numbers = [mx.nd.array(value, context, tables[name]) if isinstance(value, tuple) else value
                   for name, value in planned.arguments.items()]
        numbers_of_requests = [REQUESTS[request] for request in requests]
        step_arguments = [[step] for step in planned.steps] if op.cuda.steps else [[]]
        self._starts = [Start(kernel, context, *geometry(planned.launch), numbers_of_requests + step + numbers)
                        for step in step_arguments]

    def __call__(self, read: list[mx.nd.NDArray], written: list[mx.nd.NDArray]) -> None:
        """Launch the kernel. The caller holds ``lock``, so the steps of two nodes that share memory do not mix."""
        arrays = [*read, *(self._untouched.get(index, array) for index, array in enumerate(written))]
        arrays += [mx.nd.empty((memory,), self._context, "float64") if isinstance(memory, int) else memory
                   for memory in self._scratch]
        if not self._loaded:
            driver.make_current(self._context.device_id)
        for start in self._starts:
            start(arrays)
        self._loaded = True


@dataclasses.dataclass
class _Failure:
    """Why there is no kernel, and until when no other attempt is made, in seconds of ``time.monotonic``."""
    reason: Exception
    until: float
    pause: float


def launch(bound_op: BoundOp, direction: str, requests: tuple[str, ...], read: list[mx.nd.NDArray],
           written: list[mx.nd.NDArray]) -> bool:
    """Run a kernel on the tensors of :func:`.record.read` and :func:`.record.written`.

    None of them may be empty, or a scalar.

    Return False if there is no kernel, or if it does not compile or start. Then the caller computes with ``mx.nd``. The
    first time a RuntimeWarning says why. Source that does not compile is not compiled again. A kernel that does not
    start, for lack of memory, say, is tried again after a pause. Raise an OpError if there is no kernel, and MXNet has
    no code for this GPU, so that ``mx.nd`` cannot compute there.
    """
    op = bound_op.op
    if op.cuda is None:
        _check_mxnet_computes(bound_op, "the operator has no CUDA kernel")
        return False
    key = (op.name, bound_op.dtypes, bound_op.context)
    with lock:
        before = _failed.get(key)
        if before is None or time.monotonic() >= before.until:
            try:   # a kernel is compiled at its first use, and loaded at its first launch
                bound_op.prepared(direction, requests)(read, written)
                _failed.pop(key, None)
                return True
            except (OpError, mx.MXNetError) as error:
                _failed[key] = _failure(error, before)
        reason = _failed[key].reason
    _check_mxnet_computes(bound_op, reason)
    if before is None:
        warnings.warn(f"gluonops.{op.name}: {_no_kernel(bound_op)}, so it computes with mx.nd instead: {reason}",
                      RuntimeWarning, stacklevel=2)
    return False


def _failure(error: Exception, before: _Failure | None) -> _Failure:
    """Return what to remember of an error: for ever if the compiler raised it, else twice as long as the one before."""
    pause = min(2 * before.pause, LONGEST_PAUSE) if before else SHORTEST_PAUSE
    if isinstance(error, OpError):
        pause = float("inf")
    return _Failure(error, time.monotonic() + pause, pause)


def _no_kernel(bound_op: BoundOp) -> str:
    return f"there is no CUDA kernel for {', '.join(dict.fromkeys(bound_op.dtypes))} on {bound_op.context}"


def mxnet_computes(context: mx.Context) -> bool:
    """Return whether MXNet's own operators run on this context: it has no code for the newest GPUs."""
    if context.device_type != "gpu":
        return True
    capability = driver.capability(context.device_id)
    return capability is None or driver.runs_mxnet(capability)


def _check_mxnet_computes(bound_op: BoundOp, reason: object) -> None:
    """Raise an OpError if the fallback would fail inside MXNet."""
    if not mxnet_computes(bound_op.context):
        capability = driver.capability(bound_op.context.device_id)
        raise bound_op.op.error(f"{_no_kernel(bound_op)} (compute capability {capability}), and MXNet 1.9.1 has no "
                                f"code for this GPU that could compute instead: {reason}",
                                "Compute on mx.cpu(), or on a GPU of compute capability 5.0 to 8.9")
