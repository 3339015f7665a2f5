"""What becomes of the measurements: the table, the targets, and the README's figures."""
from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence

from ..common import machine, tables
from ..common.tables import amount, verdict
from .declare import MODES, PASSES, Target

OURS = "native"
SETTINGS = {"tuned": "allocator tuned", "untuned": "allocator as it is"}


def of(case: dict, peer: str, mode: str, part: str) -> float | None:
    """Milliseconds, or None where that was not measured."""
    return next((row["ms"] for row in case["times"]
                 if (row["peer"], row["mode"], row["pass"]) == (peer, mode, part)), None)


def limit(case: dict) -> float | None:
    """Milliseconds that copyto takes."""
    return of(case, "copyto", "alone", "forward")


def title(case: dict) -> str:
    shape = "x".join(map(str, case["shape"]))
    return f"{case['name']} ({shape}) {case['dtype']}, {amount(case['bytes'])}"


def columns(case: dict) -> list[tuple[str, str]]:
    """The (mode, pass) that were measured, in order."""
    measured = {(row["mode"], row["pass"]) for row in case["times"] if row["peer"] not in ("copyto", "identity")}
    return [(mode, part) for mode in MODES for part in PASSES if (mode, part) in measured]


def rows(case: dict) -> Iterable[tuple[str, list[str]]]:
    """(peer, cells): milliseconds, for ours also times copyto, for the others how many times faster ours is."""
    names = ["copyto", "identity", *case["peers"]]
    for name in names:
        if name in case["notes"]:
            yield name, [case["notes"][name]]
            continue
        if name in case["mismatches"]:
            yield name, [f"MISMATCH {case['mismatches'][name]}"]
            continue
        cells = [_cell(case, name, mode, part) for mode, part in columns(case)]
        if any(cells):
            yield name, cells


def _cell(case, name, mode, part):
    if name == "copyto":
        return _time(limit(case))
    time = of(case, name, mode, part)
    if time is None:
        return ""
    if name == OURS:
        return f"{_time(time)} ({f'{time / limit(case):.2f} x copyto' if time > 0 else 'within noise'})"
    ours = of(case, OURS, mode, part)
    if ours is None or name == "identity":
        return _time(time)
    return f"{_time(time)} ({speedup(time, ours)})"


def _time(ms):
    return f"{ms:.3g} ms" if abs(ms) >= 0.1 else f"{ms * 1e3:.1f} us"


def speedup(theirs: float, ours: float) -> str:
    """How many times faster ours is; a net's time less the net without the operator can be nothing but noise."""
    return f"{theirs / ours:.1f}x" if theirs > 0 and ours > 0 else "within noise"


def text(case: dict) -> str:
    """One case as lines of text."""
    if not case["times"]:
        return f"{title(case)}\n  {case['notes']['case']}"
    heads = [f"{mode} {part}" for mode, part in columns(case)]
    lines = [["", *heads], *[[name, *cells] for name, cells in rows(case)]]
    full = [line for line in lines if len(line) == len(heads) + 1]
    widths = [max(len(line[i]) for line in full) for i in range(len(heads) + 1)]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths)) if line in full else
              f"{line[0].ljust(widths[0])}  {line[1]}" for line in lines)
    return "\n".join([title(case), *(f"  {line.rstrip()}" for line in padded)])


def slope(cases: Sequence[dict]) -> tuple[float | None, float | None]:
    """Least-squares slope of log time over log size: 1 where time is linear in size. (ours, copyto's)."""
    def fit(values):
        points = [(math.log(case["bytes"]), math.log(value)) for case, value in zip(cases, values) if value]
        if len(points) < 3:
            return None
        mean_x, mean_y = (sum(axis) / len(points) for axis in zip(*points))
        covariance = sum((x - mean_x) * (y - mean_y) for x, y in points)
        return covariance / sum((x - mean_x) ** 2 for x, _ in points)

    ours = [of(case, OURS, "alone", "forward") for case in cases]
    return fit(ours), fit([limit(case) for case in cases])


