"""Estimate the speed of the CUDA kernels on several GPUs from what their PTX executes. It needs no GPU.

    python -m benchmarks.gpu.model                             # or: make cuda-model
    python -m benchmarks.gpu.model --op reorg --against measured.json

Some blocks of each launch of a case are executed in the interpreter of ``tests/ptx``: about 4096 threads, or all where
a pass has several small launches. Counted are the instructions of each warp, the 32-byte sectors of global memory, the
wavefronts of shared memory, and how often a warp waits for loads. Registers and shared memory are those that ptxas
names for sm_90.

The parts of a GPU work at the same time, but not wholly: a launch takes a norm of the times that each part would need
alone, and a constant time between two launches. ``data_sheets.py`` has the numbers, and says which of them are fitted.
What the blocks of a row tell each other takes no time here, and neither do barriers.
"""
from __future__ import annotations

import argparse
import dataclasses
import math
import pathlib
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence

from gluonops.core import rtc

from ..harness import report, results
from ..harness.cases import Case, declared, on_gpu, title
from . import counts
from .data_sheets import (
    BLOCKS,
    CACHED,
    CHAIN,
    COPIED,
    GPUS,
    IN_FLOAT64,
    LAUNCH,
    ON_SPECIAL_UNIT,
    OVERLAP,
    REGISTERS,
    SCHEDULERS,
    SECTORS,
    SPECIAL,
    WAIT,
    slots,
)
from .data_sheets import GPU as DataSheet

JUDGED = "H100"   # the GPU that the targets are about


@dataclasses.dataclass(frozen=True)
class Work:
    """What one pass of a case executes."""
    counted: counts.Pass

    def share(self, gpu: DataSheet) -> float:
        """The expected share of a copy's speed."""
        return self.copy_seconds(gpu) / self.estimate(gpu)

    def copy_seconds(self, gpu: DataSheet) -> float:
        """A copy of as many bytes."""
        return self.counted.bytes / (COPIED * gpu.gigabytes * 1e9) + LAUNCH

    def estimate(self, gpu: DataSheet) -> float:
        """Seconds."""
        return sum(together(parts) + LAUNCH for parts in self.seconds(gpu))

    def seconds(self, gpu: DataSheet) -> list[dict[str, float]]:
        """Of each launch, the time that each part of the GPU would need alone."""
        return [seconds(launched, gpu, bytes) for launched, bytes in zip(self.counted.launches, self.moved(gpu))]

    def moved(self, gpu: DataSheet) -> list[float]:
        """The bytes of each launch from and to memory: not those that a launch before has left in the cache."""
        left, found = set(), []
        for launched in self.counted.launches:
            found.append(sum(bytes for (name, _), bytes in launched.footprint.items() if name not in left))
            left |= {name for name, _ in launched.footprint if self.counted.sizes[name] < gpu.cache * 1e6 / 2}
        return found


def together(parts: dict[str, float]) -> float:
    """The time of a launch: parts of the GPU work at the same time, but not wholly."""
    return sum(part ** OVERLAP for part in parts.values()) ** (1 / OVERLAP)


def seconds(launched: counts.Launched, gpu: DataSheet, moved: float) -> dict[str, float]:
    """The time that each part of the GPU would need alone for a launch that moves so many bytes."""
    clocks = gpu.processors * gpu.ghz * 1e9
    executed = launched.executed
    issued = sum(slots(name) * warps for name, warps in executed.items())
    special = sum(warps for name, warps in executed.items() if ON_SPECIAL_UNIT.fullmatch(name))
    float64 = sum(warps for name, warps in executed.items() if IN_FLOAT64.fullmatch(name))
    return {
        "issue": issued / (SCHEDULERS * clocks),
        "memory": moved / (COPIED * gpu.gigabytes * 1e9),
        "cache": counts.SECTOR * launched.touched / (CACHED * gpu.gigabytes * 1e9),
        "load/store": (launched.requested / SECTORS + launched.wavefronts) / clocks,
        "special": counts.WARP * special / (SPECIAL * clocks),
        "float64": counts.WARP * float64 / (gpu.fp64 * clocks),
        "latency": max(rounds(launched, gpu) * alone(launched, gpu), of_warp(*launched.longest, gpu)),
    }


