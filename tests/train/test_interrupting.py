"""What ends a script: an error, Ctrl-C or SIGTERM; what is said, and how to go on."""
import argparse
import ctypes
import importlib.util
import os
import pathlib
import signal
import sys
import time
import weakref

import gluonops as gops
import pytest
from gluonops import train

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """A function that runs ``main`` as a script, and returns its exit status and the last line of its errors."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(main, **options):
        signal.signal(signal.SIGINT, signal.default_int_handler)   # the tests may have been started with it ignored
        monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
        monkeypatch.setattr(sys, "argv", ["script.py", "--out", "out"])
        with pytest.raises(SystemExit) as error:
            train.run_script(main, lambda: argparse.Namespace(out=tmp_path), **options)
        return error.value.code, (capsys.readouterr().err.splitlines() or [""])[-1]

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_before_anything_is_saved(run, tmp_path, number):
    (tmp_path / "last.checkpoint").write_text("")   # what is there from before is not of this run
    assert run(lambda args: os.kill(os.getpid(), number)) == (
        130, "The script was interrupted. Nothing of this training is saved yet.")


class Thing:
    """Interrupts the process when it goes."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)


def in_a_destructor():
    Thing()


def in_the_callback_of_a_weak_reference():
    class Empty:
        pass

    thing = Empty()
    weakref.finalize(thing, os.kill, os.getpid(), signal.SIGTERM)
    del thing


def in_a_callback_of_c():
    ctypes.CFUNCTYPE(None)(lambda: os.kill(os.getpid(), signal.SIGTERM))()


@pytest.mark.parametrize("interrupt", [in_a_destructor, in_the_callback_of_a_weak_reference, in_a_callback_of_c])
@pytest.mark.parametrize("ignored", [[], [signal.SIGINT]], ids=["", "SIGINT ignored"])
def test_where_python_drops_exceptions(run, interrupt, ignored):
    """The script ends all the same."""
    def main(args):
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
        interrupt()
        for _ in range(300):
            time.sleep(0.01)

    assert run(main) == (130, "The script was interrupted. Nothing of this training is saved yet.")


@pytest.mark.parametrize("name", train.interrupting.CHECKPOINTS)
def test_after_a_checkpoint(run, tmp_path, name):
    def main(args):
        (args.out / name).write_text("")
        os.kill(os.getpid(), signal.SIGINT)

    assert run(main) == (130, f"The script was interrupted. {tmp_path / name} is saved. To continue, run: "
                              "python script.py --out out --resume auto")


def test_a_script_that_cannot_resume(run, tmp_path):
    def main(args):
        (args.out / "best.params").write_text("")
        os.kill(os.getpid(), signal.SIGINT)

    assert run(main, saves=["best.params"], then="It is of the best epoch.") == (
        130, f"The script was interrupted. {tmp_path / 'best.params'} is saved. It is of the best epoch.")


def test_an_error(run):
    def main(args):
        raise gops.OpError("train", "the lamp is green; expected red", "Wait")

    assert run(main) == ("gluonops.train: the lamp is green; expected red. Wait.", "")


@pytest.mark.parametrize("words, expected", [
    (["a.py"], "a.py --resume auto"), (["a.py", "--resume", "old/x.checkpoint"], "a.py --resume auto"),
    (["a.py", "--resume=x", "--out", "o"], "a.py --out o --resume auto"),
    (["a.py", "--resume", "x", "--out", "two words"], "a.py --out 'two words' --resume auto"),
    (["a.py", "--resume", "--root", "x"], "a.py --root x --resume auto")])
def test_the_command_to_resume(monkeypatch, words, expected):
    """It never goes back to the checkpoint that this run began with, and starts a job as it was started."""
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.delenv("LAUNCH_LOCAL", raising=False)
    assert train.command_to_resume() == f"python {expected}"
    specification = importlib.util.spec_from_file_location("launch_local", ROOT / "examples" / "launch_local.py")
    launch_local = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(launch_local)
    launcher = ["examples/launch_local.py", "-n", "3", "--"]
    monkeypatch.setattr(sys, "argv", [*launcher, "python", *words])
    monkeypatch.setenv("LAUNCH_LOCAL", launch_local.environment("worker", 1, launch_local.arguments())["LAUNCH_LOCAL"])
    monkeypatch.setattr(sys, "argv", words)
    assert train.command_to_resume() == f"python examples/launch_local.py -n 3 -- python {expected}"
