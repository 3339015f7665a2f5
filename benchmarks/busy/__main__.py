"""Time operators, networks and a training step with nothing set by hand, while other processes use the cores.

No variable of MXNet, OpenMP or malloc is set, but for the training of detectors in torch: glibc keeps memory there, as
gluonops does by itself. Every peer has a process of its own, and they are called in turn, first
on the quiet machine, then beside one and two busy processes for every core.
"""
from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import numpy as np

from ..common import machine, results, tables
from . import report
from .cases import BESIDE, CASES, COMPILED, LOADS, ORT, READY, TORCH, Case
from .load import busy

MODULE = "benchmarks.busy"
ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
TURNS, SECONDS = 5, 0.25   # of every peer, at every load
SETTINGS = ("OMP_", "GOMP_", "KMP_", "MKL_", "MXNET_", "MALLOC_", "GLUONOPS_")
NEEDS = {ORT: "onnxruntime", TORCH: "torch", BESIDE: "torch", COMPILED: "torch"}


class Worker:
    """A peer's process."""

    def __init__(self, case: Case, peer: str, folder: str):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
        if case.kind == "detector" and peer in (TORCH, COMPILED):
            environment.update(machine.KEEPING_MALLOC)
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.busy.work", case.name, peer, folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env={**environment, "MXNET_SUBGRAPH_VERBOSE": "0"})

    def wait(self) -> None:
        """Until it has called its peer once. A process that still imports would not leave the machine quiet."""
        if self.process.stdout.readline().strip() != READY:
            raise RuntimeError(f"{' '.join(self.process.args)} ended with {self.process.wait()}")

    def time(self, seconds: float) -> list[float]:
        """The seconds of its calls."""
        print(seconds, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES],
                        help="only this one; may be given several times")
    parser.add_argument("--load", action="append", type=int, choices=LOADS, help="only so many busy processes for "
                        "every core; may be given several times")
    parser.add_argument("--turns", type=int, default=TURNS, help="of every peer (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of every turn (default: %(default)s)")
    parser.add_argument("--files", type=pathlib.Path, metavar="DIR", help="keep the exported networks here, for the "
                        "next run")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the results, which replace those of "
                        "the same cases in the file (with --readme: read)")
    parser.add_argument("--readme", action="store_true",
                        help="measure nothing; write the results of --json into README.md")
    return parser


def export(case: Case, folder: str) -> None:
    """Write a network's files into a folder, unless they are there."""
    if case.kind == "net" and not (pathlib.Path(folder) / "net.onnx").exists():
        subprocess.run([sys.executable, "-m", "benchmarks.networks.nets", case.what, str(case.shape[-1]), folder],
                       check=True, cwd=ROOT)


def files_of(case: Case, files: pathlib.Path | None) -> contextlib.AbstractContextManager[str]:
    """The folder of a case's files: one that stays, within ``files``, or a temporary one."""
    if files is None:
        return tempfile.TemporaryDirectory()
    folder = (files / case.what).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return contextlib.nullcontext(str(folder))


def measure(case: Case, loads: Sequence[int], turns: int, seconds: float, files: pathlib.Path | None) -> dict:
    """All peers of a case at all loads; the times are milliseconds."""
    with files_of(case, files) as folder:
        export(case, folder)
        workers = {peer: Worker(case, peer, folder) for peer in case.peers if is_installed(peer)}
        try:
            for worker in workers.values():
                worker.wait()
            return {"name": case.name, "times": [row for load in loads for row in rows(workers, load, turns, seconds)]}
        finally:
            for worker in workers.values():
                worker.close()


def is_installed(peer: str) -> bool:
    return peer not in NEEDS or importlib.util.find_spec(NEEDS[peer]) is not None


def rows(workers: dict[str, Worker], load: int, turns: int, seconds: float) -> list[dict]:
    """A row for every peer at one load."""
    taken = {peer: [] for peer in workers}
    with busy(load):
        for _ in range(turns):
            for peer, worker in workers.items():
                taken[peer] += worker.time(seconds)
    return [{"peer": peer, "load": load, "p50": 1e3 * np.percentile(calls, 50), "p90": 1e3 * np.percentile(calls, 90),
             "calls": len(calls)} for peer, calls in taken.items()]


def measure_all(args: argparse.Namespace, arguments: Sequence[str]) -> dict:
    """Measure; returns the content of the JSON, which is written after each case."""
    measured = {"date": datetime.date.today().isoformat(), "command": machine.command(MODULE, arguments),
                "machine": machine.describe(), "cases": []}
    if args.json and args.json.exists():
        measured["cases"] = results.load(args.json)["cases"]
    order = [case.name for case in CASES]
    for case in CASES:
        if args.case and case.name not in args.case:
            continue
        found = measure(case, args.load or LOADS, args.turns, args.seconds, args.files)
        others = [other for other in measured["cases"] if other["name"] != case.name]
        measured["cases"] = sorted([*others, found], key=lambda one: order.index(one["name"]))
        if args.json:
            results.save(args.json, measured)
    return measured


def main(arguments: Sequence[str]) -> int:
    parser = options()
    args = parser.parse_args(arguments)
    if args.readme:
        if not args.json:
            parser.error("--readme needs --json FILE, the results to write")
        tables.put(README, "busy", report.summary(results.load(args.json)))
        return 0
    print(report.text(measure_all(args, arguments)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
