"""How a case is run: the kernels alone with CuPy, or our operators in MXNet.

A runner has ``prepare(case, given, before)``; ``run(outputs)``, which computes the case once and gives (results by
name, what was in those that were added to); ``spilled()``; and ``release()``. That of CuPy also has ``launch(part)``,
which queues one pass; ``copier(size)``, a function that copies so many bytes within the GPU's memory, half of them read
and half written; and ``time(function, calls)``: (milliseconds of a call, whether they are the GPU's alone).
"""
from __future__ import annotations

import os
import pathlib
import tempfile
import warnings
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..harness.cases import declared

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


class Runner:
    """Places the arrays of a case on a GPU, by ``to_gpu(array)`` and ``to_cpu(array)``."""

    def prepare(self, case: dict, given: dict[str, np.ndarray], before: dict[str, np.ndarray]) -> None:
        """Copy the arrays of a case to the GPU; outputs are filled with NaN bits first."""
        self.case, self.before, self.whole, self.arrays = case, before, {}, {}
        initial = {**given, **before, **zeros(case)}
        for name, (shape, dtype) in case["arrays"].items():
            self.place(name, initial.get(name, np.full(shape, filler(dtype), dtype)))

    def place(self, name: str, array: np.ndarray) -> None:
        """Copy an array to the GPU, at the offset in elements that the case gives."""
        front = np.full(self.case["offset"], filler(array.dtype), array.dtype)
        self.whole[name] = self.to_gpu(np.concatenate([front, array.ravel()]))
        self.arrays[name] = self.whole[name][len(front):].reshape(array.shape)

    def spilled(self) -> list[str]:
        """The arrays in front of whose first element something was written."""
        offset = self.case["offset"]
        fronts = {name: self.to_cpu(whole[:offset]) for name, whole in self.whole.items() if offset}
        return [name for name, front in fronts.items()
                if not (np.isnan(front) | (front == filler(front.dtype))).all()]


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

    def prepare(self, case: dict, given: dict[str, np.ndarray], before: dict[str, np.ndarray]) -> None:
        super().prepare(case, given, before)
        self.kernels = {}
        for part, planned in case["passes"].items():
            function = self.functions[planned["kernel"]]
            launches = [self._arguments(arguments) for arguments in planned["launches"]]
            self.kernels[part] = function, tuple(planned["grid"]), tuple(planned["block"]), launches

    def _arguments(self, planned):
        """The arguments of a launch: arrays on the GPU, and numbers of the type that the kernel takes."""
        numbers = {"int32": np.int32, "int64": np.int64, "float64": np.float64}
        return tuple(self.arrays[value] if kind == "array" else numbers[kind](value) for kind, value in planned)

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
        function, grid, block, launches = self.kernels[part]
        for arguments in launches:
            function(grid, block, arguments)

    def copier(self, size: int) -> Callable:
        source, target = (self.cupy.zeros(size // 2, "uint8") for _ in range(2))
        return lambda: self.cupy.cuda.runtime.memcpyAsync(target.data.ptr, source.data.ptr, source.nbytes, 3, 0)

    def time(self, function: Callable, calls: int) -> tuple[float, bool]:
        """The GPU's time for ``calls`` calls queued one behind another on the default stream, torch's as well.

        The GPU is busy with copies until the last is queued, so that it never waits for Python: more of them until
        the first call has not begun by then. A function that itself waits for the GPU cannot be queued ahead of it:
        its time is what it takes as it is, launches and all.
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


class MXNet(Runner):
    """Runs our operators in MXNet on ``mx.gpu(0)``: ``gops.ops.<op>`` under autograd, in the custom backend.

    It needs none of MXNet's own CUDA operators, which a new GPU lacks: every array is made on the CPU and copied, the
    gradients' as well, and every head gradient is given. It does not measure time.
    """

    def __init__(self, quick=False):
        if quick:
            os.environ.setdefault("MXNET_GPU_MEM_POOL_TYPE", "Unpooled")   # compute-sanitizer needs it, as in CuPy
        import gluonops
        import mxnet as mx
        from gluonops.core import backend
        from gluonops.runtime import driver

        if not backend.has_gpu():
            raise NoGPU("MXNet sees none")
        warnings.simplefilter("error", RuntimeWarning)   # a kernel that is given up on is a failure here
        self.mx, self.device, gpu = mx, mx.gpu(0), driver.examine()["gpus"][0]
        self.machine = {"gpu": gpu["name"], "capability": gpu["capability"], "mxnet": mx.__version__,
                        "gluonops": gluonops.__version__}

    def load(self, programs: dict) -> None:
        """Does nothing: mx.rtc compiles on the first launch."""

    def to_gpu(self, array: np.ndarray) -> object:
        return self.mx.nd.array(array, dtype=array.dtype).as_in_context(self.device)

    def to_cpu(self, array: object) -> np.ndarray:
        return array.asnumpy()

    def run(self, outputs: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Compute as a user would. MXNet gives the outputs' memory, so only gradients can be added to.

        A user does not see hidden outputs: they are computed by a call of the CustomOp by hand.
        """
        import gluonops as gops
        from gluonops.core import custom, registry

        mx, case, entry = self.mx, self.case, registry.get(self.case["op"])
        op = entry.op
        inputs = [self.arrays[arg.name] for arg in op.inputs]
        gradients = case["passes"].get("backward", {"written": []})["written"]
        attrs = {**case["attrs"], **declared(case["op"]).ALL_OUTPUTS}
        if gradients:
            mx.autograd.mark_variables([self.arrays[name.replace("_grad", "")] for name in gradients],
                                       [self.arrays[name] for name in gradients], case["request"])
        with gops.backend("custom"), mx.autograd.record():
            returned = getattr(gops.ops, case["op"])(*inputs, **attrs)
        returned = returned if isinstance(returned, tuple) else (returned,)
        if gradients:
            if "output_grad" not in self.arrays:   # an operator that ignores it; else MXNet would make one
                self.place("output_grad", np.ones(returned[0].shape, case["dtype"]))
            mx.autograd.backward([returned[0]], [self.arrays["output_grad"]])
        results = {out.name: array.asnumpy() for out, array in zip(op.outputs, returned)}
        results.update((name, self.arrays[name].asnumpy()) for name in gradients)
        hidden = [out.name for out in op.outputs if out.name not in results]
        if hidden:
            outputs = [self.arrays[out.name] for out in op.outputs]
            operator = custom.Operator(entry, op.parse(case["attrs"]))
            operator.forward(True, ["write"] * len(outputs), inputs, outputs, [])
            results.update((name, self.arrays[name].asnumpy()) for name in hidden)
        return results, {name: self.before[name] for name in gradients if name in self.before}

    def release(self) -> None:
        self.arrays = self.whole = None
        self.mx.nd.waitall()


RUNNERS = {"cupy": CuPy, "mxnet": MXNet}
