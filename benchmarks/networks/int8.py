"""Time 8-bit networks on the CPU: MXNet and onnxruntime, each in float32 and in int8.

    python -m benchmarks.networks.int8 --json benchmarks/networks/int8.json   # with 1 and with 2 threads
    python -m benchmarks.networks.int8 --readme --json benchmarks/networks/int8.json

The networks have random weights. Every peer has a process of its own, and they are called in turn. Outputs are
compared with MXNet's in float32 first: where one differs too much there are no figures for it, and the exit status
is 1.
"""
from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from ..common import machine, results, tables
from . import cases
from .cases import INT8, INT8_NETS, INT8_PEERS, INT8_TARGETS, INT8_TOLERANCE, MODULE
from .deploy import QUICK_SECONDS, QUICK_TURNS, SECONDS, TURNS, Worker, describe_machine, output, summary, timed

COMMAND = "benchmarks.networks.int8"
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "int8.md"
QUICK_NET = "small"
THREADS = (1, 2)


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {COMMAND}", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", action="append", choices=INT8_NETS, help="only this one; may be given several times")
    parser.add_argument("--threads", action="append", type=int, help="of every peer; may be given several times "
                        f"(default: {' and '.join(map(str, THREADS))})")
    parser.add_argument("--turns", type=int, default=TURNS, help="of every peer (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a miniature network, only to check that it runs")
    parser.add_argument("--files", type=pathlib.Path, metavar="DIR", help="keep the exported networks here, and use "
                        "those of an earlier run")
    parser.add_argument("--export", action="store_true", help="with --files: measure nothing")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the results, which replace those of "
                        "the same cases in the file (with --readme: read)")
    parser.add_argument("--readme", action="store_true",
                        help="measure nothing; write the results of --json into docs/int8.md")
    return parser


@contextlib.contextmanager
def exported(net: str, files: pathlib.Path | None) -> Iterator[pathlib.Path]:
    """A folder with a network's files; a temporary one unless ``files`` is given."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = files / net if files else pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "int8.onnx").exists():   # the file that is written last
            export(net, folder)
        yield folder


def export(net: str, folder: pathlib.Path) -> None:
    """Write the files, in a process of its own: this one shall have no threads."""
    code = f"from benchmarks.networks import nets; nets.write_int8({net!r}, {cases.size(net)}, {str(folder)!r})"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, cwd=ROOT)


def measure(net: str, threads: int, folder: pathlib.Path, turns: int, seconds: float) -> dict:
    """Check and time a network; a record for the JSON, with milliseconds for an image."""
    workers = {peer: Worker(peer, net, cases.size(net), 1, threads, folder, None) for peer in INT8_PEERS}
    wrong = {}
    try:
        outputs = {peer: output(worker, peer, folder) for peer, worker in workers.items()}
        errors = {peer: relative_error(outputs[peer], outputs[MODULE]) for peer in INT8_PEERS}
        for peer, error in errors.items():
            if not error <= INT8_TOLERANCE:
                wrong[peer] = f"its error is {error:.2g}"
                workers.pop(peer).close()
        times = timed(workers, turns, seconds)
    finally:
        for worker in workers.values():
            worker.close()
    return {"net": net, "size": cases.size(net), "threads": threads, "errors": errors, "mismatches": wrong,
            "times": [summary(peer, calls, 1) for peer, calls in times.items()]}


def relative_error(got: object, expected: object) -> float:
    """Root mean square of the difference, divided by that of the expected output; infinite if there is none."""
    import numpy as np

    if got is None or expected is None:
        return float("inf")
    return float(np.linalg.norm(got.ravel() - expected.ravel()) / np.linalg.norm(expected))


def ratio(case: dict, peer: str) -> float | None:
    """How many times as long as MXNet's int8 a peer takes: the median over the turns, which hit both alike."""
    turns = {row["peer"]: row["turns"] for row in case["times"]}
    if peer not in turns or INT8 not in turns:
        return None
    return statistics.median(theirs / ours for theirs, ours in zip(turns[peer], turns[INT8]))