def resident(launched: counts.Launched, gpu: DataSheet) -> int:
    """The blocks that a multiprocessor has at a time."""
    of_warp = -(-launched.registers * counts.WARP // 256) * 256   # registers are given out in units of 256
    limits = (BLOCKS, gpu.threads // (counts.WARP * launched.warps), REGISTERS // (of_warp * launched.warps),
              1024 * (gpu.shared - 1) // (launched.shared + 1024))
    return max(1, min(limits))


def rounds(launched: counts.Launched, gpu: DataSheet) -> float:
    """How many blocks follow one another in each place for a block. Of many, some end early, and others take over."""
    exact = launched.blocks / (gpu.processors * resident(launched, gpu))
    return math.ceil(exact) if exact < 4 else exact + 0.5


def alone(launched: counts.Launched, gpu: DataSheet) -> float:
    """The seconds of a warp, on average."""
    return of_warp(sum(launched.executed.values()) / (launched.blocks * launched.warps), launched.waits, gpu)


def of_warp(instructions: float, waits: float, gpu: DataSheet) -> float:
    """The seconds of a warp that waits for itself alone: for its loads, and for each of its instructions."""
    return waits * WAIT + instructions * CHAIN / (gpu.ghz * 1e9)


def work(case: Case) -> dict[str, Work]:
    """Pass -> what it executes."""
    return {direction: Work(counted) for direction, counted in counts.count(case).items()}


def verdicts(case: Case, passes: dict[str, Work]) -> list[dict]:
    """The operator's targets against a copy, judged by the estimate."""
    judged = []
    for target in declared(case.op).GPU_TARGETS:
        if target.than == "copy" and target.part in passes:
            judged.append(report.compared(f"{case.title}, {target.part}", target.at_least, "copy",
                                          passes[target.part].share(judged_gpu())))
    return judged


def lines(case: Case, passes: dict[str, Work], measured: dict) -> Iterator[str]:
    """A case as text: what it executes, and what is expected of each GPU."""
    yield case.title
    for direction, found in passes.items():
        counted = found.counted
        executed = sum(sum(launched.executed.values()) for launched in counted.launches)
        yield (f"  {direction:<9}{report.amount(counted.bytes):>10}"
               f"  {counts.WARP * executed / counted.bytes:6.2f} instructions/B"
               f"  {sum(launched.waits for launched in counted.launches):5.1f} waits"
               f"  idle lanes {max(launched.idle for launched in counted.launches):.0%}"
               f"  launches {len(counted.launches)}")
        for gpu in GPUS:
            yield _expected(found, gpu)
        real = measured.get(direction)
        if real:
            ratio = 1e3 * found.estimate(judged_gpu()) / real
            yield f"    measured  {1e3 * real:8.1f} us: the estimate is {ratio:.2f} of it"


def judged_gpu() -> DataSheet:
    return next(gpu for gpu in GPUS if gpu.name == JUDGED)


def _expected(found: Work, gpu: DataSheet) -> str:
    parts, bound = bound_by(found, gpu)
    return (f"    {gpu.name:<9} bound by {bound:<10}  {1e6 * parts[bound]:8.1f} us of"
            f"  {1e6 * found.estimate(gpu):8.1f} us  {found.share(gpu):5.2f} x copy")


def bound_by(found: Work, gpu: DataSheet) -> tuple[dict[str, float], str]:
    """(Seconds of each part of the GPU in all launches, and of launching; the part that takes longest)."""
    launches = found.seconds(gpu)
    parts = {name: sum(launch[name] for launch in launches) for name in launches[0]}
    parts["launches"] = LAUNCH * len(launches)
    return parts, max(parts, key=parts.get)


def error_lines(errors: Iterable[tuple[str, str, float]]) -> Iterator[str]:
    """The estimates over the times measured, of (operator, case and pass, ratio): of each operator, and of all."""
    by_operator = {}
    for op, name, ratio in errors:
        by_operator.setdefault(op, []).append((ratio, name))
        by_operator.setdefault("all", []).append((ratio, name))
    for op, found in sorted(by_operator.items(), key=lambda item: (item[0] == "all", item[0])):
        off = [abs(math.log(ratio)) for ratio, _ in found]
        ratio, name = found[off.index(max(off))]
        yield (f"{op:<30} {len(found):3} passes  off by {math.exp(statistics.median(off)) - 1:4.0%} in the median"
               f"  worst {ratio:.2f}: {name}")


def times(path: pathlib.Path | None) -> dict:
    """Title of a case -> pass -> our milliseconds, from a JSON of ``python -m benchmarks.gpu``."""
    if path is None:
        return {}
    return {title(record): {row["pass"]: row["ms"] for row in record["times"] if row["peer"] == "gluonops"}
            for record in results.load(path)["cases"]}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.model", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", action="append", choices=rtc.operators(), help="only this operator; may be repeated")
    parser.add_argument("--against", type=pathlib.Path, metavar="FILE",
                        help=f"compare with times on an {JUDGED}: a JSON of python -m benchmarks.gpu")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write what was counted")
    args = parser.parse_args(arguments)
    measured, judged, records, errors = times(args.against), [], [], []
    for case in on_gpu(args.op or rtc.operators()):
        passes, real = work(case), measured.get(case.title, {})
        print("\n".join(lines(case, passes, real)), flush=True)
        judged += verdicts(case, passes)
        for direction, ms in real.items():
            if direction in passes:
                ratio = 1e3 * passes[direction].estimate(judged_gpu()) / ms
                errors.append((case.op, f"{case.title}, {direction}", ratio))
        records.append({"name": case.name, "shape": case.shape, "dtype": case.dtype, "passes": {
            direction: {"share": found.share(judged_gpu()), "us": 1e6 * found.estimate(judged_gpu()),
                        "parts": bound_by(found, judged_gpu())[0]} for direction, found in passes.items()}})
    if judged:
        print(f"\n{report.targets_text(judged)}")
    print("\n".join(error_lines(errors)))
    if args.json:
        results.save(args.json, {"targets": judged, "cases": records})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
