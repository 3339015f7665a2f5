"""Tables, as text and in Markdown, and the places in pages where they go."""
from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Sequence

README = pathlib.Path(__file__).resolve().parents[1] / "README.md"
VERDICTS = {True: "passed", False: "MISSED", None: "-"}


def amount(size: float) -> str:
    """Bytes as a person says them."""
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines])


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of text with their columns below one another; the last column may have any width."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]) - 1)]
    padded = ([cell.ljust(width) for cell, width in zip(line, [*widths, 0])] for line in lines)
    return ["  ".join(cells).rstrip() for cells in padded]


def verdict(case: str, target: str, measured: str, passed: bool | None) -> dict:
    """What became of one target in one case; ``passed`` is None where nothing was measured."""
    return {"case": case, "target": target, "measured": measured, "passed": passed}


def targets_text(verdicts: Sequence[dict]) -> str:
    """The targets as lines of text."""
    if not verdicts:
        return "no target speaks of these cases"
    lines = [[v["case"], v["target"], v["measured"], VERDICTS[v["passed"]]] for v in verdicts]
    return "\n".join(aligned(lines))


def targets_met(verdicts: Sequence[dict]) -> str:
    """How many targets are met, as a sentence."""
    passed = sum(v["passed"] is True for v in verdicts)
    judged = sum(v["passed"] is not None for v in verdicts)
    return f"{passed} of {judged} targets are met."


def put(path: str | os.PathLike, name: str, body: str) -> None:
    """Put text between the markers of :func:`marked`."""
    page, markers = marked(path, name)
    text = markers.sub(lambda match: f"{match[1]}{body}\n{match[2]}", page)
    pathlib.Path(path).write_text(text, encoding="utf-8")


def marked(path: str | os.PathLike, name: str) -> tuple[str, re.Pattern]:
    """A file's text, and the pattern of what its markers ``<!-- name:begin -->`` and ``<!-- name:end -->`` hold.

    Raises
    ------
    ValueError
        There are no markers.
    """
    page = pathlib.Path(path).read_text(encoding="utf-8")
    markers = re.compile(rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.S)
    if not markers.search(page):
        raise ValueError(f"{path} has no lines <!-- {name}:begin --> and <!-- {name}:end -->")
    return page, markers
