"""A script from its command line to its exit status: errors and Ctrl-C end it with a sentence, not with a traceback."""
from __future__ import annotations

import _thread
import argparse
import os
import pathlib
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence

from ..core.errors import OpError

__all__ = ["command_to_resume", "run_script"]

CHECKPOINTS = ("last.checkpoint", "pretraining.checkpoint")
SUBGRAPH_VERBOSE = "MXNET_SUBGRAPH_VERBOSE"   # whether Module says in each process that it fuses layers
LAUNCHER = "LAUNCH_LOCAL"   # environment variable with the command that started this worker


def run_script(main: Callable[[argparse.Namespace], object], arguments: Callable[[], argparse.Namespace],
               saves: Sequence[str] = CHECKPOINTS, then: str | None = None) -> None:
    """``main(arguments())``. An OpError, Ctrl-C or SIGTERM ends the process with one or two sentences.

    Parameters
    ----------
    main : callable
    arguments : callable
        Returns an argparse.Namespace that has ``out``, the folder for the results.
    saves : sequence of str
        Names of the files in ``out`` that hold what was trained.
    then : str, optional
        A sentence about what the user can do with the saved file; by default the command that resumes the run.
    """
    os.environ.setdefault(SUBGRAPH_VERBOSE, "0")
    paths, before = [], {}
    # A handler runs when MXNet's call returns, which in a distributed job may never happen: leave SIGTERM as it is.
    if "DMLC_ROLE" not in os.environ:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    _send_again_what_python_drops()
    try:
        args = arguments()
        paths = [pathlib.Path(args.out) / name for name in saves]
        before = {path: _time_of_change(path) for path in paths}
        main(args)
    except OpError as error:
        if "--debug" in sys.argv:
            raise
        sys.exit(str(error))
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)   # a second one while Python exits ends it at once, silently
        saved = [path for path in paths if _time_of_change(path) != before[path]]
        if saved:
            print(f"\nThe script was interrupted. {saved[0]} is saved. {then or how_to_resume()}", file=sys.stderr)
        else:
            print("\nThe script was interrupted. Nothing of this training is saved yet.", file=sys.stderr)
        sys.exit(130)


def _send_again_what_python_drops() -> None:
    """Ctrl-C or SIGTERM in a callback of a weakref, of ctypes or in ``__del__`` comes again, until it is noticed."""
    report = sys.unraisablehook

    def hook(dropped):
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            _thread.start_new_thread(_interrupt_soon, ())   # threading's locks may be held here
        else:
            report(dropped)

    sys.unraisablehook = hook


def _interrupt_soon() -> None:
    time.sleep(0.01)
    is_handled = callable(signal.getsignal(signal.SIGTERM))
    os.kill(os.getpid(), signal.SIGTERM if is_handled else signal.SIGINT)


def how_to_resume() -> str:
    """A sentence with the command that resumes the run."""
    return f"To continue, run: {command_to_resume()}"


def command_to_resume() -> str:
    """The command that resumes the last checkpoint under --out, for a script that has the option ``--resume``."""
    program, *arguments = sys.argv
    is_command = program.endswith((" train", " val"))    # which gluonops.commands.scripts has put there
    words = shlex.split(program) if is_command else ["python", program]
    _, others = take_option("--resume", arguments)
    launcher = os.environ.get(LAUNCHER)
    return " ".join(filter(None, [launcher, shlex.join([*words, *others, "--resume", "auto"])]))


def take_option(option: str, words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The value of an option, or None, and the other words of a command line."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(option, dest="value", nargs="?")
    known, others = parser.parse_known_args(words)
    return known.value, others


def _time_of_change(path):
    return path.stat().st_mtime_ns if path.is_file() else None
