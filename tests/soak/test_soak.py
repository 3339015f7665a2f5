"""``make soak`` itself: it sees memory that grows, and every kind of use goes through."""
import importlib
import multiprocessing
import os

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
import soak_driver

# It stands for the module that measures.
MEASURING = """
import os

def measure(use, backend, count, pipe):
    pipe.send((use, backend, count, os.getpid()))
"""


def test_growth_is_seen():
    """10 bytes a use; what the first uses take does not count."""
    readings = [1000 + 10 * 40 * number for number in range(50)]
    assert soak_driver.slope(readings, 2000) == pytest.approx(10)
    assert soak_driver.slope([0] * 10 + [5000] * 40, 2000) == pytest.approx(0)


@pytest.mark.parametrize("use", soak_driver.USES)
@pytest.mark.parametrize("backend", soak_driver.BACKENDS)
def test_uses(use, backend):
    with gops.backend(backend):
        turns = soak_driver.USES[use](gops, mx)
        for _ in range(3):
            next(turns)
        turns.close()


def test_what_is_measured_is_sent():
    here, there = multiprocessing.Pipe(duplex=False)
    soak_driver.measure("nets", "builtin", 5, there)
    resting, growth = here.recv()
    assert resting > 1e7 and np.isfinite(growth)


def test_a_new_process_reports(tmp_path, monkeypatch):
    (tmp_path / "measuring.py").write_text(MEASURING)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(soak_driver, "measure", importlib.import_module("measuring").measure)
    *what, process = soak_driver.run("nets", "builtin", 5)
    assert what == ["nets", "builtin", 5] and process != os.getpid()
