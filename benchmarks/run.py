"""Measure the operators of gluonops against their peers.

Every peer's output and gradient are compared with the reference's first; where they differ there are no figures for it,
and the exit status is 1. Each allocator setting runs in a process of its own.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# The largest sizes need all the memory: they get a process of their own.
GROUPS = (("case", "node"), ("sweep",))


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", action="append", help="only this operator; may be given several times")
    parser.add_argument("--kind", action="append", choices=["case", "node", "sweep"], help="only these rows; may be "
                        "given several times")
    parser.add_argument("--quick", action="store_true", help="small sizes and few samples: shows that it runs, no more")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the results (with --readme: read)")
    parser.add_argument("--plot", type=pathlib.Path, metavar="FILE", help="draw a PNG; needs matplotlib")
    allocator = parser.add_mutually_exclusive_group()
    for name, text in (("tuned", "only with gluonops.tune_malloc()"), ("untuned", "only without"),
                       ("both", "one after the other, each in a process of its own (the default)")):
        allocator.add_argument(f"--{name}", dest="allocator", action="store_const", const=name, help=text)
    parser.add_argument("--readme", type=pathlib.Path, metavar="FILE", nargs="?", const=HERE / "README.md",
                        help="measure nothing; write the results of --json into this file, between its markers "
                        "(default: README.md beside this script)")
    parser.add_argument("--short", action="store_true", help="with --readme: one line per case")
    parser.add_argument("--spoil", metavar="PEER", help="add 1 to what this peer puts out, to see that the check works")
    parser.add_argument("--child", metavar="FILE", help=argparse.SUPPRESS)
    parser.set_defaults(allocator="both")
    return parser


def child(args):
    """Measure with one setting of the allocator, printing the cases as they come; the process is ours alone."""
    import gluonops  # noqa: F401  (first: it makes mxnet importable)
    from gluonops import memory

    # Before anything is computed: threads that have allocated keep the arena they have.
    if args.allocator == "tuned" and not memory.tune_malloc():
        print("the allocator cannot be tuned here: there is no glibc", file=sys.stderr)

    import measure
    import registry
    import report
    import tutorial_ops  # noqa: F401  (registers them)

    cases = []
    for case in registry.cases(args.quick):
        if (not args.op or case.op in args.op) and case.kind in args.kind:
            cases.append(measure.run(case, args.quick, args.spoil))
            print(report.text(cases[-1]), end="\n\n", flush=True)
    found = report.verdicts(registry.TARGETS, cases) if args.allocator == "tuned" else []
    pathlib.Path(args.child).write_text(json.dumps({"machine": machine(), "cases": cases, "targets": found}))


def machine():
    """What the figures depend on."""
    import gluonops
    import measure
    import mxnet
    import numpy
    from gluonops.core import native

    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"cpu": _cpu(), "cores": os.cpu_count(), "threads": measure.threads(), "memory_gb": round(memory / 2**30),
            "system": f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver()).strip()}",
            "python": platform.python_version(), "mxnet": mxnet.__version__, "numpy": numpy.__version__,
            "torch": measure.torch.__version__ if measure.torch else None, "gluonops": gluonops.__version__,
            "target": native.target()}


def _cpu():
    """The model; where a hypervisor hides the name, family and model number tell the generation."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        fields = dict([part.strip() for part in line.split(":", 1)] for line in lines if ":" in line)
        return f"{fields['model name']} (family {fields['cpu family']}, model {fields['model']})"
    except (OSError, KeyError):
        return platform.processor() or platform.machine()


def command(arguments, script="run.py"):
    """The command as another machine would run it: without this one's folders."""
    return shlex.join(["python", f"benchmarks/{script}", *(
        pathlib.Path(text).name if os.path.isabs(text) else text for text in arguments)])


def measure_all(args, arguments):
    """Run the children; return what goes into the JSON."""
    settings = ("tuned", "untuned") if args.allocator == "both" else (args.allocator,)
    results = {"date": datetime.date.today().isoformat(), "command": command(arguments), "quick": args.quick,
               "machine": None, "targets": [], "runs": {}}
    with tempfile.TemporaryDirectory() as folder:
        for setting in settings:
            print(f"== allocator {'tuned' if setting == 'tuned' else 'as it is'} ==\n", flush=True)
            results["runs"][setting] = []
            for kinds in GROUPS:
                if args.kind and not set(args.kind) & set(kinds):
                    continue
                if kinds == ("sweep",) and setting != settings[0]:
                    continue   # what tuning does, the cases show
                part = run_child(args, setting, [kind for kind in kinds if not args.kind or kind in args.kind],
                                 pathlib.Path(folder, "answer"))
                results["machine"] = part["machine"]
                results["runs"][setting] += part["cases"]
                results["targets"] += part["targets"]
    return results


def run_child(args, setting, kinds, answer):
    """Measure in a process of its own, without what the environment says of malloc and the tests' check of labels."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC_")
                   and key not in ("GLUONOPS_TUNE_MALLOC", "GLUONOPS_CHECK_LABELS", "GLUONOPS_BACKEND")}
    options = [f"--{setting}", "--child", str(answer), *(f"--kind={kind}" for kind in kinds),
               *(f"--op={op}" for op in args.op or ()), *["--quick"] * args.quick]
    options += [f"--spoil={args.spoil}"] if args.spoil else []
    subprocess.run([sys.executable, __file__, *options], check=True, env={**environment, "MXNET_SUBGRAPH_VERBOSE": "0"})
    return json.loads(answer.read_text())


def main(arguments):
    parser = options()
    args = parser.parse_args(arguments)
    if args.child:
        return child(args)
    sys.path.insert(0, str(HERE))
    import report

    if args.readme:
        if not args.json:
            parser.error("--readme needs --json FILE, the results to write")
        figure = args.plot and os.path.relpath(args.plot, args.readme.parent)
        try:
            report.write_readme(json.loads(args.json.read_text()), args.readme, figure, args.short)
        except (OSError, ValueError) as error:
            sys.exit(str(error))
        return 0
    results = measure_all(args, arguments)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(results, indent=1) + "\n")
    if not any(results["runs"].values()):
        sys.exit("there is no such case; see benchmarks/registry.py")
    if results["targets"]:
        small = " (of a quick run: the sizes are not the targets')" if args.quick else ""
        print(f"== targets, allocator tuned{small} ==\n\n{report.targets_text(results['targets'])}")
    wrong = [f"{case['name']}: {peer}: {what}" for cases in results["runs"].values() for case in cases
             for peer, what in case["mismatches"].items()]
    if wrong:
        print("\nMISMATCH, no figures for:\n" + "\n".join(wrong), file=sys.stderr)
        return 1
    if args.plot:
        args.plot.parent.mkdir(parents=True, exist_ok=True)
        report.plot(results, args.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
