"""Runs the cases of ``benchmarks.gpu`` in the interpreter: a runner as those in ``benchmarks/gpu/runners.py``."""
from __future__ import annotations

import math

import numpy as np
from benchmarks.gpu.runners import filler, offset, zeros

from . import memory as spaces
from .machine import Launch
from .memory import Memory
from .parse import Kernel, kernel, parse


class Interpreter:
    """Executes a plan's PTX.

    Parameters
    ----------
    seed : int, optional
        Draws the schedule; the default is lockstep.
    """

    def __init__(self, seed: int | None = None):
        self.seed = seed
        self.modules, self.kernels = {}, {}

    def load(self, programs: dict) -> None:
        """Note the PTX of every kernel; it is parsed when the kernel is first launched."""
        self.modules = {name: program["ptx"] for program in programs.values() for name in program["kernels"]}
        self.kernels = {}

    def kernel(self, name: str) -> Kernel:
        if name not in self.kernels:
            self.kernels[name] = kernel(parse(self.modules[name]), name)
        return self.kernels[name]

    def prepare(self, case: dict, inputs: dict[str, np.ndarray], before: dict[str, np.ndarray]) -> None:
        """Place the arrays of a case; outputs are filled first, kept memory with 0 as in ``rtc.Pass``.

        With an offset, what is in front may be written.
        """
        self.case, self.before = case, before
        offsets = {name: offset(case, name) * np.dtype(dtype).itemsize for name, (_, dtype) in case["arrays"].items()}
        sizes = [math.prod(shape) * np.dtype(dtype).itemsize + offsets[name]
                 for name, (shape, dtype) in case["arrays"].items()]
        self.memory = Memory(sum(sizes), len(sizes))
        initial = {**inputs, **before, **zeros(case)}
        for name, (shape, dtype) in case["arrays"].items():
            values = initial.get(name, np.full(shape, filler(dtype), dtype))
            self.memory.add(name, values.reshape(shape), offsets[name])

    def run(self, outputs: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Results by name, and what was in those that are added to; backward gets NumPy's outputs."""
        results = {}
        for part, planned in self.case["passes"].items():
            if part == "backward":
                for name, array in outputs.items():
                    self.memory.put(name, array)
            self.launch(part)
            results.update((name, self.memory.get(name)) for name in planned["written"])
        return results, self.before

    def launch(self, part: str) -> None:
        """Run one pass. A kernel may write what the plan says that it writes, and scratch memory."""
        planned = self.case["passes"][part]
        writable = {*planned["written"], *planned["scratch"]}
        for name in self.case["arrays"]:
            self.memory.permit(name, spaces.READ | spaces.WRITE if name in writable else spaces.READ)
        for arguments in planned["launches"]:
            values = [self.memory.arrays[value].address if kind == "array" else value for kind, value in arguments]
            Launch(self.kernel(planned["kernel"]), self.memory, values, tuple(planned["grid"]),
                   tuple(planned["block"]), self.seed).run()

    def spilled(self) -> list[str]:
        """Nothing: the bounds of every access have been checked."""
        return []

    def release(self) -> None:
        self.memory = None
