"""How a case is run: the kernels of a plan, with CuPy.

A runner has ``prepare(case, given, before)``; ``run(outputs)``, which computes the case once and gives (results by
name, what was in those that were added to); ``spilled()``; and ``release()``. Those in ``tests`` measure no time.
"""
from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

BUSY = 1 << 28     # bytes of the copies that occupy the GPU
MOST_AHEAD = 512   # such copies, in a queue that holds about a thousand


class NoGPU(Exception):
    """There is no GPU, or no driver for it."""


def filler(dtype: npt.DTypeLike) -> float:
    """What an array is filled with before it is written."""
    return np.nan if np.dtype(dtype).kind == "f" else 85


def zeros(case: dict) -> dict[str, np.ndarray]:
    """The arrays of a case that are 0 before the first launch."""
    return {name: np.zeros(*case["arrays"][name]) for name in case["zeros"]}


def offset(case: dict, name: str) -> int:
    """How many elements of its memory are in front of an array; 0 for scratch memory, which is never a view."""
    return 0 if any(name in planned["scratch"] for planned in case["passes"].values()) else case["offset"]


class Runner:
    """Places the arrays of a case on a GPU, by ``to_gpu(array)`` and ``to_cpu(array)``."""

    def prepare(self, case: dict, inputs: dict[str, np.ndarray], before: dict[str, np.ndarray]) -> None:
        """Copy the arrays of a case to the GPU; outputs are filled with NaN bits first."""
        self.case, self.before, self.whole, self.arrays = case, before, {}, {}
        initial = {**inputs, **before, **zeros(case)}
        for name, (shape, dtype) in case["arrays"].items():
            self.place(name, initial.get(name, np.full(shape, filler(dtype), dtype)))

    def place(self, name: str, array: np.ndarray) -> None:
        """Copy an array to the GPU, behind what is in front of it."""
        front = np.full(offset(self.case, name), filler(array.dtype), array.dtype)
        self.whole[name] = self.to_gpu(np.concatenate([front, array.ravel()]))
        self.arrays[name] = self.whole[name][len(front):].reshape(array.shape)

    def spilled(self) -> list[str]:
        """The arrays in front of whose first element something was written."""
        fronts = {name: self.to_cpu(whole[:offset(self.case, name)]) for name, whole in self.whole.items()}
        return [name for name, front in fronts.items() if not (np.isnan(front) | (front == filler(front.dtype))).all()]


class CuPy(Runner):
    """Runs a plan's kernels with CuPy, measured by the GPU's own clock.

    Arrays are filled on the CPU and copied, so that CuPy has nothing to compile.
    """

    def __init__(self, quick=False):
        import cupy
        self.cupy, self.functions, self.ahead, self.buffers = cupy, {}, {}, None
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:   # there is no driver
            raise NoGPU(str(error)) from error
        if not count:
            raise NoGPU("the driver sees none")
        if quick:   # no pool: compute-sanitizer is to see where every array ends
            cupy.cuda.set_allocator(None)
        device = cupy.cuda.Device(0)
        properties = cupy.cuda.runtime.getDeviceProperties(0)
        self.machine = {"gpu": properties["name"].decode(), "capability": device.compute_capability,
                        "driver_cuda": cupy.cuda.runtime.driverGetVersion(), "cupy": cupy.__version__}

    def load(self, programs: dict) -> None:
        """Hand the PTX to the driver."""
        with tempfile.TemporaryDirectory() as folder:
            for number, program in enumerate(programs.values()):
                path = pathlib.Path(folder, f"{number}.ptx")
                path.write_text(program["ptx"])
                module = self.cupy.RawModule(path=str(path))
                self.functions.update((name, module.get_function(name)) for name in program["kernels"])

    def prepare(self, case: dict, inputs: dict[str, np.ndarray], before: dict[str, np.ndarray]) -> None:
        super().prepare(case, inputs, before)
        numbers = {"int32": np.int32, "int64": np.int64, "float64": np.float64}   # The kernels take these.
        self.kernels = {}
        for part, planned in case["passes"].items():
            launches = [tuple(self.arrays[value] if kind == "array" else numbers[kind](value)
                              for kind, value in arguments) for arguments in planned["launches"]]
            function = self.functions[planned["kernel"]]
            self.kernels[part] = function, tuple(planned["grid"]), tuple(planned["block"]), launches

    def to_gpu(self, array: np.ndarray) -> object:
        placed = self.cupy.empty(array.shape, array.dtype)
        placed.set(array)
        return placed

    def to_cpu(self, array: object) -> np.ndarray:
        return self.cupy.asnumpy(array)

    def run(self, outputs: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Backward gets ``outputs``, NumPy's, where they are given, so that each kernel is judged on its own."""
        results = {}
        for part, p in self.case["passes"].items():
            if part == "backward":
                for name, array in outputs.items():
                    self.arrays[name].set(np.ascontiguousarray(array))
            self.launch(part)
            results.update((name, self.to_cpu(self.arrays[name])) for name in p["written"])
        return results, self.before

    def launch(self, part: str) -> None:
        """Queue one pass."""
        function, grid, block, launches = self.kernels[part]
        for arguments in launches:
            function(grid, block, arguments)

    def copier(self, size: int) -> Callable:
        """A function that copies so many bytes within the GPU's memory, half of them read and half written."""
        source, target = (self.cupy.zeros(size // 2, "uint8") for _ in range(2))
        return lambda: self.cupy.cuda.runtime.memcpyAsync(target.data.ptr, source.data.ptr, source.nbytes, 3, 0)

    def time(self, function: Callable, calls: int) -> tuple[float, bool]:
        """(Milliseconds of a call, whether they are the GPU's alone), of calls queued one behind another.

        The queue is the default stream, torch's as well. The GPU is busy with copies until the last call is queued, so
        that it never waits for Python: more of them until the first call has not begun by then. A function that itself
        waits for the GPU cannot be queued ahead of it: its time is what it takes as it is, launches and all.
        """
        cuda = self.cupy.cuda
        start, end = cuda.Event(), cuda.Event()
        self.buffers = self.buffers or self.copier(2 * BUSY)
        while True:
            ahead = self.ahead.setdefault(function, 4)
            for _ in range(ahead):
                self.buffers()
            start.record()
            for _ in range(calls):
                function()
            end.record()
            hidden = ahead > 0 and not start.done
            end.synchronize()
            if hidden or not ahead:
                return cuda.get_elapsed_time(start, end) / calls, hidden
            self.ahead[function] = 2 * ahead if 2 * ahead <= MOST_AHEAD else 0

    def release(self) -> None:
        self.arrays = self.whole = self.kernels = None
        self.ahead.clear()
        self.cupy.get_default_memory_pool().free_all_blocks()
