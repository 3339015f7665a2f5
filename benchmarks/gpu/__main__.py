"""Check and time the CUDA kernels on an NVIDIA GPU, against a copy within its memory, torch and Liger-Kernel.

    python -m benchmarks.gpu --check-only --plan plan.json      # anywhere: compile, count bytes, write a plan
    python -m benchmarks.gpu --plan plan.json --json gpu.json   # on the GPU: CuPy and NumPy are enough, no MXNet

Every operator's results are compared with NumPy's first; one that differs gets no figures. The exit status is 0, 1
where a result differs, 2 for a misspelled command, 3 where there is no GPU (the kernels were compiled and nothing was
run), 4 where a Python package is missing.
"""
from __future__ import annotations

import argparse
import math
import pathlib
import statistics
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from ..harness import cases, machine, report, results
from ..harness.command import Benchmark
from ..harness.declaration import Target
from . import compare, peers
from .runners import CuPy, NoGPU, Runner

OURS = "gluonops"
LARGE = 64e6   # bytes of data from which the targets hold; smaller tensors may lie in the GPU's cache
NO_GPU, MISSING = 3, 4
CALLS = 10   # queued behind one another for every time that is taken
PARTS = {"forward": ("forward",), "backward": ("backward",), "both": ("forward", "backward")}
REMEDIES = {"cupy": "`pip install cupy-cuda12x` for a driver of CUDA 12",
            "gluonops": "Install gluonops, or bring a plan from where it is installed (--check-only --plan FILE)"}


class Gpu(Benchmark):
    """The command."""
    module, about, section = "benchmarks.gpu", __doc__, "gpu"
    columns = {part: {"pass": part} for part in PARTS}

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--check-only", action="store_true", help="compile, count bytes, and launch nothing")
        parser.add_argument("--plan", type=pathlib.Path, metavar="FILE", help="run this plan; made if it is not there, "
                            "and made anew with --check-only")
        parser.add_argument("--op", action="append", help="only this operator; may be repeated")
        parser.add_argument("--samples", type=int, default=10, help=f"times of {CALLS} calls each that a median is "
                            "taken of (default 10; 0, and with --quick: check only)")

    def title(self, record: dict) -> str:
        return cases.title(record)

    def ours(self, record: dict) -> str:
        return OURS

    def targets(self, record: dict) -> Sequence[Target]:
        return cases.declared(record["op"]).GPU_TARGETS if record["data_bytes"] >= LARGE else ()

    def table(self, measured: dict) -> str:
        """A line for each operator: over its cases, the lowest and the highest share of a copy's speed and torch's."""
        records = {}
        for record in measured["cases"]:
            records.setdefault(record["op"], []).append(record)
        lines = []
        for op, records_of_op in records.items():
            lines.append([op, str(len(records_of_op))])
            for peer, part in (("copy", "forward"), ("copy", "backward"), ("torch", "both")):
                speedups = [report.speedup(record, OURS, peer, **self.columns[part]) for record in records_of_op]
                ratios = sorted(report.cells(filter(None, speedups), "{:.2f}"), key=float)
                lines[-1].append(" to ".join(dict.fromkeys([*ratios[:1], *ratios[-1:]])))
        head = ["operator", "cases", "forward, of a copy", "backward, of a copy", "both, of torch"]
        return report.markdown(head, lines)

    def made_on(self, measured: dict) -> str:
        on = measured["machine"]
        return f"{on['gpu']}; CuPy {on['cupy']}, torch {on['torch']}; {measured['date']}; `{measured['command']}`"

    def text(self, record: dict) -> str:
        launched = f"\n  the cost of launching is in: {', '.join(record['with_launches'])}"
        return super().text(record) + (launched if record["with_launches"] else "")

    def run(self, args: argparse.Namespace, arguments: Sequence[str]) -> int:
        self.plan = load(args)
        if not self.plan["cases"]:
            self.parser().error(f"there are no cases of {' or '.join(args.op or ['any operator'])}")
        if args.check_only:
            print(f"{len(self.plan['cases'])} cases, {len(self.plan['programs'])} programs compiled, no warnings")
            return 0
        try:
            self.runner = CuPy(args.quick)
        except NoGPU as error:
            print(f"no GPU to run on ({' '.join(str(error).split())}): {len(self.plan['programs'])} programs for "
                  f"{len(self.plan['cases'])} cases are compiled, and nothing was launched", file=sys.stderr)
            return NO_GPU
        self.samples = 0 if args.quick else args.samples
        status = super().run(args, arguments)
        print(f"{len(self.plan['cases'])} cases, {'some differ' if status else '0 differ'} from NumPy")
        return status

    def machine(self) -> dict:
        return {**self.runner.machine, "torch": machine.version("torch")}

    def records(self, args: argparse.Namespace) -> Iterator[dict]:
        self.runner.load(self.plan["programs"])
        for case in self.plan["cases"]:
            yield measure(self.runner, case, self.samples)


