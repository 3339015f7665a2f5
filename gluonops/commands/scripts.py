"""``gluonops train`` and ``gluonops val``: they run the scripts of ``gluonops.examples``, whose options they take."""
from __future__ import annotations

import argparse
import itertools
import runpy
import shlex
import sys
from collections.abc import Sequence

from .. import data
from ..train.exporting import program
from ..train.interrupting import take_option

SCRIPTS = {"detection": "finetune_detector", "classification": "finetune_classifier"}
TASKS = {"detect": "detection", "classify": "classification"}


def run(args: argparse.Namespace) -> None:
    """Run the script. It ends the process itself if something is wrong."""
    script, words = (_training if args.command == "train" else _validation)(args)
    if args.help:
        if not args.rest and not getattr(args, "task", None):
            args.parser.print_help()
            args.parser.exit()
        words = ["--help"]
    if args.debug:
        words.append("--debug")
    sys.argv = [shlex.join([*program(), args.command]), *words]
    runpy.run_module(f"gluonops.examples.{script}", run_name="__main__")


def _training(args: argparse.Namespace) -> tuple[str, list[str]]:
    """The script that trains what the arguments describe, and its arguments."""
    words = ["--data", *args.rest] if _leading(args.rest) else args.rest
    values = {option: take_option(option, words)[0] for option in ("--cfg", "--data", "--root")}
    if values["--cfg"]:
        return "train_darknet", words
    folder = values["--data"] or values["--root"]
    task = TASKS[args.task] if args.task else data.recognize(folder).task if folder else "classification"
    return SCRIPTS[task], words


def _validation(args: argparse.Namespace) -> tuple[str, list[str]]:
    """The script that measures a net, and its arguments: NET [DATA], or CFG WEIGHTS [DATA]."""
    positional = _leading(args.rest)
    names = ["--net", *(["--weights"] if positional and positional[0].endswith(".cfg") else []), "--data"]
    if len(positional) > len(names):
        args.parser.error(f"unrecognized arguments: {positional[len(names)]}")
    return "evaluate", [*itertools.chain.from_iterable(zip(names, positional)), *args.rest[len(positional):]]


def _leading(words: Sequence[str]) -> list[str]:
    return [*itertools.takewhile(lambda word: not word.startswith("-"), words)]
