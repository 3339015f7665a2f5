"""CenterLoss.update over MXNet's parameter server: two workers, half a batch each, end as one with the whole batch."""
import os
import socket
import subprocess
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon

WORKER = """
import sys
import gluonops as gops
import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
batch = np.load(sys.argv[1])
kvstore = mx.kv.create("dist_sync")
half = slice(kvstore.rank, None, 2)
net, loss = gluon.nn.Dense(3, in_units=3, weight_initializer="ones"), gops.loss.CenterLoss(4, 3)
net.initialize()
loss.initialize()
on_servers = len(sys.argv) > 3
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.0}, kvstore, update_on_kvstore=on_servers)
if not on_servers:   # else the first step may overtake the weights on their way, and gradients arrive as weights
    trainer._init_kvstore()
    trainer._init_params()
    mx.nd.waitall()
for _ in range(3):
    with autograd.record():
        value = loss(net(mx.nd.array(batch["data"][half])), mx.nd.array(batch["label"][half]))
    value.backward()
    trainer.step(6)
    try:
        loss.update(trainer)
    except gops.OpError as error:
        print(error)
        break
np.savez(f"{sys.argv[2]}{kvstore.rank}.npz", centers=loss.centers.data().asnumpy(), counts=loss.counts.data().asnumpy())
kvstore._barrier()
"""


def job(*arguments):
    """Run a scheduler, a server and two workers to their end; the workers' outputs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {**os.environ, "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(port), "DMLC_NUM_WORKER": "2",
              "DMLC_NUM_SERVER": "1", "DMLC_NODE_HOST": "127.0.0.1", "OMP_NUM_THREADS": "1"}
    processes = []
    try:
        for role in ("scheduler", "server", "worker", "worker"):
            code = WORKER if role == "worker" else "import gluonops"
            processes.append(subprocess.Popen([sys.executable, "-c", code, *arguments], text=True, encoding="utf-8",
                                              env={**common, "DMLC_ROLE": role}, stdout=subprocess.PIPE,
                                              stderr=subprocess.PIPE))
        ended = [process.communicate() for process in processes[2:]]
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()
    assert [process.returncode for process in processes[2:]] == [0, 0], ended
    return [out for out, _ in ended]


@pytest.mark.slow
def test_two_workers_and_one(tmp_path, rng):
    data, label = rng.randn(6, 3), np.array([1, 0, 1, 3, 3, 1])
    np.savez(tmp_path / "batch.npz", data=data, label=label)
    job(str(tmp_path / "batch.npz"), str(tmp_path / "end"))
    loss, net = gops.loss.CenterLoss(4, 3), gluon.nn.Dense(3, in_units=3, weight_initializer="ones")
    loss.initialize()
    net.initialize()
    for _ in range(3):
        with autograd.record():
            loss(net(mx.nd.array(data)), mx.nd.array(label)).backward()
        loss.update()
    for rank in (0, 1):
        end = np.load(tmp_path / f"end{rank}.npz")
        np.testing.assert_allclose(end["centers"], loss.centers.data().asnumpy(), rtol=0, atol=1e-6)
        np.testing.assert_array_equal(end["counts"], [3, 9, 0, 6])


@pytest.mark.slow
def test_servers_that_run_the_optimizer_are_refused(tmp_path, rng):
    np.savez(tmp_path / "batch.npz", data=rng.randn(6, 3), label=np.array([1, 0, 1, 3, 3, 1]))
    for said in job(str(tmp_path / "batch.npz"), str(tmp_path / "end"), "on servers"):
        assert "Create it with kvstore='dist_sync', update_on_kvstore=False." in said
