"""Measure the operators of gluonops against their peers.

Every peer's output and gradient are compared with the reference's first; where they differ there are no figures for it,
and the exit status is 1. Each allocator setting runs in a process of its own.
"""
from __future__ import annotations

import argparse
import datetime
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from ..common import machine, results, tables

MODULE = "benchmarks.operators"
ROOT = pathlib.Path(__file__).resolve().parents[2]
# The largest sizes need all the memory: they get a process of their own.
GROUPS = (("case", "corner", "call", "node"), ("sweep",))


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", action="append", help="only this operator; may be given several times")
    parser.add_argument("--kind", action="append", choices=[kind for group in GROUPS for kind in group],
                        help="only these rows; may be given several times")
    parser.add_argument("--quick", action="store_true", help="small sizes and few samples: shows that it runs, no more")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the results (with --readme: read)")
    parser.add_argument("--plot", type=pathlib.Path, metavar="FILE", help="draw a PNG; needs matplotlib")
    allocator = parser.add_mutually_exclusive_group()
    for name, text in (("tuned", "only with a malloc that keeps memory, as torch and NumPy need"),
                       ("untuned", "only with default settings"),
                       ("both", "one after the other, each in a process of its own (the default)")):
        allocator.add_argument(f"--{name}", dest="allocator", action="store_const", const=name, help=text)
    parser.add_argument("--readme", action="store_true",
                        help="measure nothing; write the results of --json into benchmarks/README.md")
    parser.add_argument("--spoil", metavar="PEER", help="add 1 to what this peer puts out, to see that the check works")
    parser.add_argument("--child", metavar="FILE", help=argparse.SUPPRESS)
    parser.set_defaults(allocator="both")
    return parser


def child(args: argparse.Namespace) -> None:
    """Measure with one setting of the allocator, printing the cases as they come; the process is ours alone."""
    import gluonops  # noqa: F401  (first: it makes mxnet importable)

    from . import cases, measure, numpy_ops, report

    records = []
    chosen = cases.cases(args.quick, args.op)
    numpy_ops.register(case.op for case in chosen)
    for case in chosen:
        if case.kind in args.kind:
            records.append(measure.run(case, args.quick, args.spoil))
            print(report.text(records[-1]), end="\n\n", flush=True)
    judged = report.verdicts(cases.targets(), records) if args.allocator == "tuned" else []
    results.save(args.child, {"machine": machine.describe(), "cases": records, "targets": judged})


def measure_all(args: argparse.Namespace, arguments: Sequence[str]) -> dict:
    """Run the children; returns the content of the JSON."""
    settings = ("tuned", "untuned") if args.allocator == "both" else (args.allocator,)
    measured = {"date": datetime.date.today().isoformat(), "command": machine.command(MODULE, arguments),
                "quick": args.quick, "machine": None, "targets": [], "runs": {}}
    with tempfile.TemporaryDirectory() as folder:
        for setting in settings:
            print(f"== allocator {'tuned' if setting == 'tuned' else 'as it is'} ==\n", flush=True)
            measured["runs"][setting] = []
            for kinds in GROUPS:
                if args.kind and not set(args.kind) & set(kinds):
                    continue
                if kinds == ("sweep",) and setting != settings[0]:
                    continue   # what tuning does, the cases show
                part = run_child(args, setting, [kind for kind in kinds if not args.kind or kind in args.kind],
                                 pathlib.Path(folder, "answer"))
                measured["machine"] = part["machine"]
                measured["runs"][setting] += part["cases"]
                measured["targets"] += part["targets"]
    return measured


def run_child(args: argparse.Namespace, setting: str, kinds: Sequence[str], answer: pathlib.Path) -> dict:
    """Measure in a process of its own, without what the environment says of malloc and the tests' check of labels."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC_")
                   and key not in ("GLUONOPS_TUNE_MEMORY", "GLUONOPS_CHECK_LABELS", "GLUONOPS_BACKEND")}
    if setting == "tuned":
        environment.update(machine.KEEPING_MALLOC)
    options = [f"--{setting}", "--child", str(answer), *(f"--kind={kind}" for kind in kinds),
               *(f"--op={op}" for op in args.op or ()), *["--quick"] * args.quick]
    options += [f"--spoil={args.spoil}"] if args.spoil else []
    subprocess.run([sys.executable, "-m", MODULE, *options], check=True, cwd=ROOT,
                   env={**environment, "MXNET_SUBGRAPH_VERBOSE": "0"})
    return results.load(answer)


def main(arguments: Sequence[str]) -> int | None:
    parser = options()
    args = parser.parse_args(arguments)
    if args.child:
        return child(args)
    if args.readme:
        return write_readme(parser, args)
    measured = measure_all(args, arguments)
    if args.json:
        results.save(args.json, measured)
    if not any(measured["runs"].values()):
        sys.exit("there is no such case; see benchmarks/operators/rows")
    if measured["targets"]:
        small = " (of a quick run: the sizes are not the targets')" if args.quick else ""
        print(f"== targets, allocator tuned{small} ==\n\n{tables.targets_text(measured['targets'])}")
    wrong = [f"{case['name']}: {peer}: {what}" for cases in measured["runs"].values() for case in cases
             for peer, what in case["mismatches"].items()]
    if wrong:
        print("\nMISMATCH, no figures for:\n" + "\n".join(wrong), file=sys.stderr)
        return 1
    if args.plot:
        from . import plot

        args.plot.parent.mkdir(parents=True, exist_ok=True)
        plot.plot(measured, args.plot)
    return 0


def write_readme(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    """Write the results of --json into benchmarks/README.md; the exit status."""
    from . import report

    if not args.json:
        parser.error("--readme needs --json FILE, the results to write")
    try:
        report.write_readme(results.load(args.json), tables.README)
    except (OSError, ValueError) as error:
        sys.exit(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
