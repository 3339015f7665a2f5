"""Check and time the CUDA kernels on an NVIDIA GPU, against a copy within its memory, torch and Liger-Kernel.

    python -m benchmarks.gpu --check-only --plan plan.json      # anywhere: compile, count bytes, write a plan
    python -m benchmarks.gpu --plan plan.json --json gpu.json   # on the GPU: CuPy and NumPy are enough, no MXNet
    python -m benchmarks.gpu --runner mxnet --plan plan.json    # on the GPU: our operators, through MXNet's mx.rtc

Every operator's results are compared with NumPy's first; one that differs gets no figures. The exit status is 0, 1
where a result differs, 2 for a misspelled command, 3 where there is no GPU (the kernels were compiled and nothing was
run), 4 where a Python package is missing.
"""
from __future__ import annotations

import argparse
import pathlib
import statistics
import sys
from collections.abc import Sequence

import numpy as np

from ..harness import cases, results
from ..harness.cases import title
from ..harness.command import Benchmark
from ..harness.report import README
from . import compare, peers, report
from .runners import RUNNERS, NoGPU, Runner

BENCHMARK = Benchmark("benchmarks.gpu", __doc__, README, "gpu", title, report.text, report.verdicts, report.summary)
NO_GPU, MISSING = 3, 4
CALLS = 10   # queued behind one another for every time that is taken
PARTS = {"forward": ("forward",), "backward": ("backward",), "both": ("forward", "backward")}
REMEDIES = {"cupy": "Install it (`pip install cupy-cuda12x` for a driver of CUDA 12), or choose --runner mxnet",
            "gluonops": "Install gluonops, or bring a plan from where it is installed (--check-only --plan FILE) for "
                        "--runner cupy"}


def measure(runner: Runner, case: dict, torch: peers.Torch | None, samples: int) -> dict:
    """Check a case, then time it; returns its record for the JSON."""
    parts = {part: passes for part, passes in PARTS.items() if all(p in case["passes"] for p in passes)}
    moved = {part: sum(case["passes"][p]["bytes"] for p in passes) for part, passes in parts.items()}
    record = {
        **{key: case[key] for key in ("op", "name", "shape", "dtype")},
        "bytes": moved,
        "data_bytes": int(np.prod(case["shape"])) * np.dtype(case["dtype"]).itemsize,
        "mismatches": {},
        "times": [],
        "with_launches": [],
    }
    given = compare.inputs(case)
    runner.prepare(case, given, compare.before(case))
    wrong = check(runner, case, given)
    if wrong:
        record["mismatches"][report.OURS] = wrong
    elif samples:
        steps = {**steps_of(runner, parts, moved), **(torch.steps(case, given) if torch else {})}
        for (peer, part), (ms, hidden) in timed(runner, steps, samples).items():
            record["times"].append({"peer": peer, "pass": part, "ms": ms})
            if not hidden:
                record["with_launches"].append(f"{peer} {part}")
    runner.release()
    return record


def steps_of(runner: Runner, parts: dict, moved: dict) -> dict:
    """(peer, part) -> what to time: our kernels, and a copy of as many bytes."""
    steps = {}
    for part, passes in parts.items():
        steps[report.OURS, part] = lambda passes=passes: [runner.launch(p) for p in passes]
    for part in parts:
        steps["copy", part] = runner.copier(moved[part])
    return steps


def check(runner: Runner, case: dict, given: dict) -> str | None:
    """What is wrong with the results, or None."""
    rows = compare.sample(case)
    wanted = compare.expected(case, given, rows)
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


def load(args: argparse.Namespace) -> dict:
    """The plan from --plan where that file is there and is to be run, else a new one."""
    if args.plan and args.plan.exists() and not args.check_only:
        plan = results.load(args.plan)
        plan["cases"] = [case for case in plan["cases"] if not args.op or case["op"] in args.op]
        return plan
    from gluonops.core import rtc

    from . import plan as plans

    chosen = [op for op in rtc.operators() if not args.op or op in args.op]
    plan = plans.make(cases.on_gpu(chosen, args.quick))
    if args.plan:
        results.save(args.plan, plan)
    return plan


def parser() -> argparse.ArgumentParser:
    found = BENCHMARK.parser()
    found.add_argument("--check-only", action="store_true", help="compile, count bytes, and launch nothing")
    found.add_argument("--plan", type=pathlib.Path, metavar="FILE", help="run this plan; made if it is not there, and "
                       "made anew with --check-only")
    found.add_argument("--runner", choices=RUNNERS, default="cupy", help="cupy (default): the kernels alone; mxnet: "
                       "our operators under autograd, with CustomOps through mx.rtc")
    found.add_argument("--op", action="append", help="only this operator; may be repeated")
    found.add_argument("--samples", type=int, default=10, help=f"times of {CALLS} calls each that a median is taken "
                       "of (default 10; 0, and with --quick: check only)")
    return found


def main(arguments: Sequence[str]) -> int:
    options = parser()
    args = options.parse_args(arguments)
    if args.readme:
        return BENCHMARK.write_readme(options, args)
    try:
        plan = load(args)
        if not plan["cases"]:
            options.error(f"there are no cases of {' or '.join(args.op or ['any operator'])}")
        if args.check_only:
            print("\n".join(report.describe(plan)))
            return 0
        runner = RUNNERS[args.runner](args.quick)
    except ImportError as error:
        name, reason = (error.name or "").split(".")[0], " ".join(str(error).split()).rstrip(".")
        remedy = f" {REMEDIES.get(name, f'Install {name}')}." if name else ""   # else the reason has the remedy
        print(f"{name or 'a package'} cannot be imported: {reason}.{remedy}", file=sys.stderr)
        return MISSING
    except NoGPU as error:
        print(f"no GPU to run on ({' '.join(str(error).split())}): {len(plan['programs'])} programs for "
              f"{len(plan['cases'])} cases are compiled, and nothing was launched", file=sys.stderr)
        return NO_GPU
    return run(args, arguments, plan, runner)


def run(args: argparse.Namespace, arguments: Sequence[str], plan: dict, runner: Runner) -> int:
    """Run every case of a plan; returns the exit status."""
    runner.load(plan["programs"])
    try:
        torch = None if args.quick or args.runner == "mxnet" else peers.Torch()
    except ImportError:
        torch = None
    print(f"{runner.name}; {runner.machine}; peers: {'torch' if torch else 'none'}"
          f"{', liger' if torch and torch.liger else ''}", flush=True)
    samples = 0 if args.quick else args.samples
    records = (measure(runner, case, torch, samples) for case in plan["cases"])
    status = BENCHMARK.run(args, arguments, {**runner.machine, "torch": torch and torch.torch.__version__}, records)
    print(f"{len(plan['cases'])} cases, {'some differ' if status else '0 differ'} from NumPy")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
