"""Estimate the speed of the CUDA kernels on several GPUs from what their PTX executes. It needs no GPU.

    python -m benchmarks.gpu.model                             # or: make cuda-model
    python -m benchmarks.gpu.model --op reorg --against measured.json

Each case is executed in the interpreter of ``tests/ptx``, cut along its first axis to about ``ELEMENTS`` elements. Its
counts are scaled with its rows. The parts of a GPU work at the same time, but not wholly: issuing instructions, moving
bytes, special functions, float64. README.md describes the method and its errors.
"""
from __future__ import annotations

import argparse
import dataclasses
import math
import pathlib
import sys
from collections.abc import Iterator, Sequence

from gluonops.core import rtc

from ..common import results, suites, tables
from . import cases, compare, plan, report
from .data_sheets import COPIED, GPUS, IN_FLOAT64, LAUNCH, ON_SPECIAL_UNIT, SCHEDULERS, SECTORS, SPECIAL, slots
from .data_sheets import GPU as DataSheet

ELEMENTS = 1 << 16
MOST_ELEMENTS = 1 << 21   # a case that cannot be cut below is left out
WARP, SECTOR = 32, 32
OVERLAP = 2.5             # 1: one part after the other; infinity: as long as the slowest. Fitted to reorg on an H100
JUDGED = "H100"           # the GPU that the targets are about


@dataclasses.dataclass(frozen=True)
class Work:
    """What one pass of a case executes; ``slots`` and the others are sums over warps."""
    bytes: int
    instructions: float
    slots: float
    special: float
    float64: float
    sectors: float
    wavefronts: float
    divergence: float
    launches: int

    def seconds(self, gpu: DataSheet) -> dict[str, float]:
        """The time that each part of the GPU would need alone."""
        per_clock = gpu.processors * gpu.ghz * 1e9
        return {
            "issue": self.slots / (SCHEDULERS * per_clock),
            "memory": max(self.bytes, SECTOR * self.sectors) / (COPIED * gpu.gigabytes * 1e9),
            "load/store": (self.sectors / SECTORS + self.wavefronts) / per_clock,
            "special": WARP * self.special / (SPECIAL * per_clock),
            "float64": WARP * self.float64 / (gpu.fp64 * per_clock),
        }

    def copy_seconds(self, gpu: DataSheet) -> float:
        """A copy of as many bytes."""
        return self.bytes / (COPIED * gpu.gigabytes * 1e9) + LAUNCH

    def estimate(self, gpu: DataSheet) -> float:
        """Seconds."""
        together = sum(part ** OVERLAP for part in self.seconds(gpu).values()) ** (1 / OVERLAP)
        return together + self.launches * LAUNCH

    def share(self, gpu: DataSheet) -> float:
        """The expected share of a copy's speed."""
        return self.copy_seconds(gpu) / self.estimate(gpu)


