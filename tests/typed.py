"""The command ``gluonops`` inside the test's process, without the seconds that a process of its own takes.

Of pictures there are empty files, and what a training exports is compared in Module alone: tests/examples makes the
pictures and the comparison as a user does.
"""
from __future__ import annotations

import pathlib
import signal
import sys
import warnings

import pytest
from gluonops.commands import cli
from gluonops.train import exporting


class Typed:
    """Runs the command; a test makes it from its fixtures.

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
        self._capsys.readouterr()
        with self._monkeypatch.context() as patch, warnings.catch_warnings(), _signals():
            warnings.simplefilter("default")
            warnings.simplefilter("ignore", DeprecationWarning)   # as Python does
            patch.chdir(self._folder)
            patch.setattr(sys, "argv", ["gluonops", *words])
            patch.setattr(sys, "unraisablehook", sys.unraisablehook)   # a script changes it
            patch.setattr("gluonops.train.pictures.save_figure", lambda _, path: pathlib.Path(path).touch())
            patch.setattr(exporting, "_fresh_process", exporting._module)
            code, last = _run(words)
        out, err = self._capsys.readouterr()
        assert code == fails, err + last
        return out, err + last


def _run(words):
    """(exit code, what Python writes to stderr at the end)"""
    try:
        return cli.main([*words]), ""
    except SystemExit as end:
        return (1, f"{end.code}\n") if isinstance(end.code, str) else (end.code or 0, "")


class _signals:
    """Keeps the handlers of the test's process."""

    def __enter__(self):
        self._handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def __exit__(self, *_):
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
