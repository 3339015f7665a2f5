"""What becomes of the measurements of exported networks: tables and targets. It needs no MXNet."""
from __future__ import annotations

import os
import statistics
from collections.abc import Iterable

from ..common import machine, tables
from .cases import COMPILED, EAGER, ORT, OURS, PEERS, TARGETS


def of(case: dict, peer: str) -> float | None:
    """Milliseconds for each image, or None."""
    return next((row["ms"] for row in case["times"] if row["peer"] == peer), None)


def best(case: dict) -> tuple[str | None, float | None]:
    """The fastest of ours: its name and milliseconds for each image."""
    return min(((of(case, peer), peer) for peer in OURS if of(case, peer)), default=(None, None))[::-1]


def ratio(case: dict, peer: str) -> float:
    """How many times as long as the fastest of ours a peer takes: the median over the turns, which hit both alike."""
    turns = {row["peer"]: row["turns"] for row in case["times"]}
    return statistics.median(theirs / ours for theirs, ours in zip(turns[peer], turns[best(case)[0]]))


def title(case: dict) -> str:
    return f"{case['net']} {case['size']}, batch {case['batch']}"


def _cell(case, peer):
    if peer in case["mismatches"]:
        return f"MISMATCH {case['mismatches'][peer]}"
    time, (_, ours) = of(case, peer), best(case)
    if time is None:
        return case["notes"].get(peer, "")
    return f"{time:.3g} ms ({ratio(case, peer):.2f})" if ours else f"{time:.3g} ms"


def text(case: dict) -> str:
    """One case as lines of text."""
    width = max(map(len, PEERS))
    lines = [f"  {peer.ljust(width)}  {_cell(case, peer)}" for peer in PEERS if _cell(case, peer)]
    return "\n".join([f"{title(case)}: for each image, and times the fastest of ours", *lines])


def verdicts(cases: Iterable[dict]) -> list[dict]:
    """Each target against each case."""
    return [_verdict(case, target) for case in cases for target in TARGETS]


def _verdict(case, target):
    words = f"{target.at_least} x the speed of {target.than}" if target.at_least > 1 else f"as fast as {target.than}"
    name, ours = best(case)
    if not ours or not of(case, target.than):
        return tables.verdict(title(case), words, "not measured", None)
    measured = ratio(case, target.than)
    return tables.verdict(title(case), words, f"{measured:.2f} x ({name})", measured >= target.at_least)


def write_readme(results: dict, path: str | os.PathLike) -> None:
    """Put :func:`summary` between the markers of a page.

    Raises
    ------
    ValueError
        There are no markers, the run was quick, or a result was wrong.
    """
    if results["quick"]:
        raise ValueError("these results are of a --quick run, whose network says nothing; run without it")
    if any(case["mismatches"] for case in results["cases"]):
        raise ValueError("a result did not match: there are no figures to show")
    tables.put(path, "deploy", summary(results))


def summary(results: dict) -> str:
    """The fastest of ours and three peers."""
    lines = []
    for case in results["cases"]:
        _, ours = best(case)
        times = [of(case, peer) for peer in (ORT, EAGER, COMPILED)]
        lines.append([title(case), f"{ours:.3g}", *["" if time is None else f"{time:.3g}" for time in times]])
    return "\n\n".join([
        tables.markdown(["milliseconds for each image", "gluonops", ORT, EAGER, "torch.compile"], lines),
        tables.targets_met(verdicts(results["cases"])),
        f"{machine.sentence(results)}; onnxruntime {results['machine']['onnxruntime'] or 'not installed'}"])
