"""``make test-kill`` itself: it finds what is lost, and a killed exporter leaves a pair."""
import pathlib
import random
import sys

import gluonops as gops
import kill_driver
import mxnet as mx
import pytest
from mxnet import gluon

# It stands for a training script: it puts tensors down that are there already. The second set is another run's.
STUB = """
import pathlib, shutil, sys, time
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
out.mkdir(exist_ok=True)
source = sys.argv[1] if out.name == "whole" else sys.argv[2]
for name in ("last.checkpoint", "best.params"):
    time.sleep(0.2)
    shutil.copy(f"{source}/{name}", out / name)
"""


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two folders that runs have left behind, with tensors of 1 and of 2."""
    monkeypatch.setattr(kill_driver.train, "read_checkpoint", kill_driver.tensors)
    for value in (1, 2):
        folder = tmp_path / str(value)
        folder.mkdir()
        for name in (kill_driver.LAST, kill_driver.BEST):
            mx.nd.save(str(folder / name), {"weight": mx.nd.full(3, value), "standing": mx.nd.zeros(1)})
    return tmp_path


def test_a_run_that_is_killed_and_ends_the_same(runs):
    command = [sys.executable, "-c", STUB, str(runs / "1"), str(runs / "1")]
    count = kill_driver.Training(command, runs, random.Random(0)).run(3)
    assert count["kills"] == 3 and count["runs"] >= 1


def test_other_numbers_are_lost(runs):
    command = [sys.executable, "-c", STUB, str(runs / "1"), str(runs / "2")]
    with pytest.raises(kill_driver.Lost, match=r"last\.checkpoint differs in weight"):
        kill_driver.Training(command, runs, random.Random(0)).run(1)


def test_a_script_that_fails_is_lost(runs):
    with pytest.raises(kill_driver.Lost, match="(?s)ends with 1:.*ZeroDivisionError"):
        kill_driver.Training([sys.executable, "-c", "1 / 0"], runs, random.Random(0))


def test_the_exporter(tmp_path):
    count = kill_driver.kill_exporter(1, tmp_path, random.Random(0))
    assert count["kills"] == 1 and count["exports"] >= 1


def test_a_mixture_is_lost(tmp_path):
    """With the digest it is refused. Without it, half of one export and half of another is found."""
    net = gluon.nn.Dense(4, in_units=3, prefix="net_")
    contents = []
    for value in (1, 2):
        net.initialize(mx.init.Constant(value), force_reinit=True)
        path = pathlib.Path(gops.export.symbol(net, tmp_path / "net", (1, 3))[1])
        assert not kill_driver.check_pair(tmp_path / "net")
        contents.append(path.read_bytes())
    path.write_bytes(contents[0])
    assert kill_driver.check_pair(tmp_path / "net")
    net.weight.set_data(mx.nd.array([[1] * 3] * 2 + [[2] * 3] * 2))
    gops.export.symbol(net, tmp_path / "net", (1, 3))
    with pytest.raises(kill_driver.Lost, match=r"a mixture of two exports: it has \[0.0, 1.0, 2.0\]"):
        kill_driver.check_pair(tmp_path / "net")
