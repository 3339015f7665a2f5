"""Handles errors, Ctrl-C and SIGTERM in scripts.

They end a script with a sentence instead of a traceback. At Ctrl-C or SIGTERM a run finishes its batch or validation,
saves, and stops, on all workers alike.
"""
from __future__ import annotations

import _thread
import argparse
import collections
import contextlib
import os
import pathlib
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence

import mxnet as mx

from ..contract.errors import OpError
from ..data.repairs import RepairWarning
from ..io.progress import say
from .workers import Workers

__all__ = ["command_to_resume", "run_script"]

CHECKPOINTS = ("last.checkpoint", "pretraining.checkpoint")
SUBGRAPH_VERBOSE = "MXNET_SUBGRAPH_VERBOSE"   # whether Module says in each process that it fuses layers
LAUNCHER = "LAUNCH_LOCAL"   # environment variable with the command that started this worker
KEY = (1 << 30) - 1   # The kvstore of dist_sync has it; a trainer counts its keys from 0.


def run_script(main: Callable[[argparse.Namespace], object], arguments: Callable[[], argparse.Namespace],
               saves: Sequence[str] = CHECKPOINTS, then: str | None = None) -> None:
    """Run ``main(arguments())``. An OpError, Ctrl-C or SIGTERM ends the process with one or two sentences.

    Parameters
    ----------
    main : callable
        The script. It takes the namespace.
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
    _show_repairs_plainly()
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
        what = f"{saved[0]} is saved. {then or how_to_resume()}" if saved else "Nothing of this training is saved yet."
        print(f"\nThe script was interrupted. {what}", file=sys.stderr)
        sys.exit(130)


def _show_repairs_plainly() -> None:
    """Print the warning about repairs of a data set for the user, without the program's file and line."""
    show = warnings.showwarning

    def showwarning(message, category, *others, **options):
        if issubclass(category, RepairWarning):
            say(f"Warning: {message}")
        else:
            show(message, category, *others, **options)

    warnings.showwarning = showwarning


def _send_again_what_python_drops() -> None:
    """Repeat Ctrl-C or SIGTERM until it is noticed.

    Python drops the exception if it arrives in a callback of a weakref or of ctypes, or in ``__del__``.
    """
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
    """The command that resumes the last checkpoint under ``--out``, if the script has the option ``--resume``."""
    program, *arguments = sys.argv
    is_command = program.endswith((" train", " val"))    # gluonops.commands.scripts has put them there.
    words = shlex.split(program) if is_command else ["python", program]
    _, others = take_option("--resume", arguments)
    launcher = os.environ.get(LAUNCHER)
    return " ".join(filter(None, [launcher, shlex.join([*words, *others, "--resume", "auto"])]))


def take_option(option: str, words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The value of an option, or None, and the other words of a command line."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(option, dest="value", nargs="?")
    taken, others = parser.parse_known_args(words)
    return taken.value, others


def _time_of_change(path):
    return path.stat().st_mtime_ns if path.is_file() else None


class Stopping:
    """Decides whether a run stops. ``agreed`` is true if all workers stop now.

    ``after`` tells the user what is finished first.
    """

    def __init__(self, workers: Workers):
        self.agreed, self.after = False, "this batch"
        self._workers, self._requested, self._answers = workers, False, collections.deque()
        if workers.in_step:
            self._flag = mx.nd.zeros(1)
            workers.kvstore.init(KEY, self._flag)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Take Ctrl-C and SIGTERM as requests to stop."""
        previous = {number: signal.signal(number, self._request) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _request(self, number, frame):
        if self._requested:
            raise KeyboardInterrupt
        self._requested = True
        if self._workers.rank == 0:   # os.write, because a handler may interrupt a print, which cannot be entered twice
            text = f"\nThe run saves after {self.after}. Another Ctrl-C ends it at once, without saving.\n"
            os.write(2, text.encode())

    def agree(self, lag: int) -> None:
        """Let all workers of ``dist_sync`` stop after the same batch. A worker that went on alone would wait for ever.

        Each worker tells the others whether a stop was requested. The answers from ``lag`` calls ago count now. All
        calls send the same array, so MXNet's engine sends one only after the answer to the one before. This is
        necessary because the server counts messages: two messages of one worker would pass for those of two workers.
        """
        if not self._workers.in_step:
            self.agreed = self._requested
            return
        self._flag[:] = float(self._requested)
        self._workers.kvstore.pushpull(KEY, self._flag, out=self._flag)
        self._answers.append(self._flag.copy())
        while len(self._answers) > lag:
            self.agreed |= bool(self._answers.popleft().asscalar())

    def leave(self, saved: pathlib.Path) -> None:
        """End the process if all workers stop now."""
        if self.agreed:
            if self._workers.rank == 0:
                say(f"{saved} is saved. {how_to_resume()}")
            sys.exit(130)
