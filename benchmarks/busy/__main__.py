"""Time operators, networks and training steps with nothing set by hand, while other processes use the cores.

No variable of MXNet, OpenMP or malloc is set, but for the training of detectors in torch: glibc keeps memory there, as
gluonops does by itself. Every peer has a process of its own, and they are called in turn, first on the quiet machine,
then beside a busy process for every core.
"""
from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import numpy as np

from ..harness import machine, report, turns
from ..harness.command import Benchmark
from ..harness.declaration import Target
from ..networks import exported

OURS, ORT, TORCH = PEERS = "gluonops", "onnxruntime", "torch"
PEERS_OF = {"operator": PEERS, "net": PEERS, "training": (OURS, TORCH), "detector": (OURS, TORCH)}
TURNS, SECONDS = 6, 0.25   # turns of every peer at every load, and the seconds of each
LOADS = 0, 1   # busy processes for every core


@dataclasses.dataclass(frozen=True)
class Case:
    """An operator, or a step of a network, on data of a shape.

    ``kind``: what ``work.py`` makes of it. That of a detector trains too, a net with batch norms and region loss.
    """
    name: str
    kind: str
    what: str
    shape: tuple[int, ...]


CASES = {case.name: case for case in (
    Case("reorg, 23.7 MB", "operator", "reorg", (16, 64, 76, 76)),
    Case("softmax, 64 kB", "operator", "softmax", (16, 1000)),
    Case("softmax, 1 MB", "operator", "softmax", (256, 1000)),
    Case("tiny_yolov2, 416 x 416", "net", "tiny_yolov2", (1, 3, 416, 416)),
    Case("yolov2, 416 x 416", "net", "yolov2", (1, 3, 416, 416)),
    Case("darknet19, 224 x 224", "net", "darknet19", (1, 3, 224, 224)),
    Case("LeNet, a training step of 32", "training", "lenet", (32, 1, 28, 28)),
    Case("LeNet of 16 and 48 channels, a training step of 32", "training", "lenet16", (32, 1, 28, 28)),
    Case("tiny_yolov2, a training step of 8 x 128 x 128", "detector", "tiny_yolov2", (8, 3, 128, 128)),
    Case("tiny_yolov2, a training step of 4 x 416 x 416", "detector", "tiny_yolov2", (4, 3, 416, 416)),
    Case("default detector, a training step of 16 x 192 x 192", "detector", "half of tiny_yolov2", (16, 3, 192, 192)),
)}
QUICK = "softmax, 64 kB"
QUIET_MEDIAN, BUSY_TAIL = "quiet, median", "busy, 9 of 10"
OURS_ON_A_QUIET_MACHINE = "gluonops' median on a quiet machine"
# Each kind of case has some, and so have all together.
TARGETS = {
    "net": [Target(QUIET_MEDIAN, ORT, 1 / 1.05)],
    "detector": [Target(QUIET_MEDIAN, TORCH, 1.3)],
}
ALL_TARGETS = [Target(BUSY_TAIL, OURS_ON_A_QUIET_MACHINE, 1 / 2.5), Target(BUSY_TAIL, ORT, 1),
               Target(BUSY_TAIL, TORCH, 1)]


class Busy(Benchmark):
    """The command."""
    module, about, section = "benchmarks.busy", __doc__, "busy"
    page = report.ROOT / "docs" / "performance.md"
    columns = {QUIET_MEDIAN: {"load": 0, "figure": "p50"}, "quiet, 9 of 10": {"load": 0, "figure": "p90"},
               "busy, median": {"load": 1, "figure": "p50"}, BUSY_TAIL: {"load": 1, "figure": "p90"}}

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--case", action="append", choices=CASES, help="only this one; may be given several times")
        parser.add_argument("--turns", type=int, default=TURNS, help="of every peer (default: %(default)s)")

    def records(self, args: argparse.Namespace) -> Iterator[dict]:
        for name in [QUICK] if args.quick else args.case or CASES:
            yield measure(CASES[name], *((1, 0.02) if args.quick else (args.turns, SECONDS)))

    def title(self, record: dict) -> str:
        return record["name"]

    def ours(self, record: dict) -> str:
        return OURS

    def targets(self, record: dict) -> list[Target]:
        return TARGETS.get(CASES[record["name"]].kind, []) + ALL_TARGETS

    def speed(self, record: dict, target: Target) -> float | None:
        if target.than != OURS_ON_A_QUIET_MACHINE:
            return super().speed(record, target)
        quiet, busy = (report.of(record, OURS, **self.columns[part]) for part in (QUIET_MEDIAN, target.part))
        return quiet and quiet / busy

    def table(self, measured: dict) -> str:
        """`1.3 (2.15)`, or nothing where it was not measured."""
        lines = []
        for record in measured["cases"]:
            lines.append([record["name"]])
            for peer in PEERS:
                quiet, busy = (report.of(record, peer, "p50", load=load) for load in LOADS)
                lines[-1].append(f"{_short(quiet)} ({_short(busy)})" if quiet else "")
        return report.markdown(["milliseconds, alone (beside a busy process)", *PEERS], lines)

    def summary(self, measured: dict) -> str:
        """The page does not speak of targets."""
        return f"{self.table(measured)}\n\n{self.made_on(measured)}"


def _short(ms):
    return f"{ms:.{3 if ms < 1000 else 4}g}"


def measure(case: Case, wanted: int, seconds: float) -> dict:
    """All peers of a case at both loads; the times are milliseconds."""
    running, times = {}, []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        if case.kind == "net":
            exported.export(case.what, folder, "float")
        for peer in PEERS_OF[case.kind]:
            if peer == OURS or importlib.util.find_spec(peer):
                keeping = machine.KEEPING_MALLOC if case.kind == "detector" and peer == TORCH else {}
                process = turns.Peer("benchmarks.busy.work", {**turns.unset_environment(), **keeping}, kind=case.kind,
                                     what=case.what, shape=case.shape, peer=peer, folder=folder)
                running[peer] = stack.enter_context(process)
        for process in running.values():   # one that still imports would not leave the machine quiet
            process.ask("time", 0)
        for load in LOADS:
            with busy(load):
                answers = turns.in_turns(running, wanted, "time", seconds)
            for peer, calls in answers.items():
                p50, p90 = 1e3 * np.percentile(sum(calls, []), (50, 90))
                times.append({"peer": peer, "load": load, "p50": p50, "p90": p90, "calls": len(sum(calls, []))})
    return {"name": case.name, "mismatches": {}, "times": times}


@contextlib.contextmanager
def busy(per_core: int) -> Iterator[list[subprocess.Popen]]:
    """Run so many processes for every core that this one may use, which only compute."""
    count = per_core * len(os.sched_getaffinity(0))
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


if __name__ == "__main__":
    sys.exit(Busy().main(sys.argv[1:]))
