"""What becomes of the measurements: a table for every load, and the targets."""
from __future__ import annotations

from collections.abc import Iterable

from ..common import tables
from .cases import CASES, LOADS, ORT, OURS, PEERS, TARGETS, TORCH, Target

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


def head(load: int) -> list[str]:
    return [f"{TITLES[load]}: median (p90), ms", *PEERS]


def text(measured: dict) -> str:
    """All tables and the targets as text."""
    parts = ["\n".join(tables.aligned([head(load), *table(measured, load)])) for load in LOADS]
    return "\n\n".join([*parts, tables.targets_text(verdicts(measured))])


def markdown(measured: dict) -> str:
    """The same for a page, the busy machine first."""
    parts = [tables.markdown(head(load), table(measured, load)) for load in (1, 0, 2)]
    return "\n\n".join([*parts, *tables.targets_markdown(verdicts(measured))])


def short(measured: dict) -> str:
    """One table of medians for a page, the busy machine first."""
    columns = [(peer, load) for load in (1, 0) for peer in (OURS, ORT, TORCH)]
    lines = []
    for case in measured["cases"]:
        medians = [figure(case["times"], peer, load, 50) for peer, load in columns]
        lines.append([case["name"], *["" if median is None else f"{median:.3g}" for median in medians]])
    names = [f"{peer}, {'busy' if load else 'quiet'}" for peer, load in columns]
    return tables.markdown(["median, ms", *names], lines)


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
