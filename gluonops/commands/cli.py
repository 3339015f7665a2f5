"""The command ``gluonops``.

This file and those it imports at the top import neither MXNet nor ``gluonops`` itself, so that the command can say in
one line why ``import gluonops`` fails.
"""
from __future__ import annotations

import argparse
import functools
import importlib
import io
import json
import os
import pathlib
import runpy
import shlex
import sys
import textwrap
from collections.abc import Callable, Sequence

from ..runtime import doctor, mxnet_wheel
from ..runtime.near import Parser
from ..version import __version__
from . import completion, kinds, net_arguments
from .examples import EXAMPLES

# The three reasons why users come. The help lists the commands under these titles, as the README and the site do.
DOORS = KEEP, BUILD, TAKE = "Keep it running", "Build with it", "Take it with you"
# The commands for which MXNet is not imported. Importing it takes seconds, and these commands only read files.
WITHOUT_MXNET = ("files",)
# The command runs it as a file, because importing its package needs MXNet.
FORMATS = pathlib.Path(__file__).parents[1] / "data" / "formats.py"
EXIT_CODES = """\
exit codes: 0 success; 1 failure, with the reason in one line on stderr;
2 wrong arguments; 130 Ctrl-C"""


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code; see EXIT_CODES. Without words, print the help."""
    words = sys.argv[1:] if argv is None else argv
    args, rest = _parser().parse_known_args(words or ["--help"])
    args.typed = list(words)
    if hasattr(args, "rest"):
        args.rest = rest
    elif rest:
        args.parser.error(f"unrecognized arguments: {rest[0]}")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")   # the name of a file is printed as the system has it
    try:
        code = args.run(args)
        sys.stdout.flush()
        return code or 0
    except BrokenPipeError:   # the reader has exited, as in `gluonops ops | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("\ngluonops was interrupted.", file=sys.stderr)
        return 130
    except Exception as error:
        if args.debug:
            raise
        print(_explained(error, args), file=sys.stderr)
        return 1


def _explained(error: Exception, args: argparse.Namespace) -> str:
    """One line for an exception. If a head cannot be exported, the line has the command that exports the net below it.
    """
    outputs = getattr(error, "outputs", ())
    if not outputs:
        return doctor.explain(error)
    options = [word for name in outputs for word in ("--output", name)]
    if args.command in ("export", "viz"):
        command = f"run, for the net below it: {shlex.join(['gluonops', *_without_nodes(args), *options])}"
    else:   # their --output is another one
        command = f"export the net below it first: gluonops export IN OUT {shlex.join(options)}"
    return f"gluonops.{error.where}: {error.what}. {error.otherwise}; or {command}"


def _without_nodes(args: argparse.Namespace) -> list[str]:
    """The words of the command without the nodes that it names as outputs."""
    words = []
    for word in args.typed:
        if word in args.outputs and words and words[-1] in ("-o", "--output"):
            words.pop()
        elif word.partition("=")[2] not in args.outputs or not word.startswith("--output="):
            words.append(word)
    return words


@functools.cache
def _parser() -> argparse.ArgumentParser:
    debug = argparse.ArgumentParser(add_help=False)
    debug.add_argument("--debug", action="store_true", help="show the traceback of an error")
    common = argparse.ArgumentParser(add_help=False, parents=[debug])
    common.add_argument("--json", action="store_true", help="print JSON, for other programs")
    parser = Parser(
        prog="gluonops", usage="gluonops [-h] [--version] COMMAND ...",
        epilog=f"examples:\n  gluonops doctor\n  gluonops export --help\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"gluonops {__version__}")
    commands = parser.add_subparsers(prog="gluonops", metavar="COMMAND", required=True, help=argparse.SUPPRESS)
    listed = ["MXNet 1.9.1 on today's Python: run it, build with it, and take its nets with you."]

    def add(name: str, help: str, description: str, run: Callable | None = None,
            parents: Sequence[argparse.ArgumentParser] = (common,), **options) -> argparse.ArgumentParser:
        listed.append(f"  {name:<15}{help}")
        command = commands.add_parser(
            name, parents=list(parents), description=textwrap.fill(description, 79),
            epilog=f"examples:\n{EXAMPLES[name]}\n\n{EXIT_CODES}", formatter_class=argparse.RawDescriptionHelpFormatter,
            **options)
        command.set_defaults(run=run or _run, command=name, module=name, parser=command)
        return command

    listed.append(f"\n{KEEP}:")
    _add_installation(add)
    listed.append(f"\n{BUILD}:")
    _add_operators(add)
    _add_scripts(add, debug)
    _add_anchors(add)
    net_arguments.add_on_images(add, debug)
    listed.append(f"\n{TAKE}:")
    _add_files(add)
    net_arguments.add_export(add)
    net_arguments.add_import(add)
    net_arguments.add_convert(add)
    net_arguments.add_viz(add)
    listed.append("\nIn your shell:")
    add("completion", "print a script that completes commands and options in bash or zsh",
        "Print a script that makes the key Tab complete the commands and options of gluonops. Write it into a file "
        "that your shell reads at its start.", completion.run).set_defaults(whole=parser)
    parser.description = "\n".join(listed)
    return parser


def _add_installation(add: Callable) -> None:
    add("doctor", "print what is installed, what is missing, and what to do about it",
        "Print versions, backends, GPUs and what is missing. Exits with 1 if gluonops cannot be used.", _run_doctor)
    install = add("install-mxnet", "install an MXNet 1.9.1 that runs with today's Python and NumPy",
                  "Let pip download MXNet's wheel, patch a copy of it so that it runs with NumPy 2, and install the "
                  "copy.", mxnet_wheel.run)
    mxnet_wheel.add_arguments(install)


def _add_operators(add: Callable) -> None:
    ops = add("ops", "print the operators: arguments, backends, types, gradients, exports",
              "Print the operators, as their contracts declare them, or one of them.")
    ops.add_argument("name", nargs="?", help="an operator, a layer or a loss, such as group_norm, GroupNorm or "
                     "focal_loss; all operators if left out")
    ops.set_defaults(module="table")
    _add_bench(add)


def _add_files(add: Callable) -> None:
    files = add("files", "list, check and convert files of MXNet, without MXNet",
                "List what is in a net, a .params or a .rec file; check that it is whole and fits together; or convert "
                "it: to NAME.safetensors, to NAME.params of today's MXNet, or to a folder of NumPy's arrays or of "
                "pictures.")
    files.add_argument("action", choices=("list", "check", "convert"))
    files.add_argument("path", help="a net: its path without -symbol.json, one of its two files, a folder or an "
                       "archive; or a file that ends in .params or .rec")
    files.add_argument("target", nargs="?", help="for convert: what to write")
    files.add_argument("--epoch", type=int, metavar="N", help="number of the parameter file (default: the highest)")
    files.set_defaults(module="mxnet_files", check=_check_files)


def _check_files(args: argparse.Namespace) -> None:
    if (args.target is None) == (args.action == "convert"):
        args.parser.error("convert needs a PATH and a TARGET, and the other actions need only a PATH")


def _add_scripts(add: Callable, debug: argparse.ArgumentParser) -> None:
    train = add("train", "train a detector or a classifier on your images",
                "Train on DATA, and export and check what was trained. DATA is a folder, and its layout says what it "
                "is: VOC, COCO, YOLO, RecordIO, a folder for each class, or MNIST. By default it is digits, which are "
                "part of scikit-learn. With --cfg FILE the net of a Darknet cfg is trained.",
                parents=(debug,), add_help=False, allow_abbrev=False)
    train.usage = "gluonops train [DATA] [options]"
    train.add_argument("--task", choices=("detect", "classify"), help="what to do with digits (default: classify)")
    val = add("val", "measure how good a net is on your images",
              "Measure a net: mAP and COCO's AP of a detector, the accuracy of a classifier, and a confusion matrix. "
              "DATA is as in `gluonops train`.", parents=(debug,), add_help=False, allow_abbrev=False)
    val.usage = "gluonops val NET [DATA] [options]\n       gluonops val CFG WEIGHTS [DATA] [options]"
    for command, more in ((train, "DATA, --task or --cfg"), (val, "NET")):
        command.add_argument("-h", "--help", action="store_true", help=f"this text; with {more}, all options")
        command.set_defaults(module="scripts", rest=[])


def _add_anchors(add: Callable) -> None:
    formats = runpy.run_path(str(FORMATS))["format_names"]("detection")
    anchors = add("anchors", "compute anchors for a data set",
                  "Print anchors for a data set, found by k-means on 1 - IoU, as Darknet's cfg files have them: "
                  "widths and heights in grid cells.")
    anchors.add_argument("data", nargs="?", help="folder of the data set (default: the scenes of digits)")
    anchors.add_argument("--dataset", choices=formats, help="its format (default: as its layout tells)")
    anchors.add_argument("--split", choices=("train", "val"), default="train",
                         help="part of the data set (default: train)")
    anchors.add_argument("--classes", nargs="+", metavar="NAME", help="the classes: names, or a file with one per line")
    anchors.add_argument("--strict", action="store_true", help="refuse labels and pictures that would be repaired")
    anchors.add_argument("-k", type=int, default=5, help="number of anchors (default: 5)")
    anchors.add_argument("--input", type=int, default=416, help="width and height of the net's input (default: 416)")
    anchors.add_argument("--stride", type=int, default=32, help="pixels per grid cell (default: 32)")
    anchors.add_argument("--seed", type=int, default=0, help="seed of the first centres (default: 0)")
    anchors.add_argument("-o", "--output", metavar="FILE", help="plot boxes and anchors: .png, .svg or .pdf")
    anchors.set_defaults(module="find_anchors")


def _add_bench(add: Callable) -> None:
    bench = add("bench", "measure the operators' speed on this machine, next to MXNet's own",
                "Compare the results of the operators with those of MXNet's own, and then time both, as NDArray "
                "functions. MXNet's side is an operator with the same result, the builtin backend, identity and "
                "copyto. Prints the median of each, and its ratio to the time of gluonops. Leave the machine alone "
                "while this runs.")
    bench.add_argument("--op", action="append", help="only this operator; may be given several times")
    bench.add_argument("--shape", type=kinds.sizes, metavar="16,64,52,52", help="shape of the data, with one --op")
    bench.add_argument("--dtype", choices=("float16", "float32", "float64"), default="float32",
                       help="type (default: float32)")
    bench.add_argument("--seconds", type=kinds.seconds, default=0.15,
                       help="time limit for each measurement, in seconds (default: 0.15)")
    bench.add_argument("-o", "--output", metavar="FILE", help="write the figures, as JSON")
    bench.set_defaults(check=_check_bench)


def _check_bench(args: argparse.Namespace) -> None:
    if args.shape and len(args.op or ()) != 1:
        args.parser.error("--shape can only be used with a single --op")


def _run(args: argparse.Namespace) -> int | None:
    """Check the arguments, then import the package and run the command.

    A command returns an exit code only if it has found something wrong.
    """
    if hasattr(args, "check"):
        args.check(args)
    if args.command in WITHOUT_MXNET:
        sys.modules.setdefault("mxnet", None)   # The package is imported as where MXNet is not installed.
    return importlib.import_module(f"gluonops.commands.{args.module}").run(args)


def _run_doctor(args: argparse.Namespace) -> int:
    report = doctor.examine()
    print(json.dumps(report, indent=2) if args.json else doctor.render(report))
    return 0 if report["ok"] else 1
