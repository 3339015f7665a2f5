"""Times in records, targets, tables as text and in Markdown, and the places in pages where they go.

A record is what was measured of a case. Its ``times`` are rows of a peer, milliseconds, and what else tells rows apart.
"""
from __future__ import annotations

import os
import pathlib
import re
import statistics
from collections.abc import Mapping, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "benchmarks" / "README.md"


def of(record: dict, peer: str, figure: str = "ms", **where) -> float | None:
    """A figure of a peer, in the row with these values; None where that was not measured."""
    wanted = {"peer": peer, **where}.items()
    return next((row.get(figure) for row in record["times"] if wanted <= row.items()), None)


def speedup(record: dict, ours: str, than: str, figure: str = "ms", **where) -> float | None:
    """How many times as long as ours a peer takes: over the turns, which hit both alike, where these are known."""
    turns = [of(record, peer, "turns", **where) for peer in (ours, than)]
    if all(turns):
        return statistics.median(theirs / mine for mine, theirs in zip(*turns))
    mine, theirs = (of(record, peer, figure, **where) for peer in (ours, than))
    return theirs / mine if mine and theirs else None


def compared(case: str, at_least: float, than: str, speed: float | None) -> dict:
    """The verdict on a target of our speed, as a multiple of a peer's; ``passed`` is None where it was not measured."""
    words = f"as fast as {than}" if at_least == 1 else f"{at_least:.3g} x the speed of {than}"
    verdict = {"case": case, "target": words}
    if speed is None:
        return {**verdict, "measured": "not measured", "passed": None}
    if speed <= 0:   # a net's time less that of the net without the operator
        return {**verdict, "measured": "within noise", "passed": None}
    return {**verdict, "measured": f"{speed:.2f} x", "passed": speed >= at_least}


def milliseconds(ms: float) -> str:
    return f"{ms:.3g} ms" if abs(ms) >= 0.1 else f"{ms * 1e3:.1f} us"


def cell(record: dict, peer: str, ours: str | None, **where) -> str:
    """A peer's time, and how many times as long as ours it is."""
    time, ratio = of(record, peer, **where), speedup(record, ours, peer, **where)
    if time is None:
        return ""
    return milliseconds(time) + (f" ({ratio:.2f})" if ratio and ratio > 0 else "")


def text(title: str, record: dict, ours: str | None, columns: Mapping[str, Mapping]) -> str:
    """A record as lines of text: the times of each peer, or what is wrong with it."""
    lines = [["", *columns]]
    for peer in dict.fromkeys(row["peer"] for row in record["times"]):
        lines.append([peer, *(cell(record, peer, ours, **where) for where in columns.values())])
    for peer, what in record["mismatches"].items():
        lines.append([peer, *[""] * (len(columns) - 1), f"MISMATCH {what}"])
    return "\n".join([f"{title}; times ours in brackets", *(f"  {line}" for line in aligned(lines))])


def cells(figures: Sequence[float | None], form: str = "{:.3g}") -> list[str]:
    """Figures as text, and nothing where there is none."""
    return ["" if figure is None else form.format(figure) for figure in figures]


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines])


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of text with their columns below one another; the last column may have any width."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]) - 1)]
    padded = ([cell.ljust(width) for cell, width in zip(line, [*widths, 0])] for line in lines)
    return ["  ".join(cells).rstrip() for cells in padded]


def put(path: str | os.PathLike, name: str, body: str) -> None:
    """Put text between the lines ``<!-- name:begin -->`` and ``<!-- name:end -->`` of a page; else a ValueError."""
    path = pathlib.Path(path)
    page = path.read_text(encoding="utf-8")
    text, count = re.subn(rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)",
                          lambda match: f"{match[1]}{body}\n{match[2]}", page, flags=re.S)
    if not count:
        raise ValueError(f"{path} has no lines <!-- {name}:begin --> and <!-- {name}:end -->")
    path.write_text(text, encoding="utf-8")