def cut(case: cases.Case) -> cases.Case | None:
    """A case with fewer rows along the first axis; None if one row is too much to execute."""
    rows = case.shape[0]
    each = math.prod(case.shape[1:])
    kept = min(rows, max(1, ELEMENTS // each))
    tiles = case.attrs.get("tiles", 1)
    if kept * each * (math.prod(tiles) if isinstance(tiles, tuple) else tiles) > MOST_ELEMENTS:
        return None
    more = {name: (kept, *shape[1:]) if shape[0] == rows else shape for name, shape in case.more.items()}
    return dataclasses.replace(case, shape=(kept, *case.shape[1:]), more=more)


def work(case: cases.Case) -> dict[str, Work]:
    """Pass -> what it executes, for a case as large as it is; none for a case that cannot be cut."""
    smaller = cut(case)
    if smaller is None:
        return {}
    ptx = suites.from_tests("ptx.runner")
    counter = suites.from_tests("ptx.counter").Counter()
    planned = plan.make([smaller, case])
    interpreter = ptx.Interpreter(counter=counter, checks=False)
    interpreter.load(planned["programs"])
    executed, whole = planned["cases"]
    interpreter.prepare(executed, compare.inputs(executed), {})
    factor = case.shape[0] / smaller.shape[0]
    found = {}
    for direction, launched in executed["passes"].items():
        counter.reset()
        interpreter.launch(direction)
        found[direction] = _work(counter, launched, factor, whole["passes"][direction]["bytes"])
    return found


def _work(counter, launched: dict, factor: float, moved: int) -> Work:
    """The counts of a pass, scaled to the whole case, which moves so many bytes."""
    names = counter.executed
    return Work(
        bytes=moved,
        instructions=factor * sum(names.values()),
        slots=factor * sum(slots(name) * count for name, count in names.items()),
        special=factor * sum(count for name, count in names.items() if ON_SPECIAL_UNIT.fullmatch(name)),
        float64=factor * sum(count for name, count in names.items() if IN_FLOAT64.fullmatch(name)),
        sectors=sum(counter.sectors.values()) * moved / launched["bytes"],
        wavefronts=factor * counter.wavefronts,
        divergence=counter.divergence,
        launches=len(launched["launches"]))


def verdicts(case: cases.Case, passes: dict[str, Work]) -> list[dict]:
    """The operator's targets against a copy, judged by the estimate."""
    gpu = next(gpu for gpu in GPUS if gpu.name == JUDGED)
    judged = []
    for target in report.targets(case.op):
        if target.than == "copy" and target.part in passes:
            share = passes[target.part].share(gpu)
            judged.append(tables.verdict(f"{title(case)}, {target.part}", f"at least {target.at_least:g} x copy",
                                         f"{share:.2f} x", share >= target.at_least))
    return judged


def title(case: cases.Case) -> str:
    return f"{case.name} ({'x'.join(map(str, case.shape))}) {case.dtype}"


def lines(case: cases.Case, passes: dict[str, Work], measured: dict) -> Iterator[str]:
    """A case as text: what it executes, and what is expected of each GPU."""
    yield title(case)
    if not passes:
        yield "  left out: one row is too much to execute"
    for direction, counted in passes.items():
        yield (f"  {direction:<9}{tables.amount(counted.bytes):>10}"
               f"  {WARP * counted.slots / counted.bytes:6.2f} slots/B"
               f"  sectors x{SECTOR * counted.sectors / counted.bytes:.2f}"
               f"  wavefronts {counted.wavefronts:.3g}"
               f"  idle lanes {counted.divergence:.0%}"
               f"  launches {counted.launches}")
        for gpu in GPUS:
            yield _expected(counted, gpu)
        real = measured.get((case.name, case.shape, case.dtype), {}).get(direction)
        if real:
            gpu = next(gpu for gpu in GPUS if gpu.name == JUDGED)
            yield f"    measured  {1e3 * real:8.1f} us: the estimate is {1e3 * counted.estimate(gpu) / real:.2f} of it"


def _expected(counted: Work, gpu: DataSheet) -> str:
    seconds = counted.seconds(gpu)
    return (f"    {gpu.name:<9} issue/memory {seconds['issue'] / seconds['memory']:5.2f}"
            f"  bound by {max(seconds, key=seconds.get):<10}"
            f"  {1e6 * counted.estimate(gpu):8.1f} us"
            f"  {counted.share(gpu):5.2f} x copy")


def times(path: pathlib.Path | None) -> dict:
    """(Name, shape, dtype) -> pass -> milliseconds, from a JSON of ``python -m benchmarks.gpu``."""
    if path is None:
        return {}
    return {(record["name"], tuple(record["shape"]), record["dtype"]): record["ms"].get("gluonops", {})
            for record in results.load(path)["cases"]}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.model", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", action="append", choices=rtc.operators(), help="only this operator; may be repeated")
    parser.add_argument("--against", type=pathlib.Path, metavar="FILE",
                        help=f"compare with times on an {JUDGED}: a JSON of python -m benchmarks.gpu")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write what was counted")
    args = parser.parse_args(arguments)
    measured, judged, records = times(args.against), [], []
    for case in cases.cases(ops=args.op):
        passes = work(case)
        print("\n".join(lines(case, passes, measured)), flush=True)
        judged += verdicts(case, passes)
        records.append({"name": case.name, "shape": case.shape, "dtype": case.dtype,
                        "passes": {name: dataclasses.asdict(counted) for name, counted in passes.items()}})
    if judged:
        print(f"\n{tables.targets_text(judged)}")
    if args.json:
        results.save(args.json, {"targets": judged, "cases": records})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
