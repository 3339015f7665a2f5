"""tune_malloc: that it takes, that large tensors stop faulting their pages in, and the environment variable.

malloc's settings hold for a whole process, so each test starts its own.
"""
import os
import statistics
import subprocess
import sys

import fresh
import pytest
from gluonops import memory

# Page faults of the last 10 of 50 identities of 48 MB: the heap has settled by then. Untuned, glibc learns to keep
# blocks of up to 32 MB by itself.
FAULTS = """
import resource
import gluonops as gops
from gluonops import memory
{tune}
import mxnet as mx
x = mx.nd.ones((12, 1024, 1024))
for call in range(50):
    if call == 40:
        start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    y = mx.nd.identity(x)
    y.wait_to_read()
    del y
    mx.nd.waitall()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - start)
"""
PAGES = 10 * 48 * 2**20 // os.sysconf("SC_PAGESIZE")

# Resident memory, in KiB, after a warm-up and at the end. A step's tensors have 128 KiB and more: one that was kept in
# each of 200 steps would show sixfold.
SOAK = """
import os
import gluonops as gops
import mxnet as mx
from mxnet import autograd, gluon

def resident():
    mx.nd.waitall()
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024

net = gluon.nn.HybridSequential()
net.add(gluon.nn.Conv2D(16, 3, padding=1, in_channels=3), gops.nn.Abs(), gops.nn.Reorg(2), gops.nn.Softmax(axis=1),
        gluon.nn.Conv2D(14, 1, in_channels=64))
loss = gops.loss.RegionLoss([1, 1, 2, 2], 2)
for block in (net, loss):
    block.initialize()
    block.hybridize(static_alloc={static})
trainer = gluon.Trainer(net.collect_params(), "sgd", {{"learning_rate": 1e-4, "momentum": 0.9}})
images, truth = mx.nd.random.uniform(shape=(2, 3, 32, 32)), mx.nd.array([[[0.5, 0.5, 0.2, 0.2, 1]]] * 2)
for step in range(400):
    with autograd.record():
        found = loss(net(images), truth)
    found.backward()
    trainer.step(2)
    net(images).argmax(axis=1).asnumpy()
    if step % 100 == 99:
        print(resident())
"""

# Resident memory, in KiB, after every hundred of steps whose shapes are all new.
SHAPES = """
import os
import gluonops as gops
import mxnet as mx

def resident():
    mx.nd.waitall()
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024

net = gops.nn.Reorg()
net.hybridize({hybridized})
with mx.util.np_shape({np_shape}):
    for step in range(800):
        if step % 100 == 0:
            print(resident())
        data = mx.nd.ones((1 + step % 40, 4, 2 + 2 * (step // 40), 2))
        data.attach_grad()
        with mx.autograd.record():
            output = net(data)
        output.backward()
        data.grad.wait_to_read()
print(resident())
"""

needs_glibc = pytest.mark.skipif(not memory._is_glibc(), reason="tune_malloc does nothing where there is no glibc")

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads a process's memory from /proc")


def environment():
    """The environment without settings of malloc's."""
    return {key: value for key, value in os.environ.items()
            if key != "GLUONOPS_TUNE_MALLOC" and not key.startswith("MALLOC_")}


def python(code, **variables):
    """What a process of its own prints."""
    done = fresh.python("-c", code, env={**environment(), **variables})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def with_one_arena(code, **variables):
    """The same where malloc has one arena, which it reads when a process starts."""
    done = subprocess.run([sys.executable, "-c", code], env={**environment(), "MALLOC_ARENA_MAX": "1", **variables},
                          stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


@needs_glibc
def test_glibc_takes_it():
    assert python("from gluonops import memory; print(memory.tune_malloc(), memory.tune_malloc())") == "True True"


@needs_glibc
def test_large_tensors_stop_faulting():
    untuned, tuned = int(python(FAULTS.format(tune=""))), int(python(FAULTS.format(tune="memory.tune_malloc()")))
    assert untuned > PAGES / 2, "the system no longer maps large blocks anew: tune_malloc has nothing to do"
    assert tuned < untuned / 4


@needs_glibc
def test_the_environment_asks_for_it_at_import():
    assert int(python(FAULTS.format(tune=""), GLUONOPS_TUNE_MALLOC="1")) < PAGES / 4


@pytest.mark.parametrize("value, expected", [("1", memory._is_glibc()), ("0", False), ("", False), ("yes", False)])
def test_only_1_asks_for_it(value, expected):
    code = "from gluonops import memory; print(memory.tune_if_asked())"
    assert python(code, GLUONOPS_TUNE_MALLOC=value) == str(expected)


def test_another_c_library_is_left_alone(monkeypatch):
    def no_such_name(name):
        raise ValueError(name)

    monkeypatch.setattr(memory.os, "confstr", no_such_name)
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: pytest.fail("touched the C library"))
    assert memory.tune_malloc() is False


@needs_proc
@pytest.mark.parametrize("backend", ["custom", "native", "builtin"])
def test_soak(backend):
    """Training through our operators, and predicting: after the warm-up the process stops growing.

    A tensor left behind in each step would show in every hundred of them, by 2 MiB and more; a further thread of
    MXNet's for CustomOps, which comes with some MiB of its own, shows in one.
    """
    sizes = [int(size) for size in python(SOAK.format(static=backend != "custom"), GLUONOPS_BACKEND=backend).split()]
    assert len(sizes) == 4 and min(after - before for before, after in zip(sizes, sizes[1:])) < 1024, sizes


@needs_proc
@pytest.mark.parametrize("hybridized, np_shape", [(False, False), (True, True)])
def test_new_shapes_leave_nothing_behind(hybridized, np_shape):
    """The copy around a CustomOp uses no operator of oneDNN's: MXNet keeps some 10 kB for every new shape of one.

    That is 1 to 2 MiB in every hundred. A further thread of MXNet's for CustomOps shows in one.
    """
    code = SHAPES.format(hybridized=hybridized, np_shape=np_shape)
    sizes = [int(size) for size in with_one_arena(code, GLUONOPS_BACKEND="custom").split()]
    growths = [after - before for before, after in zip(sizes, sizes[1:])]
    assert len(growths) == 8 and statistics.median(growths) < 512, growths
