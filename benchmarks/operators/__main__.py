"""Time the operators of gluonops beside their peers on the CPU.

Every peer's output and gradient are compared with the reference's first; where they differ there are no figures for it,
and the exit status is 1.
"""
from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence

from ..harness import machine, report
from ..harness.cases import declared, title
from ..harness.command import Benchmark
from ..harness.declaration import Target

OURS = "native"
OTHERS = ("custom", "builtin", "numpy", "torch")   # every other peer is made of MXNet's operators


class Operators(Benchmark):
    """The command."""
    module, about, section = "benchmarks.operators", __doc__, "operators"
    columns = {part: {"pass": part} for part in ("forward", "backward", "both")}

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--op", action="append", help="only this operator; may be given several times")
        parser.add_argument("--spoil", metavar="PEER", help="add 1 to what this peer puts out, to see that the check "
                            "works")

    def records(self, args: argparse.Namespace) -> Iterator[dict]:
        import gluonops as gops
        from gluonops.contract import registry

        from ..cpu import measure
        from ..harness import cases

        chosen = [registry.get(op).op.name for op in args.op or gops.ops.list()]
        for case in cases.on_cpu(chosen, args.quick):
            yield measure.run(case, args.quick, args.spoil)

    def title(self, record: dict) -> str:
        return title(record)

    def ours(self, record: dict) -> str:
        return OURS

    def targets(self, record: dict) -> Sequence[Target]:
        return declared(record["op"]).TARGETS if record["nodes"] == 1 else ()

    def speed(self, record: dict, target: Target) -> float | None:
        """A copy is compared with each pass."""
        if target.than != "copy":
            return super().speed(record, target)
        ours = report.of(record, OURS, **self.columns[target.part])
        return ours and report.of(record, "copy") / ours

    def table(self, measured: dict) -> str:
        """The first case of each operator: our time in a net, over the copy's, and how long peers take over ours."""
        lines = []
        for record in first_records(measured):
            ours = report.of(record, OURS, **self.columns["both"])
            shape = "x".join(map(str, record["shape"]))
            lines.append([f"{record['name']} ({shape})", report.milliseconds(ours),
                          f"{ours / report.of(record, 'copy'):.2f}", *report.cells(ratios(record).values(), "{:.1f}x")])
        return report.markdown(["case", "gluonops", "/ copy", "NumPy", "torch", "MXNet"], lines)


def first_records(measured: dict) -> list[dict]:
    """The first record of each operator."""
    first = {}
    for record in measured["cases"]:
        if record["nodes"] == 1:
            first.setdefault(record["op"], record)
    return list(first.values())


def ratios(record: dict) -> dict[str, float | None]:
    """How many times as long as ours NumPy, torch and MXNet's own operators, or else a graph of them, take in a net."""
    own = [peer for peer in record["peers"] if peer not in (OURS, *OTHERS)] or ["builtin"]

    def speedup(peer):
        return report.speedup(record, OURS, peer, **Operators.columns["both"])

    return {"numpy": speedup("numpy"), "torch": speedup("torch"),
            "mxnet": min(filter(None, map(speedup, own)), default=None)}


if __name__ == "__main__":
    if set(machine.KEEPING_MALLOC.items()) - set(os.environ.items()):   # glibc reads them when a process begins
        ours = {name: value for name, value in os.environ.items() if not name.startswith("GLUONOPS_")}
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.operators", *sys.argv[1:]],
                  {**ours, **machine.KEEPING_MALLOC, "MXNET_SUBGRAPH_VERBOSE": "0"})
    sys.exit(Operators().main(sys.argv[1:]))
