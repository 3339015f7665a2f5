"""Build two commits, measure them in turn, and print a table of ratios.

Fresh processes take turns, so that noise and the luck of a process's memory layout affect both commits alike.
"""
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
from collections.abc import Iterator

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
    """Write the cases, and the inputs of case 3 as ``3.npz``. MXNet's labels are float32."""
    described = []
    for number, case in enumerate(wanted):
        data, *others = inputs.of_case(case).values()
        np.savez(folder / f"{number}.npz", data, *(array.astype("float32") if array.dtype.kind == "i" else array
                                                   for array in others))
        described.append({"op": case.op, "attrs": {**required(case.op), **case.attrs}})
    (folder / "cases.json").write_text(json.dumps(described), encoding="utf-8")


def measure(packages: dict[str, pathlib.Path], folder: pathlib.Path, count: int,
            args: argparse.Namespace) -> dict[str, list[list]]:
    """Commit -> of every case and round, the least times of all turns, or None if the commit cannot compute the case.

    The commit that goes first changes from round to round.
    """
    times = {commit: [[] for _ in range(count)] for commit in packages}
    for done in range(args.rounds):
        with contextlib.ExitStack() as stack:
            peers = {}
            for commit in list(packages)[::-1 if done % 2 else 1]:
                # Older versions keep freed memory only if the second variable is set.
                environment = {**os.environ, "PYTHONPATH": str(packages[commit]), "GLUONOPS_TUNE_MALLOC": "1"}
                peers[commit] = stack.enter_context(Peer("benchmarks.before_after.measure", environment,
                                                         folder=str(folder), packages=str(packages[commit])))
            for case in range(count):
                for commit, turns in in_turns(peers, args.turns, "measure", case, args.seconds).items():
                    least = {part: min(turn[part] for turn in turns) for part in PARTS} if None not in turns else None
                    times[commit][case].append(least)
        print(f"round {done + 1} of {args.rounds}", file=sys.stderr)
    return times


def table(wanted: list[Case], before: list[list], after: list[list]) -> list[str]:
    """A line for every part of every case: medians of the rounds, their ratio, and its quartiles.

    The last lines have the geometric mean of the ratios, of each part and of all.
    """
    lines = [["case", "part", "before, us", "after, us", "ratio", "of the middle half of the rounds"]]
    ratios = {part: [] for part in PARTS}
    for case, olds, news in zip(wanted, before, after):
        if None in olds or None in news:
            lines.append([case.title, "", "", "", "", "one of the commits cannot compute it"])
            continue
        for part in PARTS:
            old, new = ([times[part] for times in rounds] for rounds in (olds, news))
            lines.append([case.title, part, *compared(old, new)])
            ratios[part].append(statistics.median(new) / statistics.median(old))
    for part, ratios_of_part in {**ratios, "all": sum(ratios.values(), [])}.items():
        if ratios_of_part:
            slower = sum(ratio > SLOWER for ratio in ratios_of_part)
            lines.append(["geometric mean", part, "", "", f"{statistics.geometric_mean(ratios_of_part):.3f}",
                          f"{slower} of {len(ratios_of_part)} are above {SLOWER}"])
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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.before_after", description=__doc__)
    parser.add_argument("before", help="a commit, or the folder of a checkout whose library is built")
    parser.add_argument("after", nargs="?", default=str(ROOT), help="the same; by default this checkout")
    parser.add_argument("--op", action="append", choices=gops.ops.list(), metavar="OP",
                        help="measure only this operator; may be repeated")
    parser.add_argument("--rounds", type=int, default=9, help="fresh processes per commit")
    parser.add_argument("--turns", type=int, default=3, help="turns at a case in a round")
    parser.add_argument("--seconds", type=float, default=0.05, help="time for a part of a case in a turn")
    args = parser.parse_args(arguments)
    wanted = list(of_commits(args.op or gops.ops.list()))
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gluonops-")))
        packages = {commit: package(stack.enter_context(checkout(getattr(args, commit))), folder / commit)
                    for commit in ("before", "after")}
        draw(wanted, folder)
        times = measure(packages, folder, len(wanted), args)
    print("\n".join(table(wanted, times["before"], times["after"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
