"""Time operators, networks and training steps with nothing set by hand, while other processes use the cores.

No variable of MXNet, OpenMP or malloc is set, but for the training of detectors in torch: glibc keeps memory there, as
gluonops does by itself. Every peer has a process of its own, and they are called in turn, first on the quiet machine,
then beside a busy process for every core.
"""
from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ..harness import machine, report, turns
from ..harness.command import Benchmark
from ..networks import exported

OURS, ORT, TORCH = PEERS = "gluonops", "onnxruntime", "torch"
PEERS_OF = {"operator": PEERS, "net": PEERS, "training": (OURS, TORCH), "detector": (OURS, TORCH)}
TURNS, SECONDS = 6, 0.25   # turns of every peer at every load, and the seconds of each
QUIET, BUSY = LOADS = 0, 1   # busy processes for every core


@dataclasses.dataclass(frozen=True)
class Case:
    """One thing to compute.

    Attributes
    ----------
    name : str
        As the table has it.
    kind : {'operator', 'net', 'training', 'detector'}
        What ``work.py`` makes of it. ``detector`` is a training step too, of a net with batch norms and region loss.
    what : str
        The operator, or the network.
    shape : tuple of int
        Of the input.
    """
    name: str
    kind: str
    what: str
    shape: tuple[int, ...]


CASES = (
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
)
QUICK = "softmax, 64 kB"


@dataclasses.dataclass(frozen=True)
class Target:
    """A bound of one figure of ours over another figure; each is a peer, a load and a percentile."""
    at_most: float
    ours: tuple[str, int, str]
    other: tuple[str, int, str]
    kinds: tuple[str, ...] = tuple(PEERS_OF)


TARGETS = (
    Target(1.05, (OURS, QUIET, "p50"), (ORT, QUIET, "p50"), ("net",)),
    Target(2.5, (OURS, BUSY, "p90"), (OURS, QUIET, "p50")),
    Target(1, (OURS, BUSY, "p90"), (ORT, BUSY, "p90")),
    Target(1, (OURS, BUSY, "p90"), (TORCH, BUSY, "p90")),
    Target(0.77, (OURS, QUIET, "p50"), (TORCH, QUIET, "p50"), ("detector",)),   # 1.3 times as fast
)


def measure(case: Case, wanted: int, seconds: float) -> dict:
    """All peers of a case at both loads; the times are milliseconds."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        if case.kind == "net":
            exported.export(case.what, folder, "float")
        running = {}
        for peer in PEERS_OF[case.kind]:
            if peer == OURS or importlib.util.find_spec(peer):
                running[peer] = turns.Peer("benchmarks.busy.work", environment(case, peer), kind=case.kind,
                                           what=case.what, shape=case.shape, peer=peer, folder=folder)
                stack.callback(running[peer].close)
        for process in running.values():   # one that still imports would not leave the machine quiet
            process.ask("time", 0)
        times = []
        for load in LOADS:
            with busy(load):
                answers = turns.in_turns(running, wanted, "time", seconds)
            times += [row(peer, load, sum(calls, [])) for peer, calls in answers.items()]
    return {"name": case.name, "mismatches": {}, "times": times}


def environment(case: Case, peer: str) -> dict[str, str]:
    """The environment of a peer's process."""
    keeps = case.kind == "detector" and peer == TORCH
    return {**turns.unset_environment(), **(machine.KEEPING_MALLOC if keeps else {})}


def row(peer: str, load: int, seconds: Sequence[float]) -> dict:
    p50, p90 = (1e3 * np.percentile(seconds, percentile) for percentile in (50, 90))
    return {"peer": peer, "load": load, "p50": p50, "p90": p90, "calls": len(seconds)}


@contextlib.contextmanager
def busy(per_core: int) -> Iterator[list[subprocess.Popen]]:
    """So many processes for every core that this one may use, which only compute."""
    count = per_core * exported.processors()
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def title(record: dict) -> str:
    return record["name"]


def text(record: dict) -> str:
    """Median and 90th percentile of every peer."""
    lines = [["ms: median (p90)", "quiet", "busy"]]
    for peer in dict.fromkeys(row["peer"] for row in record["times"]):
        lines.append([peer, *(f"{report.of(record, peer, 'p50', load=load):.3g} "
                              f"({report.of(record, peer, 'p90', load=load):.3g})" for load in LOADS)])
    return "\n".join([title(record), *(f"  {line}" for line in report.aligned(lines))])


def verdicts(records: Iterable[dict]) -> list[dict]:
    """Each target against each record of its kinds."""
    kinds = {case.name: case.kind for case in CASES}
    return [verdict for record in records for target in TARGETS if kinds[record["name"]] in target.kinds
            for verdict in _judged(record, target)]


def _judged(record, target):
    ours, other = (report.of(record, peer, figure, load=load) for peer, load, figure in (target.ours, target.other))
    if ours is None or other is None:
        return
    words = f"{_words(target.ours)}: at most {target.at_most} x {_words(target.other)}"
    yield report.verdict(title(record), words, f"{ours / other:.2f} x", ours / other <= target.at_most)


def _words(of):
    peer, load, figure = of
    return f"{peer}'s {'median' if figure == 'p50' else 'p90'}{', busy' if load else ''}"


def summary(results: dict) -> str:
    """A table of medians, quiet and busy."""
    lines = [[title(record), *(_quiet_and_busy(record, peer) for peer in PEERS)] for record in results["cases"]]
    return f"{report.markdown(['ms, quiet (busy)', *PEERS], lines)}\n\n{machine.sentence(results)}"


def _quiet_and_busy(record, peer):
    """`1.3 (2.15)`, or nothing where it was not measured."""
    medians = [report.of(record, peer, "p50", load=load) for load in LOADS]
    if None in medians:
        return ""
    return "{} ({})".format(*(f"{median:.{3 if median < 1000 else 4}g}" for median in medians))


PAGE = report.ROOT / "docs" / "performance.md"
BENCHMARK = Benchmark("benchmarks.busy", __doc__, PAGE, "busy", title, text, verdicts, summary)


def main(arguments: Sequence[str]) -> int:
    parser = BENCHMARK.parser()
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES],
                        help="only this one; may be given several times")
    parser.add_argument("--turns", type=int, default=TURNS, help="of every peer (default: %(default)s)")
    args = parser.parse_args(arguments)
    if args.readme:
        return BENCHMARK.write_readme(parser, args)
    wanted, seconds = (1, 0.02) if args.quick else (args.turns, SECONDS)
    chosen = [QUICK] if args.quick else args.case or [case.name for case in CASES]
    records = (measure(case, wanted, seconds) for case in CASES if case.name in chosen)
    return BENCHMARK.run(args, arguments, machine.describe(), records)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
