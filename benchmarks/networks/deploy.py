"""Time exported networks on the CPU: run by MXNet in several ways, and beside onnxruntime and torch.

Every peer has a process of its own, and they are called in turn. A peer's output is compared with the net's first;
where it differs there are no figures for it, and the exit status is 1.
"""
from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from ..common import machine, results, tables
from . import cases, report
from .cases import BATCHES, COMPILED, NATIVE, NET, NETS, ORT, PEERS, TOLERANCE

MODULE = "benchmarks.networks.deploy"
ROOT = pathlib.Path(__file__).resolve().parents[2]
TURNS, SECONDS, QUICK_TURNS, QUICK_SECONDS = 15, 0.15, 2, 0.01   # of every peer; the seconds of each of its turns


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", action="append", choices=[net.name for net in NETS],
                        help="only this one; may be given several times")
    parser.add_argument("--batch", action="append", type=int, help="only this many images; may be given several times "
                        f"(default: {' and '.join(map(str, BATCHES))})")
    parser.add_argument("--peer", action="append", help="only this one, as in the table, and the net itself; may be "
                        "given several times")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of every peer (default: one "
                        "for each processor)")
    parser.add_argument("--turns", type=int, default=TURNS, help="of every peer (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a miniature network, only to check that it runs")
    parser.add_argument("--profile", action="store_true", help="instead: the time of every kind of layer, in MXNet "
                        "and in onnxruntime")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the results, which replace those of "
                        "the same cases in the file (with --readme: read)")
    parser.add_argument("--readme", action="store_true",
                        help="measure nothing; write the results of --json into benchmarks/README.md")
    parser.add_argument("--spoil", metavar="PEER", help="add 1 to this peer's output, to see that the check works")
    parser.add_argument("--serve", metavar="PEER", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    return parser


class Worker:
    """A peer's process."""

    def __init__(self, peer, net, size, batch, threads, folder, spoil):
        from . import peers

        words = ["--serve", peer, "--net", net, "--batch", batch, "--folder", folder]
        if peer == spoil:
            words += ["--spoil", peer]
        self.process = subprocess.Popen([sys.executable, "-m", MODULE, *map(str, words)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, cwd=ROOT,
                                        env=peers.environment(peer, net, threads))

    def ask(self, order: str, word: object) -> object:
        """The process's answer; None if it ended without one."""
        try:
            print(order, word, file=self.process.stdin, flush=True)
            return json.loads(self.process.stdout.readline())
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def measure(net: str, size: int, batch: int, args: argparse.Namespace) -> dict:
    """Check and time a network at one batch size.

    Returns
    -------
    dict
        A record for the JSON; times are in milliseconds per image.
    """
    notes, wrong, workers = {}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        export(net, size, folder)
        for peer in PEERS:
            if args.peer and peer not in (*args.peer, NET):
                continue
            notes[peer] = missing(peer, folder, args.quick)
            if notes[peer] is None:
                del notes[peer]
                workers[peer] = Worker(peer, net, size, batch, args.threads, folder, args.spoil)
        try:
            expected = output(workers[NET], NET, folder)
            for peer, worker in list(workers.items()):
                difference = differs(output(worker, peer, folder), expected)
                if difference:
                    wrong[peer] = difference
                    workers.pop(peer).close()
            times = timed(workers, *((QUICK_TURNS, QUICK_SECONDS) if args.quick else (args.turns, SECONDS)))
        finally:
            for worker in workers.values():
                worker.close()
    rows = [summary(peer, turns, batch) for peer, turns in times.items()]
    return {"net": net, "size": size, "batch": batch, "peers": list(PEERS), "notes": notes, "mismatches": wrong,
            "times": rows}


def summary(peer: str, turns: list[list[float]], batch: int) -> dict:
    """A peer's row: milliseconds for each image, from the seconds of its calls in every turn."""
    turns = [[1e3 * seconds / batch for seconds in calls] for calls in turns]
    values = sum(turns, [])
    low, median, high = statistics.quantiles(values, n=4)
    return {"peer": peer, "ms": median, "low": low, "high": high, "samples": len(values),
            "turns": [statistics.median(calls) for calls in turns]}


def export(net: str, size: int, folder: str) -> None:
    """The files, in a process of its own: this one shall have no threads."""
    subprocess.run([sys.executable, "-m", "benchmarks.networks.nets", net, str(size), folder], check=True, cwd=ROOT)


def missing(peer: str, folder: str, quick: bool) -> str | None:
    """Why a peer cannot run, or None."""
    if peer == ORT and not pathlib.Path(folder, "net.onnx").exists():
        return "onnx is not installed"
    if peer == NATIVE and not pathlib.Path(folder, "native-symbol.json").exists():
        return "the native library is not built"
    if peer == COMPILED and quick:
        return "left out of a quick run"
    needs = "torch" if peer.startswith("torch") else "onnxruntime" if peer == ORT else "mxnet"
    return None if importlib.util.find_spec(needs) else f"{needs} is not installed"


def output(worker: Worker, peer: str, folder: str) -> object:
    """A peer's output, or None if it failed."""
    import numpy as np

    path = pathlib.Path(folder, f"{peer}.npy")
    worker.ask("save", path)
    return np.load(path) if path.exists() else None


def differs(got: object, expected: object) -> str | None:
    """What is wrong with ``got``, or None."""
    if got is None:
        return "it failed"
    if got.size != expected.size:
        return f"output has shape {got.shape}; expected {expected.shape}"
    difference = abs(got.reshape(expected.shape) - expected).max() / abs(expected).max()
    return None if difference <= TOLERANCE else f"output is off by {difference:.1e} of the largest value"


def timed(workers: dict[str, Worker], turns: int, seconds: float) -> dict[str, list[list[float]]]:
    """Seconds of the calls in every turn of every peer."""
    times = {peer: [] for peer in workers}
    for turn in range(turns):
        order = list(workers)
        for peer in order[turn % len(order):] + order[:turn % len(order)]:
            times[peer].append(workers[peer].ask("time", seconds))
    return times


def measure_all(args: argparse.Namespace, arguments: Sequence[str]) -> dict:
    """Measure every case; returns the content of the JSON, which is written after each case."""
    measured = {"date": datetime.date.today().isoformat(), "command": machine.command(MODULE, arguments),
                "quick": args.quick, "machine": describe_machine(args.threads), "cases": []}
    if args.json and args.json.exists():
        measured["cases"] = results.load(args.json)["cases"]
    order = [net.name for net in NETS]
    for net in args.net or [net.name for net in cases.nets(args.quick)]:
        for batch in args.batch or BATCHES:
            case = measure(net, cases.size(net), batch, args)
            print(report.text(case), end="\n\n", flush=True)
            others = [other for other in measured["cases"] if (other["net"], other["batch"]) != (net, batch)]
            measured["cases"] = sorted([*others, case], key=lambda case: (order.index(case["net"]), case["batch"]))
            if args.json:
                results.save(args.json, measured)
    return measured


def describe_machine(threads: int) -> dict:
    versions = {package: importlib.metadata.version(package) if importlib.util.find_spec(package) else None
                for package in ("torch", "onnxruntime")}
    return {**machine.describe(), "threads": threads, **versions}


def main(arguments: Sequence[str]) -> int:
    parser = options()
    args = parser.parse_args(arguments)
    if args.turns < 2:
        parser.error(f"--turns is {args.turns}; expected at least 2, for quartiles")
    if args.serve:
        from . import peers

        return peers.serve(args.serve, args.folder, cases.size(args.net[0]), args.batch[0], bool(args.spoil))
    if args.readme:
        return write_readme(parser, args)
    if args.profile:
        from . import layers

        return layers.main(args.net or [net.name for net in cases.nets()], (args.batch or [1])[0], args.threads)
    measured = measure_all(args, arguments)
    print(tables.targets_text(report.verdicts(measured["cases"])))
    wrong = [f"{case['net']}, batch {case['batch']}: {peer}: {what}" for case in measured["cases"]
             for peer, what in case["mismatches"].items()]
    if wrong:
        print("\nMISMATCH, no figures for:\n" + "\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


def write_readme(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    """Write the results of --json into benchmarks/README.md; the exit status."""
    if not args.json:
        parser.error("--readme needs --json FILE, the results to write")
    try:
        report.write_readme(results.load(args.json), tables.README)
    except (OSError, ValueError) as error:
        sys.exit(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
