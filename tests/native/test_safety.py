"""The library under fork, threads, DataLoader workers and the naive engine; each within a time limit."""
import os
import pathlib
import subprocess
import sys
import textwrap
import threading

import fresh
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.backends import native
from gluonops.native import build
from mxnet.gluon import nn

pytestmark = pytest.mark.skipif(not native.loaded(), reason=f"no library: {native.reason()}")

NET = """
import gluonops as gops
import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import nn
net = nn.HybridSequential()
net.add(nn.Conv2D(16, 3, padding=1), gops.nn.Reorg(2), gops.nn.Abs(), gops.nn.Tile((1, 2, 1, 1)), nn.Dense(5),
        gops.nn.Softmax())
net.initialize()
gops.backend("native")
def step(value=1.0):
    data = mx.nd.full((2, 3, 8, 8), value)
    with autograd.record():
        loss = gops.ops.softmax_cross_entropy(net(data), mx.nd.array([1, 2])).sum()
    loss.backward()
    return loss.asscalar()
"""


def run(code, **environment):
    """Return the words that a program prints. MXNet reads the environment when it is loaded."""
    program = NET + textwrap.dedent(code)
    if environment:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8",
                              env={**os.environ, **environment})
    else:
        done = fresh.python("-c", program)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


@pytest.mark.parametrize("environment", [
    pytest.param({}, id="ThreadedEnginePerDevice"),
    pytest.param({"MXNET_ENGINE_TYPE": "NaiveEngine"}, id="NaiveEngine", marks=pytest.mark.slow)])
def test_fork_after_use(environment):
    """The child of a process that has used the kernels, and so OpenMP's threads, uses them too."""
    assert run("""
        import os
        def large():
            return mx.nd.gluonops_softmax(mx.nd.ones((2000, 1000))).sum().asscalar()
        before = step(), large()
        pid = os.fork()
        if pid == 0:
            os._exit(0 if np.isfinite((step(), large())).all() else 1)
        print(os.waitpid(pid, 0)[1], np.allclose(before, (step(), large())))
        """, **environment) == ["0", "True"]


@pytest.mark.parametrize("static", [{}, {"static_alloc": True, "static_shape": True}], ids=["dynamic", "static"])
def test_four_threads_at_once(static, rng):
    """Each has its own hybridized net over the same kernels: none hangs, and the numbers are those of one thread."""
    def make():
        net = nn.HybridSequential()
        net.add(gops.nn.Reorg(2), gops.nn.Abs(), gops.nn.Softmax(axis=1))
        net.hybridize(**static)
        return net

    batches = [mx.nd.array(rng.randn(2, 8, 16, 16)) for _ in range(4)]
    with gops.backend("builtin"):
        expected = [make()(batch).asnumpy() for batch in batches]
    failures = []

    def work(i):
        with gops.backend("native"):
            net = make()
            for _ in range(50):
                got = net(batches[i]).asnumpy()
                if not np.allclose(got, expected[i], rtol=1e-5, atol=1e-7):
                    failures.append(i)

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_data_loader_workers():
    code = """
        class Tiled(gluon.data.Dataset):
            def __len__(self):
                return 16
            def __getitem__(self, index):
                return gops.ops.tile(mx.nd.full((2, 3), index), 2).asnumpy()
        step()
        loader = gluon.data.DataLoader(Tiled(), 4, num_workers=2)
        print(sum(batch.sum().asscalar() for batch in loader))
        """
    assert run(code) == [str(float(sum(range(16)) * 12))]


@pytest.mark.slow
def test_more_than_2_31_elements(tmp_path):
    """The kernels run by themselves where memory allows, for the stock MXNet has no such tensors."""
    with open("/proc/meminfo") as file:
        available = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable")) * 1024
    if available < 11 * 2**30:
        pytest.skip("less than 11 GB of memory are free")
    program = tmp_path / "large"
    source = pathlib.Path(__file__).with_name("large.cc")
    generated = build.write_sources(tmp_path / "generated")
    subprocess.run([*build.find_compiler(), "-std=c++17", "-O2", "-pthread", "-Wno-psabi", "-Wno-ignored-attributes",
                    *build.includes(generated[0]), str(source), "-o", str(program)], check=True)
    assert subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout == "fine\n"
