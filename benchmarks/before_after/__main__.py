"""Build two commits, measure them in turn, and print a table of ratios."""
from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from ..common.tables import aligned
from .cases import Case, cases
from .measure import PARTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEASURE = pathlib.Path(__file__).with_name("measure.py")
MICROSECONDS = 1e6


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.before_after", description=__doc__)
    parser.add_argument("before", help="a commit, or the folder of a checkout whose library is built")
    parser.add_argument("after", nargs="?", default=str(ROOT), help="the same; by default this checkout")
    parser.add_argument("--op", action="append", help="measure only this operator; may be repeated")
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
    """Write the cases and their inputs."""
    for i, case in enumerate(wanted):
        case.draw(folder / str(i))
    text = json.dumps([dataclasses.asdict(case) for case in wanted])
    (folder / "cases.json").write_text(text, encoding="utf-8")


class Measurer:
    """A fresh process that measures with the gluonops in the folder ``packages``."""

    def __init__(self, packages: pathlib.Path, folder: pathlib.Path, seconds: float):
        # Older versions keep freed memory only if this variable is set.
        environment = {**os.environ, "PYTHONPATH": str(packages), "GLUONOPS_TUNE_MALLOC": "1",
                       "MXNET_SUBGRAPH_VERBOSE": "0"}
        self.process = subprocess.Popen([sys.executable, str(MEASURE), str(folder), str(packages), str(seconds)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def measure(self, case: int) -> dict | None:
        """The least seconds of every part of a case; None if this commit cannot compute it."""
        self.process.stdin.write(f"{case}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("a measuring process has ended; its message is above")
        return json.loads(line)

    def close(self) -> None:
        """Let the process end."""
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def one_round(packages: list[pathlib.Path], folder: pathlib.Path, count: int, args: argparse.Namespace) -> list[list]:
    """What two fresh processes measure: by commit, the times of every case.

    The processes take turns at every case, and the least time of all turns counts.
    """
    with contextlib.ExitStack() as stack:
        measurers = [Measurer(package, folder, args.seconds) for package in packages]
        for measurer in measurers:
            stack.callback(measurer.close)
        result = [[], []]
        for case in range(count):
            turns = [[measurer.measure(case) for measurer in measurers] for _ in range(args.turns)]
            for commit, times in enumerate(zip(*turns)):
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
    """A line for every part of every case: medians of the processes' least times, their ratio, and its quartiles."""
    lines = [["case", "part", "before, us", "after, us", "ratio", "of the middle half of the rounds"]]
    for i, case in enumerate(wanted):
        if before[0][i] is None or after[0][i] is None:
            lines.append([case.name, "", "", "", "", "one of the commits cannot compute it"])
            continue
        for part in PARTS:
            old = [process[i][part] for process in before]
            new = [process[i][part] for process in after]
            lines.append([case.name, part, *compared(old, new)])
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
    wanted = cases(args.op)
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
