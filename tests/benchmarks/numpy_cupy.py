"""The part of CuPy that benchmarks/gpu uses, from NumPy: kernels that do what the oracle says, and a GPU's clock.

The clock is of a host that queues work and a GPU that does it in order: launching takes the host LAUNCH milliseconds,
a copy the GPU COPY, a kernel KERNEL, a function that waits for the GPU what it waits.
"""
import pathlib
import types

import numpy as np
from benchmarks.gpu import compare

LAUNCH, COPY, KERNEL = 0.1, 0.125, 0.025


class Clock:
    """``host``: what time it is there; ``busy``: until when the GPU has work."""

    def __init__(self):
        self.host = self.busy = 0.0

    def queue(self, duration, launch):
        self.host += launch
        self.busy = max(self.busy, self.host) + duration

    def wait(self):
        self.host = max(self.host, self.busy)


class Array(np.ndarray):
    """An array on the GPU, as far as it is no NumPy array."""

    def set(self, array):
        assert type(array) is np.ndarray and array.flags.c_contiguous
        assert (array.shape, array.dtype) == (self.shape, self.dtype)
        self[...] = array


class CUDARuntimeError(Exception):
    """The driver's complaint."""


class Kernel:
    """Writes what the oracle says, and checks what it is given."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self, grid, block, arguments):
        case = self.module.runner.case
        self.module.clock.queue(KERNEL, LAUNCH)
        (part, launches), = [(part, p["launches"]) for part, p in case["passes"].items() if p["kernel"] == self.name]
        assert len(grid) == len(block) == 3 and len(arguments) == len(launches[-1])
        named, numbers = {}, []
        for (kind, value), argument in zip(launches[-1], arguments):
            if kind == "array":
                named[value] = argument
                assert argument.flags.c_contiguous and list(argument.shape) == case["arrays"][value][0]
            else:
                assert argument.dtype == kind
                numbers += [argument] * (kind == "int64")
        assert all(named[table].tolist() == values for table, values in case["tables"].items())
        last_step = next(value for kind, value in launches[-1] if kind == "int64")
        if len(launches) > 1 and numbers[0] != last_step:
            return
        if self.module.computed[0] is not case:
            self.module.computed = case, compare.expected(case, compare.inputs(case))
        _, computed = self.module.computed
        for name in case["passes"][part]["written"]:
            named[name][...] = computed[name] + (named[name] if case["request"] == "add" else 0)
        if self.module.spill and case["offset"]:
            named[name].base.flat[0] = 1


def module():
    """The module; ``runner`` has to be set to what runs on it."""
    made, clock = types.ModuleType("cupy"), Clock()

    class Event:
        def record(self):
            self.time = max(clock.busy, clock.host)

        @property
        def done(self):
            return self.time <= clock.host

        def synchronize(self):
            clock.host = max(clock.host, self.time)

    made.runner, made.clock, made.spill, made.computed, made.__version__ = None, clock, False, (None, None), "0"
    made.asnumpy = np.array
    made.empty = lambda shape, dtype: np.empty(shape, dtype).view(Array)
    made.zeros = lambda size, dtype: types.SimpleNamespace(data=types.SimpleNamespace(ptr=0), nbytes=size)
    made.get_default_memory_pool = lambda: types.SimpleNamespace(free_all_blocks=lambda: None)
    runtime = types.SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError, getDeviceCount=lambda: 1, driverGetVersion=lambda: 13000,
        getDeviceProperties=lambda i: {"name": b"NumPy"}, memcpyAsync=lambda *arguments: clock.queue(COPY, 0.002))
    made.cuda = types.SimpleNamespace(
        runtime=runtime, Event=Event, get_elapsed_time=lambda start, end: end.time - start.time,
        set_allocator=lambda allocator: None, Device=lambda i: types.SimpleNamespace(compute_capability="90"))
    made.RawModule = lambda path: types.SimpleNamespace(
        get_function=lambda name: (pathlib.Path(path).read_text().index(name), Kernel(made, name))[1])
    return made
