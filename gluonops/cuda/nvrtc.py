"""NVRTC, the compiler behind ``mx.rtc``, called directly: it needs no GPU and no CUDA toolkit.

``make cuda-check`` and the tests compile every kernel with it. It comes from PyPI (``nvidia-cuda-nvrtc-cu11``) and
includes ptxas, which reports the registers, the shared memory and the spills of every kernel.
"""
from __future__ import annotations

import ctypes
import dataclasses
import re
from collections.abc import Iterable

from ..contract import registry
from ..contract.errors import OpError
from ..contract.op import Op
from ..runtime import cuda_libraries
from . import cuda_source, rtc

ARCHITECTURES = ("sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90")
LIBRARY = "libnvrtc.so.11.2"   # every 11.x since 11.2 has this name

_FUNCTION = re.compile(r"ptxas info\s+: Function properties for (\S+)\n"
                       r".*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads\n"
                       r"ptxas info\s+: Used (\d+) registers(?:.*?(\d+) bytes smem)?")
_NO_FAULT = re.compile(r"(ptxas info\s+:|ptxas\s+\.\s|\s+\d+ bytes stack frame,).*"   # the report of resources
                       r"|.*\.minnctapersm will be ignored")   # Turing has room for fewer threads than the others


@dataclasses.dataclass(frozen=True)
class Usage:
    """Resources of a kernel: registers per thread, and bytes of shared memory, stack and spills."""
    kernel: str
    registers: int
    shared: int
    stack: int
    spilled: int


@dataclasses.dataclass(frozen=True)
class Program:
    """The result of a compilation: ``messages`` is empty if it compiled without a warning.

    ``ptx`` is the code that ``mx.rtc`` passes to the driver; ``names`` maps the kernels' names in it to the exported
    ones; ``kernels`` is a tuple of Usage if the options name a real GPU (``sm_``), else empty.
    """
    compiled: bool
    messages: str
    ptx: bytes = b""
    names: dict = dataclasses.field(default_factory=dict)
    kernels: tuple = ()


class Compiler:
    """NVRTC as a library. The constructor raises an OpError if NVRTC is not installed."""

    def __init__(self):
        try:
            self._nvrtc = ctypes.CDLL(str(cuda_libraries.in_wheel(LIBRARY) or LIBRARY))
        except OSError as error:
            raise OpError("nvrtc", f"NVRTC 11 is not installed: {error}",
                          "Run: pip install nvidia-cuda-nvrtc-cu11") from error

    def compile(self, source: str, exports: Iterable[str], options: Iterable[str] = rtc.OPTIONS) -> Program:
        """Compile ``source`` for the kernels that ``exports`` names, as ``rtc.export_name`` spells them.

        ``options`` are NVRTC's. The default ones are those with which ``mx.rtc`` compiles.
        """
        nvrtc, handle = self._nvrtc, ctypes.c_void_p()
        options = [option.encode() for option in options]
        if any(b"=sm_" in option for option in options):
            options.append(b"--ptxas-options=-v")
        self._check(nvrtc.nvrtcCreateProgram(ctypes.byref(handle), source.encode(), b"kernel.cu", 0, None, None))
        try:
            for name in exports:
                self._check(nvrtc.nvrtcAddNameExpression(handle, name.encode()))
            with rtc.same_locale():
                code = nvrtc.nvrtcCompileProgram(handle, len(options), (ctypes.c_char_p * len(options))(*options))
            log = self._read("ProgramLog", handle).decode()
            messages = remarks(log)
            if code:
                return Program(False, messages or f"NVRTC returned {code}")
            names = {self._lowered(handle, name): name for name in exports}
            return Program(True, messages, self._read("PTX", handle), names, usages(log, names))
        finally:
            nvrtc.nvrtcDestroyProgram(ctypes.byref(handle))

    def _check(self, code: int) -> None:
        if code:
            self._nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
            raise OpError("nvrtc", f"NVRTC says {self._nvrtc.nvrtcGetErrorString(code).decode()}",
                          "Report it with the source and the options")

    def _read(self, what: str, handle: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._nvrtc, f"nvrtcGet{what}Size")(handle, ctypes.byref(size)))
        text = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._nvrtc, f"nvrtcGet{what}")(handle, text))
        return text.value

    def _lowered(self, handle: ctypes.c_void_p, name: str) -> str:
        lowered = ctypes.c_char_p()
        self._check(self._nvrtc.nvrtcGetLoweredName(handle, name.encode(), ctypes.byref(lowered)))
        return lowered.value.decode()


def remarks(log: str) -> str:
    """Return the warnings and errors in a log: every line but ptxas's report of resources and one remark on Turing.

    ``__launch_bounds__`` causes that remark. It may ask for more blocks on a multiprocessor than Turing has room for,
    and ptxas ignores the number there. ``mx.rtc`` compiles for compute_52, so a kernel cannot ask which GPU it is for.
    """
    return "\n".join(line for line in log.splitlines() if line.strip() and not _NO_FAULT.match(line))


def usages(log: str, names: dict[str, str]) -> tuple[Usage, ...]:
    """Return the Usage of each kernel from the output of ``ptxas -v``, sorted by name.

    ``names`` maps the functions in the log to the kernels' names; other functions are left out.
    """
    kernels = [Usage(kernel=names[function], registers=int(registers), shared=int(shared or 0), stack=int(stack),
                     spilled=int(stores) + int(loads))
               for function, stack, stores, loads, registers, shared in _FUNCTION.findall(log) if function in names]
    return tuple(sorted(kernels, key=lambda usage: usage.kernel))


def exports(op: Op, every: bool = True) -> list[str]:
    """Return the kernels of an operator for every combination of dtypes, or only for every dtype of its data.

    In the second case the labels have one dtype only. Where dense labels lead to other code, they also have the dtype
    of the data.
    """
    combinations = rtc.type_combinations(op)
    if not every:
        once = list({types["T"]: types for types in combinations}.values())
        # An attribute decides whether labels are class indices or numbers of the data's type.
        has_dense_labels = any(arg.dtype not in (*op.types, "A") for arg in op.inputs)
        dense = [types for types in combinations if has_dense_labels and types["L"] == types["T"]]
        combinations = once + [types for types in dense if types not in once]
    return [rtc.export_name(op, direction, types) for types in combinations for direction in ("forward", "backward")]


def compile_op(compiler: Compiler, name: str, architecture: str | None = None, every: bool = True) -> Program:
    """Compile an operator's kernels for an architecture, ``sm_90`` and the like, or for the target of ``mx.rtc``.

    ``every`` is that of :func:`exports`.
    """
    op = registry.get(name).op
    options = rtc.OPTIONS if architecture is None else (*rtc.OPTIONS, f"--gpu-architecture={architecture}")
    return compiler.compile(cuda_source.source(op), exports(op, every), options)
