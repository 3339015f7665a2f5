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
NEAR = 1 << 22      # bytes of a tensor that stays in the cache
ARCHITECTURE = "sm_90"   # its registers are counted
SECTOR, WARP = 32, 32


@dataclasses.dataclass(frozen=True)
class Launched:
    """One launch. The counts are those of all blocks.

    ``executed``: an instruction's name -> warps that execute it. ``requested``: sectors of global memory. ``touched``:
    the same, but each once for each block. ``footprint``: tensor -> bytes that are read or written, at most its own.
    ``wavefronts``: of shared memory. ``waits``: how often a warp waits for global memory. ``far_waits``: those for
    tensors that do not stay in the cache. ``longest``: instructions and waits of the warp that has most. ``idle``: the
    share of lanes without work. ``registers`` of a thread; ``shared``: bytes of a block.
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
    far_waits: float
    longest: tuple
    idle: float

    @property
    def warps(self) -> int:
        """Of a block."""
        return -(-self.threads // WARP)


@dataclasses.dataclass(frozen=True)
class Pass:
    """A pass: the bytes that it has to move, its launches, and the size of each tensor."""
    bytes: int
    launches: list
    sizes: dict


def count(case: Case) -> dict[str, Pass]:
    """Pass -> what it executes."""
    memory, planned, kernel = _prepared(case)
    sizes = {name: array.nbytes for name, array in memory.arrays.items()}
    found = {}
    for direction, launched in planned["passes"].items():
        usage = _usages(case.op, _types(case))[direction]
        launches = [_launched(kernel(launched["kernel"]), memory, arguments, launched, usage,
                              sample(launched))
                    for arguments in launched["launches"]]
        found[direction] = Pass(launched["bytes"], launches, sizes)
    return found


def few_rows(case: Case) -> Case:
    """A case with fewer rows along the first axis."""
    rows = case.shape[0]
    kept = min(rows, max(1, DRAWN // math.prod(case.shape[1:])))
    more = {name: (kept, *shape[1:]) if shape[0] == rows else shape for name, shape in case.more.items()}
    return dataclasses.replace(case, shape=(kept, *case.shape[1:]), more=more)


def _prepared(case: Case) -> tuple:
    """(Memory, the plan of the case, ``kernel(name)``). Tensors repeat some rows: of the inputs and NumPy's outputs."""
    ptx, spaces = suites.from_tests("ptx.runner"), suites.from_tests("ptx.memory")
    made = plan.make([few_rows(case), case])
    drawn, whole = made["cases"]
    given = compare.inputs(drawn)
    results = {**given, **compare.expected(drawn, given)}
    memory = spaces.RepeatedMemory()
    for name, (shape, dtype) in whole["arrays"].items():
        empty = np.zeros(drawn["arrays"][name][0])
        for planned in whole["passes"].values():
            if name in planned["scratch"]:
                empty = _first_in(shape, planned)
        memory.add(name, shape, dtype, results.get(name, empty))
    interpreter = ptx.Interpreter(checks=False)
    interpreter.load(made["programs"])
    return memory, whole, interpreter.kernel


def _first_in(shape: list, planned: dict) -> np.ndarray:
    """What scratch memory has first: 0 where the blocks that write it are executed, else 1, as if they had written."""
    return np.zeros(shape) if is_whole(planned) else np.ones(shape)


def is_whole(planned: dict) -> bool:
    """Whether all blocks of a pass are executed."""
    launches, threads = len(planned["launches"]), math.prod(planned["grid"]) * math.prod(planned["block"])
    return launches > 1 and threads <= WHOLE


def _launched(kernel, memory, arguments: list, planned: dict, usage: nvrtc.Usage,
              chosen: np.ndarray) -> Launched:
    machine, counter = suites.from_tests("ptx.machine"), suites.from_tests("ptx.counter").Counter()
    blocks, threads = math.prod(planned["grid"]), math.prod(planned["block"])
    values = [memory.arrays[value].address if kind == "array" else value for kind, value in arguments]
    launch = machine.Launch(kernel, memory, values, tuple(planned["grid"]), tuple(planned["block"]), counter=counter,
                            checks=False, blocks=chosen)
    launch.run()
    factor = blocks / len(chosen)
    warps = len(chosen) * -(-threads // WARP)
    far = [array for array in memory.arrays.values() if array.nbytes > NEAR]
    far_waits, near_waits = counter.waits(lambda address: any(
        array.address <= address < array.address + array.nbytes for array in far))
    touched = {name: factor * SECTOR * sectors for name, sectors in _by_array(memory, counter).items()}
    return Launched(
        blocks=blocks,
        threads=threads,
        registers=usage.registers,
        shared=usage.shared,
        executed={name: factor * warps for name, warps in counter.executed.items()},
        requested=factor * sum(counter.sectors.values()),
        touched=sum(touched.values()) / SECTOR,
        footprint={name: min(bytes, memory.arrays[name[0]].nbytes) for name, bytes in touched.items()},
        wavefronts=factor * counter.wavefronts,
        waits=(far_waits + near_waits) / warps,
        far_waits=far_waits / warps,
        longest=tuple(counter.of_warps[:, counter.of_warps[0].argmax()].tolist()),
        idle=counter.divergence)


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


def _by_array(memory, counter) -> dict[tuple[str, str], int]:
    """(Array, "read" or "written") -> the sectors that blocks touch."""
    names = list(memory.arrays)
    starts = np.array([memory.arrays[name].address for name in names]) // SECTOR
    found = {}
    for kind in counter.sectors:
        which = np.searchsorted(starts, counter.touched(kind), "right") - 1
        counts = np.bincount(which, minlength=len(names))
        found.update(((name, kind), int(count)) for name, count in zip(names, counts) if count)
    return found


def _types(case: Case) -> tuple:
    """(Type variable, dtype) of each."""
    return tuple((variable, case.label if variable == "L" else case.dtype)
                 for variable in registry.get(case.op).op.types)


@functools.lru_cache(maxsize=4)
def _usages(name: str, types: tuple) -> dict[str, nvrtc.Usage]:
    """Direction -> the registers and the shared memory of an operator's kernel."""
    op = registry.get(name).op
    exports = {direction: rtc.export_name(op, direction, dict(types)) for direction in plan.PASSES}
    options = (*rtc.OPTIONS, f"--gpu-architecture={ARCHITECTURE}")
    compiled = nvrtc.Compiler().compile(cuda_source.source(op), exports.values(), options)
    by_kernel = {usage.kernel: usage for usage in compiled.kernels}
    return {direction: by_kernel[kernel] for direction, kernel in exports.items()}
