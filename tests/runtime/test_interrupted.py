"""Ctrl-C while the modules are imported: one line, no traceback."""
import pathlib
import signal
import sys
import types

import fresh
import pytest
from gluonops.runtime import interrupted as hook

ROOT = pathlib.Path(__file__).parents[2]
# Runs a program, and sends Ctrl-C when it looks for a module.
CODE = """
import os, runpy, signal, sys

class Interrupter:
    @staticmethod
    def find_spec(name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupter)
sys.argv = {words!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def interrupted(module, *words):
    """Exit status and errors of a program that is interrupted when it imports a module."""
    done = fresh.python("-c", CODE.format(module=module, words=list(words)), cwd=ROOT)
    return done.returncode, done.stderr


@pytest.mark.parametrize("module", ["gluonops.runtime.threads", "gluonops.contract.op", "gluonops.nn",
                                    "gluonops.train.run"])
def test_an_example(module):
    assert interrupted(module, "examples/train_digits.py") == (
        -signal.SIGINT, "\nThe script was interrupted while it imported its modules.\n")


@pytest.mark.parametrize("module", ["gluonops.contract.op", "gluonops.commands.table"])
def test_the_command(module):
    assert interrupted(module, "tools/gluonops", "ops") == (130, "\ngluonops was interrupted.\n")


def test_elsewhere_the_traceback_stays():
    code = "import gluonops\ndef work():\n    raise KeyboardInterrupt\nwork()"
    done = fresh.python("-c", code)
    assert "Traceback" in done.stderr and "in work" in done.stderr


def test_other_errors_stay(monkeypatch, capsys):
    """The hook that was there gets them."""
    passed_on = []
    monkeypatch.setattr(sys, "excepthook", lambda *words: passed_on.append(words))
    hook.install()
    module = types.ModuleType("imported")
    with pytest.raises(OSError) as error:
        exec("raise OSError", vars(module))
    sys.excepthook(error.type, error.value, error.tb)
    assert passed_on == [(error.type, error.value, error.tb)] and capsys.readouterr().err == ""
