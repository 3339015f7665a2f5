"""Time the operators of gluonops beside their peers on the CPU.

Every peer's output and gradient are compared with the reference's first; where they differ there are no figures for it,
and the exit status is 1.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ..cpu import report
from ..harness import machine
from ..harness.cases import title
from ..harness.command import Benchmark
from ..harness.report import README

BENCHMARK = Benchmark("benchmarks.operators", __doc__, README, "operators", title, report.text, report.verdicts,
                      report.summary)


def main(arguments: Sequence[str]) -> int:
    parser = BENCHMARK.parser()
    parser.add_argument("--op", action="append", help="only this operator; may be given several times")
    parser.add_argument("--spoil", metavar="PEER", help="add 1 to what this peer puts out, to see that the check works")
    args = parser.parse_args(arguments)
    if args.readme:
        return BENCHMARK.write_readme(parser, args)
    import gluonops as gops

    from ..cpu import measure
    from ..harness import cases

    unknown = set(args.op or ()) - set(gops.ops.list())
    if unknown:
        parser.error(f"there is no operator {' or '.join(sorted(unknown))}; there are {', '.join(gops.ops.list())}")
    chosen = cases.on_cpu(args.op or gops.ops.list(), args.quick)
    records = (measure.run(case, args.quick, args.spoil) for case in chosen)
    return BENCHMARK.run(args, arguments, machine.describe(), records)


if __name__ == "__main__":
    if set(machine.KEEPING_MALLOC.items()) - set(os.environ.items()):   # glibc reads them when a process begins
        ours = {name: value for name, value in os.environ.items() if not name.startswith("GLUONOPS_")}
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.operators", *sys.argv[1:]],
                  {**ours, **machine.KEEPING_MALLOC, "MXNET_SUBGRAPH_VERBOSE": "0"})
    sys.exit(main(sys.argv[1:]))
