"""The command ``gluonops`` and the examples inside the test's process, without the seconds that one of their own takes.

What a training exports is compared in Module alone, and of a command's pictures there are empty files:
tests/train/test_exporting.py and tests/examples compare and draw as a user does.
"""
from __future__ import annotations

import contextlib
import os
import pathlib
import runpy
import signal
import sys
import warnings

import pytest
from gluonops.commands import cli
from gluonops.train import exporting


class Typed:
    """Runs the command or a script; a test makes it from its fixtures.

    Parameters
    ----------
    monkeypatch, capsys
        pytest's fixtures.
    folder : pathlib.Path
        Where the command runs.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture,
                 folder: pathlib.Path):
        self._monkeypatch, self._capsys, self._folder = monkeypatch, capsys, folder

    def __call__(self, *words: str, fails: int = 0) -> tuple[str, str]:
        """(stdout, stderr) of the command with these words; ``fails`` is the exit code that is expected."""
        with self._process("gluonops", *words) as patch:
            patch.setattr("gluonops.train.pictures.save_figure", lambda _, path: pathlib.Path(path).touch())
            code, last = _run(lambda: cli.main([*words]))
        out, err = self._capsys.readouterr()
        assert code == fails, err + last
        return out, err + last

    def script(self, path: str | os.PathLike, *options: str) -> tuple[str, str]:
        """(stdout, stderr) of a script, which succeeds, with these options. It draws its pictures."""
        with self._process(str(path), *options):
            code, last = _run(lambda: runpy.run_path(str(path), run_name="__main__") and 0)
        out, err = self._capsys.readouterr()
        assert not code, out + err + last
        return out, err + last

    @contextlib.contextmanager
    def _process(self, *words):
        """What a process of its own would have, and what a program changes, which is taken back."""
        self._capsys.readouterr()
        with self._monkeypatch.context() as patch, warnings.catch_warnings(), _signals():
            warnings.simplefilter("default")
            warnings.simplefilter("ignore", DeprecationWarning)   # as Python does
            patch.chdir(self._folder)
            patch.setattr(sys, "argv", [*words])
            patch.setattr(sys, "unraisablehook", sys.unraisablehook)
            patch.setattr(exporting, "_fresh_process", exporting._module)
            yield patch


def _run(program):
    """(exit code, what Python writes to stderr at the end)"""
    try:
        return program(), ""
    except SystemExit as end:
        return (1, f"{end.code}\n") if isinstance(end.code, str) else (end.code or 0, "")


class _signals:
    """Keeps the handlers of the test's process."""

    def __enter__(self):
        self._handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def __exit__(self, *_):
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