def load(args: argparse.Namespace) -> dict:
    """The plan from --plan where that file is there and is to be run, else a new one."""
    if args.plan and args.plan.exists() and not args.check_only:
        plan = results.load(args.plan)
        plan["cases"] = [case for case in plan["cases"] if not args.op or case["op"] in args.op]
        return plan
    from gluonops.cuda import rtc

    from . import plan as plans

    chosen = [op for op in rtc.operators() if not args.op or op in args.op]
    plan = plans.make(cases.on_gpu(chosen, args.quick))
    if args.plan:
        results.save(args.plan, plan)
    return plan


def measure(runner: Runner, case: dict, samples: int) -> dict:
    """Check a case, then time it; returns its record for the JSON."""
    parts = {part: passes for part, passes in PARTS.items() if all(p in case["passes"] for p in passes)}
    record = {
        **{key: case[key] for key in ("op", "name", "shape", "dtype")},
        "data_bytes": math.prod(case["shape"]) * np.dtype(case["dtype"]).itemsize,
        "mismatches": {},
        "times": [],
        "with_launches": [],
    }
    arrays = compare.inputs(case)
    runner.prepare(case, arrays, compare.before(case))
    wrong = check(runner, case, arrays)
    if wrong:
        record["mismatches"][OURS] = wrong
    elif samples:
        steps = {}
        for part, passes in parts.items():
            steps[OURS, part] = lambda passes=passes: [runner.launch(p) for p in passes]
            steps["copy", part] = runner.copier(sum(case["passes"][p]["bytes"] for p in passes))
        steps.update(peers.steps(case, arrays))
        for (peer, part), (ms, hidden) in timed(runner, steps, samples).items():
            record["times"].append({"peer": peer, "pass": part, "ms": ms})
            if not hidden:
                record["with_launches"].append(f"{peer} {part}")
    runner.release()
    return record


def check(runner: Runner, case: dict, arrays: dict) -> str | None:
    """What is wrong with the results, or None."""
    rows = compare.sample(case)
    wanted = compare.expected(case, arrays, rows)
    whole = case["passes"]["forward"]["written"] if rows is None else []
    computed, added = runner.run({name: wanted[name].astype(case["arrays"][name][1]) for name in whole})
    problems = [compare.differs(case, name, array, wanted[name], rows, added.get(name))
                for name, array in computed.items()]
    problems += [f"something was written in front of {name}" for name in runner.spilled()]
    return "; ".join(filter(None, problems)) or None


def timed(runner: Runner, steps: dict, samples: int) -> dict:
    """(Median milliseconds, whether they are the GPU's alone) of every step, taken in turns so that a change of the
    GPU's clock hits all alike."""
    for function in steps.values():
        runner.time(function, 3)
    times = {key: [] for key in steps}
    for _ in range(samples):
        for key, function in steps.items():
            times[key].append(runner.time(function, CALLS))
    return {key: (statistics.median(ms for ms, _ in values), all(hidden for _, hidden in values))
            for key, values in times.items()}


def main(arguments: Sequence[str]) -> int:
    try:
        return Gpu().main(arguments)
    except ImportError as error:
        name = (error.name or "a package").split(".")[0]
        print(f"{name} cannot be imported: {error}. {REMEDIES.get(name, f'Install {name}')}.", file=sys.stderr)
        return MISSING


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
