"""What becomes of the measurements: a table for each load, the targets, and the table of the README."""
from __future__ import annotations

from collections.abc import Iterable

from ..common import machine, tables
from .cases import ARITHMETIC, CASES, LOADS, ORT, OURS, PEERS, TARGETS, TORCH, Target

TITLES = {0: "quiet", 1: "one busy process for every core", 2: "two busy processes for every core"}


def figure(rows: Iterable[dict], peer: str, load: int, percentile: int) -> float | None:
    """Milliseconds, or None if that was not measured."""
    return next((row[f"p{percentile}"] for row in rows if (row["peer"], row["load"]) == (peer, load)), None)


def table(measured: dict, load: int) -> list[list[str]]:
    """A line for every case: p50 and p90 of every peer, in milliseconds."""
    lines = []
    for case in measured["cases"]:
        cells = []
        for peer in PEERS:
            half, most = (figure(case["times"], peer, load, percentile) for percentile in (50, 90))
            cells.append("" if half is None else f"{half:.3g} ({most:.3g})")
        if any(cells):
            lines.append([case["name"], *cells])
    return lines


def floor(measured: dict) -> list[list[str]]:
    """A line for every case of arithmetic: the quiet median, and what busy processes make of it."""
    lines = []
    for case in measured["cases"]:
        quiet = figure(case["times"], ARITHMETIC, 0, 50)
        if quiet is None:
            continue
        lines.append([case["name"], f"{quiet:.3g}"])
        for load in LOADS[1:]:
            for percentile in (50, 90):
                busy = figure(case["times"], ARITHMETIC, load, percentile)
                lines[-1].append("" if busy is None else f"{busy:.3g} ({busy / quiet:.1f} x)")
    return lines


FLOOR_HEAD = ["milliseconds (x the quiet median)", "quiet, median", "one busy process for every core, median", "p90",
              "two, median", "p90"]


def head(load: int) -> list[str]:
    return [f"{TITLES[load]}: median (p90), ms", *PEERS]


def text(measured: dict) -> str:
    """All tables and the targets as text."""
    parts = ["\n".join(tables.aligned([head(load), *table(measured, load)])) for load in LOADS]
    parts.append("\n".join(tables.aligned([FLOOR_HEAD, *floor(measured)])))
    return "\n\n".join([*parts, tables.targets_text(verdicts(measured))])


def summary(measured: dict) -> str:
    """A table of medians, quiet and busy. It leaves out the bare call, which is no work of a user's."""
    bare = {case.name for case in CASES if case.kind == "call"}
    lines = []
    for case in measured["cases"]:
        medians = [[figure(case["times"], peer, load, 50) for load in (0, 1)] for peer in (OURS, ORT, TORCH)]
        if case["name"] not in bare and any(map(any, medians)):
            lines.append([case["name"], *map(_quiet_and_busy, medians)])
    return f"{tables.markdown(['ms, quiet (busy)', OURS, ORT, TORCH], lines)}\n\n{machine.sentence(measured)}"


def _quiet_and_busy(medians: list[float | None]) -> str:
    """`1.3 (2.15)`, or nothing where neither was measured."""
    quiet, busy = ("-" if median is None else f"{median:.{3 if median < 1000 else 4}g}" for median in medians)
    return f"{quiet} ({busy})" if any(medians) else ""


def verdicts(measured: dict) -> list[dict]:
    """Each target against each case of its kinds."""
    kinds = {case.name: case.kind for case in CASES}
    return [verdict for case in measured["cases"] for target in TARGETS if kinds[case["name"]] in target.kinds
            for verdict in _judge(case, target)]


def _judge(case: dict, target: Target) -> list[dict]:
    ours, other = figure(case["times"], *target.ours), figure(case["times"], *target.other)
    if ours is None or other is None:
        return []
    words = f"{_words(target.ours)}: at most {target.at_most} x {_words(target.other)}"
    ratio = ours / other
    return [tables.verdict(case["name"], words, f"{ratio:.2f} x", ratio <= target.at_most)]


def _words(of: tuple[str, int, int]) -> str:
    peer, load, percentile = of
    return f"{peer}'s {'median' if percentile == 50 else 'p90'}{', busy' if load else ''}"
