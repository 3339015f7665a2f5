"""The targets, and the results as text."""
from collections.abc import Iterable, Iterator
from typing import Optional

from ..common import tables
from .cases import Target
from .cases import rows as rows_of

LARGE = 64e6   # bytes of data from which the targets hold; smaller tensors may lie in the GPU's cache


def targets(op: str) -> list[Target]:
    """What an operator has to reach."""
    return getattr(rows_of(op), "TARGETS", [])


def verdicts(records: Iterable[dict]) -> list[dict]:
    """Each target against each case it speaks of: not measured where the peer, or we, have no time.

    A case that the peer has no function for is none of the target's.
    """
    judged = []
    for record in records:
        if record["data_bytes"] < LARGE:
            continue
        for target in targets(record["op"]):
            if target.than == "copy" or target.than in record["counterparts"]:
                judged.append(_verdict(record, target))
    return judged


def _verdict(record, target):
    case, words = f"{title(record)}, {target.part}", f"at least {target.at_least:g} x the speed of {target.than}"
    ours, theirs = _time(record, "gluonops", target.part), _time(record, target.than, target.part)
    if not ours or not theirs:
        return tables.verdict(case, words, "not measured", None)
    ratio = theirs / ours
    return tables.verdict(case, words, f"{ratio:.2f} x", ratio >= target.at_least)


def _time(record, peer, part) -> Optional[float]:
    return record["ms"].get(peer, {}).get(part)


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
        tables.markdown(["operator", "cases", "forward, of a copy", "backward, of a copy", "both, of torch"], lines),
        tables.targets_met(results["targets"]),
        f"{machine['gpu']}; CuPy {machine['cupy']}, torch {machine['torch']}; {results['date']}; "
        f"`{results['command']}`"])


def _range(records, peer, part) -> str:
    """`0.96 to 1.01`: how many times as fast as a peer ours is, in all cases that it has a time of."""
    times = [(_time(record, "gluonops", part), _time(record, peer, part)) for record in records]
    ratios = [f"{theirs / ours:.2f}" for ours, theirs in times if ours and theirs]
    return " to ".join(dict.fromkeys((min(ratios, key=float), max(ratios, key=float)))) if ratios else ""


def title(case: dict) -> str:
    return f"{case['name']} ({'x'.join(map(str, case['shape']))}) {case['dtype']}"


def lines(record: dict) -> Iterator[str]:
    """A case as lines of text: time, rate, and how many times faster than each peer."""
    yield title(record)
    if record["wrong"]:
        yield f"  MISMATCH {record['wrong']}"
    for part, ms in record["ms"].get("gluonops", {}).items():
        others = ", ".join(f"{record['ms'][peer][part] / ms:.2f} x {peer}" for peer in record["ms"]
                           if peer != "gluonops" and part in record["ms"][peer])
        yield (f"  {part:<9}{tables.amount(record['bytes'][part]):>10}  {ms:8.4f} ms  "
               f"{record['bytes'][part] / ms / 1e6:7.0f} GB/s  {others}")
    if record["with_launches"]:
        yield f"  the cost of launching is in: {', '.join(record['with_launches'])}"


def describe(plan: dict) -> Iterator[str]:
    """What would be launched, and how many bytes that moves."""
    for case in plan["cases"]:
        parts = ", ".join(f"{part} {p['bytes']} bytes, grid {p['grid'][0]} x block {p['block'][0]}x{p['block'][1]}"
                          for part, p in case["passes"].items())
        yield f"{title(case)}: {parts}"
    yield f"{len(plan['cases'])} cases, {len(plan['programs'])} programs compiled, no warnings"
