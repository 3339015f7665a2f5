"""Query the NVIDIA driver without MXNet: its version, its GPUs, and what MXNet 1.9.1 can run on them."""
from __future__ import annotations

import contextlib
import ctypes
import functools

OLDEST, NEWEST = (5, 0), (8, 9)   # MXNet's CUDA wheel has code for 5.0 to 8.6, which 8.9 runs too, and no PTX
OLDEST_PTX = (5, 2)               # NVRTC 11's default target, which mx.rtc takes; the driver compiles it for newer GPUs
NVRTC = (11, 8)                   # The version of PyPI's wheels, whose PTX needs a driver that supports this CUDA.
LIBRARY = "libcuda.so.1"


def examine() -> dict:
    """Query the driver.

    The result has ``version``, that of the driver, and ``cuda``, the newest CUDA that it supports. Both are None if
    they are unknown. ``gpus`` is a list of dicts with ``name``, ``capability``, such as "9.0", and ``total_bytes``.
    ``problem`` says why there is no GPU, and is None if there is one.
    """
    report = {"version": _driver_version(), "cuda": None, "gpus": [], "problem": None}
    try:
        cuda = _Cuda()
        number = cuda.number("cuDriverGetVersion")   # 12040 is 12.4
        report["cuda"] = f"{number // 1000}.{number % 1000 // 10}"
        cuda.call("cuInit", 0)
        report["gpus"] = [cuda.gpu(i) for i in range(cuda.number("cuDeviceGetCount"))]
        report["problem"] = None if report["gpus"] else "the driver sees no GPU"
    except (OSError, AttributeError) as error:
        report["problem"] = str(error)
    return report


def make_current(index: int) -> None:
    """Make a GPU's primary context current in the calling thread. MXNet computes in that context.

    MXNet loads a kernel in the thread that first launches it. That thread may only have called cudaSetDevice, which in
    CUDA 11 leaves a new thread without a context. Nothing happens if the driver is missing or fails: the launch then
    fails with a better error.
    """
    with contextlib.suppress(OSError, AttributeError):
        _Cuda().call("cuCtxSetCurrent", ctypes.c_void_p(_primary_context(index)))


@functools.cache
def _primary_context(index: int) -> int:
    """Return the address of a GPU's primary context, retained until the process ends."""
    cuda = _Cuda()
    cuda.call("cuInit", 0)
    return cuda.number("cuDevicePrimaryCtxRetain", cuda.number("cuDeviceGet", index), kind=ctypes.c_void_p)


@functools.cache
def capability(index: int) -> str | None:
    """Return a GPU's compute capability, such as "9.0", or None if there is no driver or no such GPU."""
    gpus = examine()["gpus"]
    return gpus[index]["capability"] if index < len(gpus) else None


def runs_mxnet(capability: str) -> bool:
    """Return whether MXNet's own CUDA operators run on a GPU of this compute capability."""
    return OLDEST <= _pair(capability) <= NEWEST


def works(capability: str) -> str:
    """Return what runs on a GPU of this compute capability, in words."""
    number = _pair(capability)
    if number < OLDEST:
        return "nothing: MXNet 1.9.1 needs compute capability 5.0"
    if number < OLDEST_PTX:
        return "MXNet's own operators; gluonops's kernels need compute capability 5.2, mx.nd computes instead"
    if number > NEWEST:
        return "gluonops's kernels only: MXNet 1.9.1 has no code for it, so its own CUDA operators fail"
    return "MXNet's own operators and gluonops's kernels"


def too_old(cuda: str | None) -> bool:
    """Return whether a driver that supports CUDA up to this version cannot load the code of NVRTC 11.8."""
    return cuda is not None and _pair(cuda) < NVRTC


def _pair(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


class _Cuda:
    """The library ``libcuda.so.1``. Its errors are raised as OSError."""

    def __init__(self):
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise OSError(f"there is no NVIDIA driver ({error})") from error

    def call(self, function: str, *arguments) -> None:
        code = getattr(self._library, function)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(text))
            raise OSError(f"{function} of the driver says {code}: {(text.value or b'unknown error').decode()}")

    def number(self, function: str, *arguments, kind: type = ctypes.c_int) -> int:
        value = kind()
        self.call(function, ctypes.byref(value), *arguments)
        return value.value

    def gpu(self, index: int) -> dict:
        device, name = self.number("cuDeviceGet", index), ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, len(name), device)
        major, minor = (self.number("cuDeviceGetAttribute", which, device) for which in (75, 76))
        return {"name": name.value.decode(errors="replace"), "capability": f"{major}.{minor}",
                "total_bytes": self.number("cuDeviceTotalMem_v2", device, kind=ctypes.c_size_t)}


def _driver_version() -> str | None:
    """Return the version that nvidia-smi prints, read from NVML, or None without NVML."""
    version = ctypes.create_string_buffer(96)
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if nvml.nvmlInit_v2() or nvml.nvmlSystemGetDriverVersion(version, len(version)):
            return None
        nvml.nvmlShutdown()
    except (OSError, AttributeError):
        return None
    return version.value.decode(errors="replace")
