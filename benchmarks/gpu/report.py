"""The targets, and the results as text."""
from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..harness import report
from ..harness.cases import declared, title

OURS = "gluonops"
LARGE = 64e6   # bytes of data from which the targets hold; smaller tensors may lie in the GPU's cache


def speedup(record: dict, than: str, part: str) -> float | None:
    """How many times as fast as a peer ours is."""
    return report.speedup(record, OURS, than, **{"pass": part})


def verdicts(records: Iterable[dict]) -> list[dict]:
    """Each target against each large case. Where the peer has no such function, nothing is measured."""
    return [report.compared(f"{title(record)}, {target.part}", target.at_least, target.than,
                            speedup(record, target.than, target.part))
            for record in records if record["data_bytes"] >= LARGE
            for target in declared(record["op"]).GPU_TARGETS]


def summary(results: dict) -> str:
    """A line for each operator: over its cases, the lowest and the highest share of a copy's speed and of torch's."""
    records = {}
    for record in results["cases"]:
        records.setdefault(record["op"], []).append(record)
    compared = (("copy", "forward"), ("copy", "backward"), ("torch", "both"))
    lines = [[op, str(len(found)), *(_range(found, peer, part) for peer, part in compared)]
             for op, found in records.items()]
    machine = results["machine"]
    return "\n\n".join([
        report.markdown(["operator", "cases", "forward, of a copy", "backward, of a copy", "both, of torch"], lines),
        report.targets_met(verdicts(results["cases"])),
        f"{machine['gpu']}; CuPy {machine['cupy']}, torch {machine['torch']}; {results['date']}; "
        f"`{results['command']}`"])


def _range(records, peer, part) -> str:
    """`0.96 to 1.01`: how many times as fast as a peer ours is, in all cases that it has a time of."""
    ratios = report.cells(filter(None, (speedup(record, peer, part) for record in records)), "{:.2f}")
    return " to ".join(dict.fromkeys((min(ratios, key=float), max(ratios, key=float)))) if ratios else ""


def text(record: dict) -> str:
    """A case as lines of text: time, rate, and how many times faster than each peer."""
    return "\n".join(_lines(record))


def _lines(record) -> Iterator[str]:
    yield title(record)
    for what in record["mismatches"].values():
        yield f"  MISMATCH {what}"
    peers = dict.fromkeys(row["peer"] for row in record["times"] if row["peer"] != OURS)
    for row in record["times"]:
        if row["peer"] == OURS:
            part, ms = row["pass"], row["ms"]
            others = [f"{speedup(record, peer, part):.2f} x {peer}" for peer in peers if speedup(record, peer, part)]
            yield (f"  {part:<9}{report.amount(record['bytes'][part]):>10}  {ms:8.4f} ms  "
                   f"{record['bytes'][part] / ms / 1e6:7.0f} GB/s  {', '.join(others)}")
    if record["with_launches"]:
        yield f"  the cost of launching is in: {', '.join(record['with_launches'])}"


def describe(plan: dict) -> Iterator[str]:
    """What would be launched, and how many bytes that moves."""
    for case in plan["cases"]:
        parts = ", ".join(f"{part} {p['bytes']} bytes, grid {p['grid'][0]} x block {p['block'][0]}x{p['block'][1]}"
                          for part, p in case["passes"].items())
        yield f"{title(case)}: {parts}"
    yield f"{len(plan['cases'])} cases, {len(plan['programs'])} programs compiled, no warnings"
