"""Build two commits, measure them in turn, and print a table of ratios."""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

import gluonops as gops
import numpy as np
from gluonops.bench.cases import required

from ..harness import inputs
from ..harness.cases import Case, of_commits
from ..harness.report import ROOT, aligned
from ..harness.turns import Peer, in_turns
from .measure import PARTS

MICROSECONDS = 1e6
SLOWER = 1.05   # a ratio above it is more than noise


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.before_after", description=__doc__)
    parser.add_argument("before", help="a commit, or the folder of a checkout whose library is built")
    parser.add_argument("after", nargs="?", default=str(ROOT), help="the same; by default this checkout")
    parser.add_argument("--op", action="append", choices=gops.ops.list(), metavar="OP",
                        help="measure only this operator; may be repeated")
    parser.add_argument("--rounds", type=int, default=9, help="fresh processes per commit")
    parser.add_argument("--turns", type=int, default=3, help="turns at a case in a round")
    parser.add_argument("--seconds", type=float, default=0.05, help="time for a part of a case in a turn")
    return parser


@contextlib.contextmanager
def checkout(name: str) -> Iterator[pathlib.Path]:
    """The folder of a commit with its library; a commit is checked out and built, and removed at the end."""
    if pathlib.Path(name).is_dir():
        yield pathlib.Path(name).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="gluonops-") as parent:
        folder = pathlib.Path(parent) / "checkout"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(folder), name], cwd=ROOT, check=True)
        try:
            subprocess.run([sys.executable, "gluonops/native/build.py"], cwd=folder, check=True, stdout=sys.stderr)
            yield folder
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(folder)], cwd=ROOT, check=True)


def package(tree: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Lay a checkout out as it is installed, by links: ``models`` becomes ``gluonops.models``. Returns the folder."""
    inside = folder / "gluonops"
    inside.mkdir(parents=True)
    for path in (*(tree / "gluonops").iterdir(), tree / "models"):
        (inside / path.name).symlink_to(path)
    return folder


def draw(wanted: list[Case], folder: pathlib.Path) -> None:
    """Write the cases and their inputs: of the case 3 ``3/0.npy``, ``3/1.npy`` and so on."""
    described = []
    for number, case in enumerate(wanted):
        arrays = inputs.of_case(case)
        (folder / str(number)).mkdir(parents=True)
        for position, array in enumerate(arrays.values()):
            is_label = position > 0 and array.dtype.kind == "i"   # MXNet's labels are float32
            np.save(folder / str(number) / f"{position}.npy", array.astype("float32") if is_label else array)
        described.append({"op": case.op, "attrs": {**required(case.op), **case.attrs}, "inputs": len(arrays)})
    (folder / "cases.json").write_text(json.dumps(described), encoding="utf-8")


def one_round(packages: list[pathlib.Path], folder: pathlib.Path, count: int, args: argparse.Namespace) -> list[list]:
    """What two fresh processes measure: by commit, the times of every case.

    The processes take turns at every case, and the least time of all turns counts.
    """
    with contextlib.ExitStack() as stack:
        peers = {}
        for commit, package in enumerate(packages):
            # Older versions keep freed memory only if the second variable is set.
            environment = {**os.environ, "PYTHONPATH": str(package), "GLUONOPS_TUNE_MALLOC": "1"}
            peers[commit] = Peer("benchmarks.before_after.measure", environment, folder=str(folder),
                                 packages=str(package))
            stack.callback(peers[commit].close)
        result = [[], []]
        for case in range(count):
            for commit, times in in_turns(peers, args.turns, "measure", case, args.seconds).items():
                result[commit].append(None if None in times else least(times))
    return result


def least(times: Sequence[dict]) -> dict:
    """The least time of every part."""
    return {part: min(turn[part] for turn in times) for part in PARTS}


def measure(packages: list[pathlib.Path], folder: pathlib.Path, count: int, args: argparse.Namespace) -> list[list]:
    """The results of every round, by commit. The commit that goes first changes from round to round."""
    rounds = []
    for done in range(args.rounds):
        step = 1 if done % 2 == 0 else -1
        rounds.append(one_round(packages[::step], folder, count, args)[::step])
        print(f"round {done + 1} of {args.rounds}", file=sys.stderr)
    return list(zip(*rounds))


def table(wanted: list[Case], before: list, after: list) -> list[str]:
    """A line for every part of every case: medians of the processes' least times, their ratio, and its quartiles.

    The last lines have the geometric mean of the ratios, of each part and of all.
    """
    lines = [["case", "part", "before, us", "after, us", "ratio", "of the middle half of the rounds"]]
    ratios = {part: [] for part in PARTS}
    for i, case in enumerate(wanted):
        if before[0][i] is None or after[0][i] is None:
            lines.append([case.title, "", "", "", "", "one of the commits cannot compute it"])
            continue
        for part in PARTS:
            old = [process[i][part] for process in before]
            new = [process[i][part] for process in after]
            lines.append([case.title, part, *compared(old, new)])
            ratios[part].append(statistics.median(new) / statistics.median(old))
    for part, found in {**ratios, "all": sum(ratios.values(), [])}.items():
        if found:
            slower = sum(ratio > SLOWER for ratio in found)
            lines.append(["geometric mean", part, "", "", f"{statistics.geometric_mean(found):.3f}",
                          f"{slower} of {len(found)} are above {SLOWER}"])
    return aligned(lines)


def compared(old: list[float], new: list[float]) -> list[str]:
    """The cells of a line, from the seconds of every round."""
    medians = [statistics.median(times) for times in (old, new)]
    ratios = [b / a for a, b in zip(old, new)]
    low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    times = [f"{seconds * MICROSECONDS:.1f}" for seconds in medians]
    return [*times, f"{medians[1] / medians[0]:.3f}", f"{low:.3f} to {high:.3f}"]


def main(arguments: list[str] | None = None) -> int:
    """Build, measure and print; returns the exit status."""
    args = options().parse_args(arguments)
    wanted = list(of_commits(args.op or gops.ops.list()))
    with contextlib.ExitStack() as stack:
        trees = [stack.enter_context(checkout(name)) for name in (args.before, args.after)]
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gluonops-")))
        packages = [package(tree, folder / name) for tree, name in zip(trees, ("before", "after"))]
        draw(wanted, folder)
        before, after = measure(packages, folder, len(wanted), args)
    print("\n".join(table(wanted, before, after)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
