"""What becomes of the measurements on the CPU: the table, the targets, and the README's figures."""
from __future__ import annotations

from collections.abc import Iterable

from ..harness import machine, report
from ..harness.cases import declared, title

OURS = "native"
OTHERS = ("custom", "builtin", "numpy", "torch")   # every other peer is made of MXNet's operators
PASSES = ("forward", "backward", "both")


def limit(record: dict) -> float:
    """Milliseconds of the copy."""
    return report.of(record, "copy")


def text(record: dict) -> str:
    """A record as lines of text."""
    return report.text(f"{title(record)}, {report.amount(record['bytes'])}", record, OURS, PASSES)


def verdicts(records: Iterable[dict]) -> list[dict]:
    """Each target against each record of its operator."""
    return [verdict for record in records if record["nodes"] == 1 for verdict in _verdicts(record)]


def _verdicts(record):
    for target in declared(record["op"]).TARGETS:
        if target.than == "copy":
            ours = report.of(record, OURS, **{"pass": target.part})
            speed = ours and limit(record) / ours
        else:
            speed = report.speedup(record, OURS, target.than, **{"pass": target.part})
        yield report.compared(f"{title(record)}, {target.part}", target.at_least, target.than, speed)


def summary(results: dict) -> str:
    """The first case of each operator: our time in a net, over the copy's, and how many times as long peers take."""
    lines = []
    for record in first_records(results):
        ours = report.of(record, OURS, **{"pass": "both"})
        shape = "x".join(map(str, record["shape"]))
        lines.append([f"{record['name']} ({shape})", report.milliseconds(ours), f"{ours / limit(record):.2f}",
                      *report.cells(ratios(record).values(), "{:.1f}x")])
    head = ["case", "gluonops", "/ copy", "NumPy", "torch", "MXNet"]
    return "\n\n".join([report.markdown(head, lines), report.targets_met(verdicts(results["cases"])),
                        machine.sentence(results)])


def first_records(results: dict) -> list[dict]:
    """The first record of each operator."""
    first = {}
    for record in results["cases"]:
        if record["nodes"] == 1:
            first.setdefault(record["op"], record)
    return list(first.values())


def ratios(record: dict) -> dict[str, float | None]:
    """How many times as long as ours NumPy, torch and MXNet's own operators, or else a graph of them, take in a net."""
    own = [peer for peer in record["peers"] if peer not in (OURS, *OTHERS)] or ["builtin"]
    def speedup(peer):
        return report.speedup(record, OURS, peer, **{"pass": "both"})

    return {"numpy": speedup("numpy"), "torch": speedup("torch"),
            "mxnet": min(filter(None, map(speedup, own)), default=None)}
