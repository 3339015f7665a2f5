"""What a case's kernels execute: its own launches in the interpreter of ``tests/ptx``, with some of their blocks.

Inputs are drawn for a few rows of the first axis, and repeated. Backward gets the outputs that NumPy computes of them.
"""
from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
from gluonops.core import cuda_source, nvrtc, registry, rtc

from ..harness import suites
from ..harness.cases import Case
from . import compare, plan

DRAWN = 1 << 16     # elements of the data
THREADS = 1 << 12   # so many of a launch are executed
WHOLE = 1 << 17     # threads of a launch that is executed wholly where it is one of several, and may need the others'
ARCHITECTURE = "sm_90"   # its registers are counted
SECTOR, WARP = 32, 32


@dataclasses.dataclass(frozen=True)
class Launched:
    """One launch. The counts are those of all blocks.

    ``registers`` of a thread; ``shared``: bytes of a block. ``executed``: an instruction's name -> warps that execute
    it. ``requested``: sectors of global memory. ``touched``: the same, but each once for each block. ``footprint``:
    (tensor, "read" or "written") -> bytes, at most its own. ``wavefronts``: of shared memory. ``waits``: how often a
    warp waits for global memory. ``longest``: instructions and waits of the warp that has most.
    """
    blocks: int
    threads: int
    registers: int
    shared: int
    executed: dict
    requested: float
    touched: float
    footprint: dict
    wavefronts: float
    waits: float
    longest: tuple

    @property
    def warps(self) -> int:
        """How many a block has."""
        return -(-self.threads // WARP)


@dataclasses.dataclass(frozen=True)
class Pass:
    """A pass: the bytes that it has to move, its launches, and the size of each tensor."""
    bytes: int
    launches: list
    sizes: dict


def count(case: Case) -> dict[str, Pass]:
    """Pass -> what it executes."""
    made = plan.make([few_rows(case), case])
    drawn, whole = made["cases"]
    memory = _memory(drawn, whole)
    interpreter = suites.from_tests("ptx.runner").Interpreter(checks=False)
    interpreter.load(made["programs"])
    usages = _usages(case.op, tuple(plan.types_of(case).items()))
    sizes = {name: array.nbytes for name, array in memory.arrays.items()}
    found = {}
    for direction, planned in whole["passes"].items():
        kernel = interpreter.kernel(planned["kernel"])
        launches = [_launched(kernel, memory, planned, arguments, usages[direction])
                    for arguments in planned["launches"]]
        found[direction] = Pass(planned["bytes"], launches, sizes)
    return found


def few_rows(case: Case) -> Case:
    """A case with fewer rows along the first axis."""
    rows = case.shape[0]
    kept = min(rows, max(1, DRAWN // math.prod(case.shape[1:])))
    more = {name: (kept, *shape[1:]) if shape[0] == rows else shape for name, shape in case.more.items()}
    return dataclasses.replace(case, shape=(kept, *case.shape[1:]), more=more)


def _memory(drawn, whole):
    """The tensors of a case, which repeat the rows of one with few: of its inputs, and of the outputs in NumPy.

    Scratch memory has 0 where the blocks that write it are executed, else 1, as if they had written.
    """
    memory = suites.from_tests("ptx.memory").RepeatedMemory()
    given = compare.inputs(drawn)
    values = {**given, **compare.expected(drawn, given)}
    for planned in whole["passes"].values():
        values.update((name, np.full(1, not is_whole(planned))) for name in planned["scratch"])
    for name, (shape, dtype) in whole["arrays"].items():
        memory.add(name, shape, dtype, values.get(name, np.zeros(drawn["arrays"][name][0])))
    return memory


def is_whole(planned: dict) -> bool:
    """Whether all blocks of a pass are executed."""
    launches, threads = len(planned["launches"]), math.prod(planned["grid"]) * math.prod(planned["block"])
    return launches > 1 and threads <= WHOLE


def sample(planned: dict) -> np.ndarray:
    """The blocks of a launch that are executed: a random one of each part, where these are equally large.

    The blocks behind the end of the tensors have nothing to do, so all parts have to be seen. All blocks are executed
    of a pass of little work.
    """
    blocks, threads = math.prod(planned["grid"]), math.prod(planned["block"])
    wanted = max(1, THREADS // threads)
    if is_whole(planned) or wanted >= blocks:
        return np.arange(blocks)
    places = np.arange(wanted) + np.random.RandomState(0).uniform(size=wanted)
    return (places * blocks / wanted).astype(int)


def _launched(kernel, memory, planned, arguments, usage):
    """Execute some blocks of a launch, and count for all."""
    machine, counter = suites.from_tests("ptx.machine"), suites.from_tests("ptx.counter").Counter()
    grid, block, chosen = tuple(planned["grid"]), tuple(planned["block"]), sample(planned)
    values = [memory.arrays[value].address if kind == "array" else value for kind, value in arguments]
    machine.Launch(kernel, memory, values, grid, block, counter=counter, checks=False, blocks=chosen).run()
    blocks, threads = math.prod(grid), math.prod(block)
    factor = blocks / len(chosen)
    starts = np.array([array.address for array in memory.arrays.values()]) // SECTOR
    touched = {}   # (array, "read" or "written") -> bytes of the sectors that blocks touch
    for kind in counter.sectors:
        which = np.searchsorted(starts, counter.touched(kind), "right") - 1
        for number, sectors in zip(*np.unique(which, return_counts=True)):
            touched[list(memory.arrays)[number], kind] = factor * SECTOR * int(sectors)
    return Launched(
        blocks=blocks,
        threads=threads,
        registers=usage.registers,
        shared=usage.shared,
        executed={name: factor * warps for name, warps in counter.executed.items()},
        requested=factor * sum(counter.sectors.values()),
        touched=sum(touched.values()) / SECTOR,
        footprint={name: min(size, memory.arrays[name[0]].nbytes) for name, size in touched.items()},
        wavefronts=factor * counter.wavefronts,
        waits=counter.waits / (len(chosen) * -(-threads // WARP)),
        longest=tuple(counter.of_warps[:, counter.of_warps[0].argmax()].tolist()))


@functools.lru_cache(maxsize=4)
def _usages(name, types):
    """Direction -> the registers and the shared memory of an operator's kernel."""
    op = registry.get(name).op
    exports = {direction: rtc.export_name(op, direction, dict(types)) for direction in plan.PASSES}
    options = (*rtc.OPTIONS, f"--gpu-architecture={ARCHITECTURE}")
    compiled = nvrtc.Compiler().compile(cuda_source.source(op), exports.values(), options)
    by_kernel = {usage.kernel: usage for usage in compiled.kernels}
    return {direction: by_kernel[kernel] for direction, kernel in exports.items()}
