"""What becomes of the measurements: the table, the targets, and the README's figures."""
from __future__ import annotations

import math
import os
import pathlib
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


def write_readme(results: dict, path: str | os.PathLike, figure: str | None = None, short: bool = False) -> None:
    """Put the figures between the markers of a README; ``short`` is one line per case.

    Those of a run of corners alone have markers of their own. A page may have markers for :func:`compositions` too.

    Raises
    ------
    ValueError
        There are no markers, the run was quick, or a result was wrong.
    """
    only_corners = _kinds(results) == {"corner"}
    section = "corners" if only_corners else "bench"
    tables.marked(path, section)
    if results["quick"]:
        raise ValueError("these results are of a --quick run, whose sizes say nothing; run without it")
    if any(case["mismatches"] for cases in results["runs"].values() for case in cases):
        raise ValueError("a result did not match: there are no figures to show")
    write = corners if only_corners else summary if short else markdown
    tables.put(path, section, write(results, figure))
    if not only_corners and "<!-- compositions:begin -->" in pathlib.Path(path).read_text(encoding="utf-8"):
        tables.put(path, "compositions", compositions(results))


def _kinds(results):
    return {case["kind"] for cases in results["runs"].values() for case in cases}


def _setting(results, figure):
    """The machine, and the plot."""
    yield machine.sentence(results)
    if figure:
        yield f"![Time of every peer over copyto; time against size]({figure})"


def summary(results: dict, figure: str | None = None) -> str:
    """One line per case: our time in a net, over copyto's, and how many times as long the peers take."""
    allocator = next(iter(results["runs"]))
    cases = [case for case in results["runs"][allocator] if case["kind"] == "case" and case["times"]]
    lines = []
    for case in cases:
        ours = of(case, OURS, "net", "both")
        times = [of(case, peer, "net", "both") for peer in OTHERS]
        own = [of(case, peer, "net", "both") for peer in case["peers"] if peer not in (OURS, "builtin", *OTHERS)]
        lines.append([title(case), _time(ours), f"{ours / limit(case):.2f}",
                      *["" if time is None else f"{time / ours:.1f}x" for time in (*times, min(own, default=None))]])
    return "\n\n".join([
        f"Forward and backward in a hybridized net, {SETTINGS[allocator]}; `copyto` is one NumPy copy of the data, and "
        "a peer's column says how many times as long it takes. `numpy` is a CustomOp as the tutorials have it.",
        tables.markdown(["case", OURS, "/ copyto", *OTHERS, "the fastest of MXNet's own"], lines),
        *_setting(results, figure)])


COMPOSED = "at least 1.3 x faster than torch"   # the target of the operators that replace compositions


def compositions(results: dict) -> str:
    """One line per operator that replaces a composition: our time in a net, and how many times as long others take.

    ``MXNet`` is the composition that users write, or our graph of MXNet's own operators.
    """
    allocator = next(iter(results["runs"]))
    composed = [judged["case"] for judged in results["targets"] if judged["target"] == COMPOSED]
    lines = []
    for case in results["runs"][allocator]:
        if case["kind"] != "case" or not any(name.startswith(title(case)) for name in composed):
            continue
        theirs = "mxnet" if "mxnet" in case["peers"] else "builtin"
        ours = [of(case, OURS, "net", part) for part in PASSES]
        times = ["" if time is None else _time(time) for time in ours[:2]]
        factors = [[_factor(of(case, peer, "net", part), time) for part, time in zip(PASSES, ours)]
                   for peer in (theirs, "torch")]
        lines.append([title(case), *times, *(" / ".join(factor) for factor in factors)])
    return tables.markdown(["case", "forward", "backward", "MXNet: forward / backward / both",
                            "torch: forward / backward / both"], lines)


def _factor(theirs, ours):
    return "-" if theirs is None or ours is None else speedup(theirs, ours)


def corners(results: dict, figure: str | None = None) -> str:
    """One line per case and pass: our time in a net, over copyto's, and torch's."""
    allocator = next(iter(results["runs"]))
    lines = []
    for case in results["runs"][allocator]:
        for part in ("forward", "backward"):
            ours, torch = (of(case, peer, "net", part) for peer in (OURS, "torch"))
            if ours is None:
                continue
            measured = [_time(ours), f"{ours / limit(case):.1f}"] if ours > 0 else ["within noise", ""]
            lines.append([title(case), part, _time(limit(case)), *measured, "" if torch is None else _time(torch)])
    return "\n\n".join([
        tables.markdown(["case", "pass", "copyto", OURS, "/ copyto", "torch"], lines),
        *_setting(results, figure)])


def markdown(results: dict, figure: str | None = None) -> str:
    """Machine, targets and cases as Markdown."""
    parts = list(_setting(results, figure))
    if results["targets"]:
        parts += tables.targets_markdown(results["targets"], ", allocator tuned")
    for setting, cases in results["runs"].items():
        parts.append(f"**Cases**, {SETTINGS[setting]}. In brackets: times copyto for `{OURS}`, and how many times "
                     f"faster `{OURS}` is for the others.")
        for case in (case for case in cases if case["kind"] != "sweep" and case["times"]):
            heads = [f"{mode} {part}" for mode, part in columns(case)]
            lines = []
            for name, cells in rows(case):
                missing = len(heads) - len(cells)
                lines.append([name, *cells, *[""] * missing])
            parts.append(tables.markdown([title(case), *heads], lines))
        sweep = [case for case in cases if case["kind"] == "sweep" and case["times"]]
        if sweep:
            parts.append(f"Time against size, alone, forward, {SETTINGS[setting]}:")
            parts.append(_sweep(sweep))
    return "\n\n".join(parts)


def _sweep(cases):
    ops = list(dict.fromkeys(case["op"] for case in cases))
    sizes = list(dict.fromkeys(case["bytes"] for case in cases))
    by = {(case["op"], case["bytes"]): case for case in cases}
    copies = {size: limit(next(by[op, size] for op in ops if (op, size) in by)) for size in sizes}
    lines = []
    for size in sizes:
        ours = [of(by[op, size], OURS, "alone", "forward") if (op, size) in by else None for op in ops]
        lines.append([amount(size), _time(copies[size]), *["" if time is None else _time(time) for time in ours]])
    return tables.markdown(["data", "copyto", *[f"{OURS} {op}" for op in ops]], lines)
