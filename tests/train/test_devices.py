"""Devices by name, and processes that are no workers."""
import gluonops as gops
import mxnet as mx
import pytest
from gluonops import train


def test_devices():
    assert train.devices() == [mx.cpu(0)] and train.devices("cpu, cpu:3") == [mx.cpu(0), mx.cpu(3)]


@pytest.mark.parametrize("names, text", [
    ("tpu", "the device 'tpu' is unknown"), ("cpu:99999999999", "expected cpu or gpu with a number below 1000"),
    ("gpu:0", r"there is no gpu\(0\): MXNet sees 0 GPUs"), ("0", r"there is no gpu\(0\)"),
    ("cpu:0,cpu", "names a device twice")])
def test_refused(names, text, monkeypatch):
    monkeypatch.setattr(mx.context, "num_gpus", lambda: 0)
    with pytest.raises(gops.OpError, match=text):
        train.devices(names)


def test_workers(monkeypatch):
    workers = train.join_workers("local", 2)
    assert workers == train.Workers("local", 0, 1, 2, "local") and not workers.in_step and not workers.update_on_servers
    monkeypatch.delenv("DMLC_ROLE", raising=False)
    with pytest.raises(gops.OpError, match="dist_sync, and the process was started without a parameter server"):
        train.join_workers("dist_sync")
    with pytest.raises(gops.OpError, match="kvstore is 'nccl'; expected 'device', 'local'"):
        train.join_workers("nccl")