def verdicts(targets: Iterable[Target], cases: Sequence[dict]) -> list[dict]:
    """Each target against each case it speaks of.

    Returns
    -------
    list of dict
        ``case``, ``target`` and ``measured`` in words; ``passed`` True, False, or None where nothing was measured.
    """
    judged = []
    for target in targets:
        matching = [case for case in cases if (case["kind"], case["op"]) == (target.kind, target.op) and case["times"]]
        if not matching:
            continue
        if not math.isnan(target.slope):
            judged.append(_verdict_of_slope(target, matching))
            continue
        for case in matching:
            for part in target.passes:
                judged.append(_verdict_of(target, case, part))
    return judged


def _verdict_of_slope(target, cases):
    """Time against size."""
    ours, copyto = slope(cases)
    sizes = f"{amount(cases[0]['bytes'])} to {amount(cases[-1]['bytes'])}"
    return _verdict(f"{target.op}, {sizes}", f"time ~ size^1, within {target.slope}", ours,
                    passes=lambda value: abs(value - 1) <= target.slope,
                    words=lambda value: f"size^{value:.2f} (copyto {_power(copyto)})")


def _power(value):
    return "not measured" if value is None else f"size^{value:.2f}"


def _verdict_of(target, case, part):
    where = f"{title(case)}, {target.mode} {part}"
    ours = of(case, OURS, target.mode, part)
    if not math.isnan(target.microseconds):
        return _verdict(where, f"at most {target.microseconds:g} us", ours and ours * 1e3,
                        lambda v: v <= target.microseconds, lambda v: f"{v:.1f} us")
    theirs = limit(case) if target.than == "copyto" else of(case, target.than, target.mode, part)
    if not math.isnan(target.at_most):
        return _verdict(where, f"at most {target.at_most:g} x {target.than}", ours and theirs and ours / theirs,
                        lambda v: v <= target.at_most, lambda v: f"{v:.2f} x")
    aim = f"at least {target.faster:g} x faster than" if target.faster > 1 else "faster than"
    return _verdict(where, f"{aim} {target.than}", ours and theirs and theirs / ours,
                    lambda v: v >= target.faster, lambda v: f"{v:.1f} x faster")


def _verdict(case, target, value, passes, words):
    if value is None:
        return verdict(case, target, "not measured", None)
    if value <= 0:   # a net's time less the net without the operator
        return verdict(case, target, "within noise", None)
    return verdict(case, target, words(value), bool(passes(value)))


OTHERS = ("custom", "numpy", "torch")   # every other peer is made of MXNet's operators


def write_readme(results: dict, path: str | os.PathLike) -> None:
    """Put :func:`summary` between the markers of a page.

    Raises
    ------
    ValueError
        There are no markers, the run was quick, or a result was wrong.
    """
    if results["quick"]:
        raise ValueError("these results are of a --quick run, whose sizes say nothing; run without it")
    if any(case["mismatches"] for cases in results["runs"].values() for case in cases):
        raise ValueError("a result did not match: there are no figures to show")
    tables.put(path, "operators", summary(results))


def summary(results: dict) -> str:
    """The first case of each operator: our time in a net, over copyto's, and how many times as long the peers take."""
    allocator = next(iter(results["runs"]))
    first = {}
    for case in results["runs"][allocator]:
        if case["kind"] == "case" and case["times"]:
            first.setdefault(case["op"], case)
    lines = []
    for case in first.values():
        ours = of(case, OURS, "net", "both")
        times = [of(case, "numpy", "net", "both"), of(case, "torch", "net", "both"), of_mxnet(case)]
        shape = "x".join(map(str, case["shape"]))
        lines.append([f"{case['name']} ({shape})", _time(ours), f"{ours / limit(case):.2f}",
                      *["" if time is None else f"{time / ours:.1f}x" for time in times]])
    return "\n\n".join([tables.markdown(["case", "gluonops", "/ copy", "NumPy", "torch", "MXNet"], lines),
                        tables.targets_met(results["targets"]), machine.sentence(results)])


def of_mxnet(case: dict) -> float | None:
    """The fastest of MXNet's own operators, or else a graph of them."""
    names = [peer for peer in case["peers"] if peer not in (OURS, "builtin", *OTHERS)] or ["builtin"]
    return min((of(case, name, "net", "both") for name in names), default=None)
