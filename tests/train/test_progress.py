"""The bar: in 80 columns of a terminal, and lines in a log."""
import io
import os
import sys

import fresh
import pytest
from gluonops.io import progress

VALUES = {"epoch": 12, "coordinates": "5.968", "objectness": "0.335", "no_objectness": "0.760", "classes": "6.491"}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("columns, shown", [
    ("80", "coordinates=5.968"), ("60", "epoch=12"), ("300", "objectness=0.335")])
def test_on_a_terminal(columns, shown, monkeypatch):
    """It has as many values as there is room for, and is never wider than the window, nor than 100 columns."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress.Bar(80000, 0, "training", "image", True) as bar:
        for _ in range(5):
            bar.advance(16000, VALUES)
        progress.say("Epoch 1 is done.")
    lines = sys.stderr.getvalue().replace("\r", "\n").splitlines()
    assert max(map(len, lines)) <= min(int(columns), 100)
    assert "training: 100%|" in lines[-1] and shown in lines[-1] and "image/s" in lines[-1]


def test_in_a_log(monkeypatch):
    """There is no bar, but a line every 30 seconds, and the last one."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    now = iter([0, 10, 31, 31, 40, 50])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    with progress.Bar(4, 1, "training", "image", True) as bar:
        bar.advance(1, VALUES)
        bar.advance(1, VALUES)
        bar.advance(1, VALUES)
    assert sys.stderr.getvalue() == ("training:  75%, epoch=12, coordinates=5.968\n"
                                     "training: 100%, epoch=12, coordinates=5.968\n")


def test_outside_of_a_notebook():
    """Libraries may import Jupyter's kernel where none runs."""
    pytest.importorskip("ipykernel")
    assert not progress.in_notebook()


def test_a_silent_worker(monkeypatch):
    for stream in (io.StringIO(), Terminal()):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress.Bar(4, 0, "training", "image", False) as bar:
            bar.advance(4, VALUES)
        assert stream.getvalue() == ""


def test_in_a_terminal_of_no_columns_and_rows():
    """Some containers and editors have it. It gets bars of 80 columns, of a run and of a command."""
    ours, theirs = os.openpty()   # a new one has neither
    code = f"""
import os
terminal = os.open({os.ttyname(theirs)!r}, os.O_WRONLY | os.O_NOCTTY)
for output in (1, 2):
    os.dup2(terminal, output)
from gluonops.io import progress
list(progress.over(range(3), "reading", "layer"))
with progress.Bar(3, 0, "training", "image", True) as bar:
    bar.advance(3, {{"epoch": 1}})
"""
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    fresh.python("-c", code, env=environment).check_returncode()
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    assert "reading: 100%" in shown and "training: 100%|" in shown and "epoch=1" in shown
