"""Estimate the speed of the CUDA kernels on an H100 from what their PTX executes. It needs no GPU.

    python -m benchmarks.gpu.model                             # or: make cuda-model
    python -m benchmarks.gpu.model --op reorg --against measured.json

Some blocks of each launch of a case are executed in the interpreter of ``tests/ptx``: about 4096 threads, or all where
a pass has several small launches. Counted are the instructions of each warp, the 32-byte sectors of global memory, the
wavefronts of shared memory, and how often a warp waits for loads. Registers and shared memory are those that ptxas
names for sm_90.

The parts of a GPU work at the same time, but not wholly: a launch takes a norm of the times that each part would need
alone, and a constant time between two launches. ``h100.py`` has the numbers, and says which of them are fitted.
What the blocks of a row tell each other takes no time here, and neither do barriers.
"""
from __future__ import annotations

import argparse
import math
import pathlib
import statistics
import sys
from collections.abc import Iterator, Sequence

from gluonops.core import rtc

from ..harness import results
from ..harness.cases import Case, on_gpu, title
from . import counts, h100

CLOCKS = h100.PROCESSORS * h100.HERTZ   # All processors together have so many per second.
NEAR = 0.2   # an estimate that is off by less


def speed(found: counts.Pass) -> float:
    """The expected share of a copy's speed."""
    return (found.bytes / h100.COPIED + h100.LAUNCH) / estimate(found)


def estimate(found: counts.Pass) -> float:
    """The seconds of a pass."""
    return sum(together(parts) + h100.LAUNCH for parts in of_launches(found))


def together(parts: dict[str, float]) -> float:
    """The time of a launch: parts of the GPU work at the same time, but not wholly."""
    return sum(part ** h100.OVERLAP for part in parts.values()) ** (1 / h100.OVERLAP)


def of_launches(found: counts.Pass) -> list[dict[str, float]]:
    """The seconds that each part of the GPU would need alone, for each launch."""
    return [seconds(launched, size) for launched, size in zip(found.launches, moved(found))]


def moved(found: counts.Pass) -> list[float]:
    """The bytes of each launch from and to memory: not those that a launch before has left in the cache."""
    left, sizes = set(), []
    for launched in found.launches:
        sizes.append(sum(size for (name, _), size in launched.footprint.items() if name not in left))
        left |= {name for name, _ in launched.footprint if found.sizes[name] < h100.CACHE / 2}
    return sizes


def seconds(launched: counts.Launched, size: float) -> dict[str, float]:
    """The time that each part of the GPU would need alone for a launch that moves so many bytes."""
    executed = launched.executed
    issued = sum(h100.slots(name) * warps for name, warps in executed.items())
    special = sum(warps for name, warps in executed.items() if h100.ON_SPECIAL_UNIT.fullmatch(name))
    float64 = sum(warps for name, warps in executed.items() if h100.IN_FLOAT64.fullmatch(name))
    on_average = of_warp(sum(executed.values()) / (launched.blocks * launched.warps), launched.waits)
    return {
        "issue": issued / (h100.SCHEDULERS * CLOCKS),
        "memory": size / h100.COPIED,
        "cache": counts.SECTOR * launched.touched / h100.CACHED,
        "load/store": (launched.requested / h100.SECTORS + launched.wavefronts) / CLOCKS,
        "special": counts.WARP * special / (h100.SPECIAL * CLOCKS),
        "float64": counts.WARP * float64 / (h100.FLOAT64 * CLOCKS),
        "latency": max(rounds(launched) * on_average, of_warp(*launched.longest)),
    }


def of_warp(instructions: float, waits: float) -> float:
    """The seconds of a warp that waits for itself alone: for its loads, and for each of its instructions."""
    return waits * h100.WAIT + instructions * h100.CHAIN / h100.HERTZ


def rounds(launched: counts.Launched) -> float:
    """How many blocks follow one another in each place for a block. Of many, some end early, and others take over."""
    exact = launched.blocks / (h100.PROCESSORS * resident(launched))
    return math.ceil(exact) if exact < 4 else exact + 0.5


def resident(launched: counts.Launched) -> int:
    """The blocks that a multiprocessor has at a time."""
    registers = -(-launched.registers * counts.WARP // 256) * 256   # A warp gets them in units of 256.
    return max(1, min(
        h100.BLOCKS,
        h100.THREADS // (counts.WARP * launched.warps),
        h100.REGISTERS // (registers * launched.warps),
        (h100.SHARED - 1024) // (launched.shared + 1024)))


def lines(case: Case, passes: dict[str, counts.Pass], measured: dict[str, float]) -> Iterator[str]:
    """A case as text: what it executes, what is expected, and what was measured in milliseconds."""
    yield case.title
    for direction, found in passes.items():
        executed = sum(sum(launched.executed.values()) for launched in found.launches)
        waits = sum(launched.waits for launched in found.launches)
        parts = {name: sum(launch[name] for launch in of_launches(found)) for name in of_launches(found)[0]}
        parts["launches"] = h100.LAUNCH * len(found.launches)
        bound = max(parts, key=parts.get)
        expected = estimate(found)
        yield (f"  {direction:<9}{found.bytes / 1e6:7.1f} MB"
               f"  {counts.WARP * executed / found.bytes:6.2f} instructions/B"
               f"  {waits:5.1f} waits  launches {len(found.launches)}")
        yield (f"    bound by {bound:<10}  {1e6 * parts[bound]:8.1f} us of  {1e6 * expected:8.1f} us"
               f"  {speed(found):5.2f} x copy")
        if direction in measured:
            ms = measured[direction]
            yield f"    measured  {1e3 * ms:8.1f} us: the estimate is {1e3 * expected / ms:.2f} of it"


def errors_of(ratios: Sequence[float]) -> str:
    """How far the estimates are off, from their ratios to the times measured."""
    off = [math.exp(abs(math.log(ratio))) - 1 for ratio in ratios]
    near = sum(one < NEAR for one in off)
    return f"{len(off)} passes, off by {statistics.median(off):.0%} in the median; {near} by less than {NEAR:.0%}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.model", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", action="append", choices=rtc.operators(), help="only this operator; may be repeated")
    parser.add_argument("--against", type=pathlib.Path, metavar="FILE",
                        help="compare with times on an H100: a JSON of python -m benchmarks.gpu")
    args = parser.parse_args(arguments)
    records = results.load(args.against)["cases"] if args.against else []
    measured = {title(record): {row["pass"]: row["ms"] for row in record["times"] if row["peer"] == "gluonops"}
                for record in records}
    ratios = []
    for case in on_gpu(args.op or rtc.operators()):
        passes, real = counts.count(case), measured.get(case.title, {})
        print("\n".join(lines(case, passes, real)), flush=True)
        ratios += [1e3 * estimate(passes[direction]) / real[direction] for direction in passes.keys() & real.keys()]
    if ratios:
        print(errors_of(ratios))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