def title(case: dict) -> str:
    return f"{case['net']} {case['size']}, {case['threads']} thread{'s' * (case['threads'] > 1)}"


def cell(case: dict, peer: str) -> str:
    """Median time and ratio of a peer, or what is wrong with it."""
    if peer in case["mismatches"]:
        return f"MISMATCH {case['mismatches'][peer]}"
    milliseconds = next(row["ms"] for row in case["times"] if row["peer"] == peer)
    measured = ratio(case, peer)
    return f"{milliseconds:.3g} ms" + ("" if measured is None else f" ({measured:.2f})")


def verdicts(measured: Sequence[dict]) -> list[dict]:
    """Each target against each case."""
    found = []
    for case in measured:
        for target in INT8_TARGETS:
            words = f"{target.at_least} x the speed of {target.than}"
            if target.at_least == 1:
                words = f"as fast as {target.than}"
            times = ratio(case, target.than)
            if times is None:
                found.append(tables.verdict(title(case), words, "not measured", None))
            else:
                found.append(tables.verdict(title(case), words, f"{times:.2f} x", times >= target.at_least))
    return found


def markdown(measured: dict) -> str:
    """Times, targets and machine."""
    found = measured["cases"]
    return "\n\n".join([
        tables.markdown(["time for an image", *map(title, found)], [[peer, *[cell(case, peer) for case in found]]
                                                                    for peer in INT8_PEERS]),
        tables.targets_met(verdicts(found)),
        f"{machine.sentence(measured)}; onnxruntime {measured['machine']['onnxruntime']}"])


def write_page(measured: dict, path: str | os.PathLike) -> None:
    """Put the figures between the markers of a page.

    Raises
    ------
    ValueError
        The run was quick, a result was wrong, or the page has no markers.
    """
    if measured["quick"]:
        raise ValueError("these results are of a --quick run, whose network says nothing; run without it")
    if any(case["mismatches"] for case in measured["cases"]):
        raise ValueError("a result did not match: there are no figures to show")
    tables.put(path, "int8", markdown(measured))


def measure_all(args: argparse.Namespace, arguments: Sequence[str]) -> dict:
    """Measure every case; returns the content of the JSON, which is written after each case."""
    nets = [QUICK_NET] if args.quick else args.net or INT8_NETS
    threads = args.threads or THREADS
    turns, seconds = (QUICK_TURNS, QUICK_SECONDS) if args.quick else (args.turns, SECONDS)
    measured = {"date": datetime.date.today().isoformat(), "command": machine.command(COMMAND, arguments),
                "quick": args.quick, "machine": describe_machine(max(threads)), "cases": []}
    if args.json and args.json.exists():
        measured["cases"] = results.load(args.json)["cases"]
    for net in nets:
        with exported(net, args.files) as folder:
            for count in threads if not args.export else ():
                case = measure(net, count, folder, turns, seconds)
                lines = [f"  {peer:18s} {cell(case, peer)}, error {case['errors'][peer]:.4f}" for peer in INT8_PEERS]
                print("\n".join([f"{title(case)}: for an image, and times {INT8}", *lines]), flush=True)
                others = [other for other in measured["cases"] if title(other) != title(case)]
                measured["cases"] = sorted([*others, case], key=lambda case: (case["net"], case["threads"]))
                if args.json:
                    results.save(args.json, measured)
    return measured


def main(arguments: Sequence[str]) -> int:
    parser = options()
    args = parser.parse_args(arguments)
    if args.turns < 2:
        parser.error(f"--turns is {args.turns}; expected at least 2, for quartiles")
    if args.export and not args.files:
        parser.error("--export needs --files DIR")
    if args.readme:
        if not args.json:
            parser.error("--readme needs --json FILE, the results to write")
        write_page(results.load(args.json), PAGE)
        return 0
    measured = measure_all(args, arguments)
    print(tables.targets_text(verdicts(measured["cases"])))
    return 1 if any(case["mismatches"] for case in measured["cases"]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
