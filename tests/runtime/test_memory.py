"""The memory of freed tensors: that it is kept, within its bound, and that a tensor's values stay its own."""
import ctypes
import os
import statistics
import threading
import time

import fresh
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.backends import native, tuning
from gluonops.runtime import memory

MIB = 2**20

# Page faults of the last 4 of 8 identities of 36 MiB, in a process that allocates other sizes before. By itself malloc
# maps anew what has more than 32 MiB.
FAULTS = """
import resource
import gluonops
import mxnet as mx
for size in (1, 64, 4, 40):
    mx.nd.ones((size, 512, 512)).wait_to_read()
x = mx.nd.ones((9, 1024, 1024))
for call in range(8):
    if call == 4:
        start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    y = mx.nd.identity(x)
    y.wait_to_read()
    del y
    mx.nd.waitall()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - start)
"""
PAGES = 4 * 36 * MIB // os.sysconf("SC_PAGESIZE")

# Resident memory, in KiB, after every twenty-five steps. A step's tensors have 128 KiB and more: one that was kept in
# each of them would show twelvefold.
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
for step in range(150):
    with autograd.record():
        found = loss(net(images), truth)
    found.backward()
    trainer.step(2)
    net(images).argmax(axis=1).asnumpy()
    if step % 25 == 24:
        print(resident())
"""

# Resident memory, in KiB, after every fifty of steps whose shapes are all new, where malloc has one arena.
SHAPES = """
import ctypes, os
ctypes.CDLL(None).mallopt(-8, 1)   # M_ARENA_MAX: the process has one thread yet, and one arena
import gluonops as gops
import mxnet as mx

def resident():
    mx.nd.waitall()
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024

net = gops.nn.Reorg()
net.hybridize({hybridized})
with mx.util.np_shape({np_shape}):
    for step in range(400):
        if step % 50 == 0:
            print(resident())
        data = mx.nd.ones((1 + step % 40, 4, 2 + 2 * (step // 40), 2))
        data.attach_grad()
        with mx.autograd.record():
            output = net(data)
        output.backward()
        data.grad.wait_to_read()
print(resident())
"""

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads a process's memory from /proc")


def environment():
    """Return the environment without settings of malloc's."""
    return {key: value for key, value in os.environ.items()
            if key != tuning.TUNE_MEMORY and not key.startswith("MALLOC_")}


def python(code, **variables):
    """Return what a process of its own prints."""
    done = fresh.python("-c", code, env={**environment(), **variables})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


needs_blocks = pytest.mark.skipif(tuning.examine()["memory"]["bound"] is None,
                                  reason="memory is not kept in this process")


@pytest.fixture
def bound():
    """64 MiB, with nothing kept at the start."""
    mx.nd.waitall()
    gops.tune_memory(0)
    yield gops.tune_memory(64 * MIB)
    gops.tune_memory()


def free(*sizes):
    """Make tensors of so many MiB, and free them in this order."""
    tensors = [mx.nd.zeros((int(size * MIB),), dtype="uint8") for size in sizes]
    mx.nd.waitall()
    while tensors:
        del tensors[0]
        time.sleep(0.02)   # MXNet frees them in a thread of its engine


def kept(expected):
    """Return the MiB that are kept, as soon as they are the expected ones, or after five seconds."""
    end = time.monotonic() + 5
    while native.kept_bytes() != expected * MIB and time.monotonic() < end:
        time.sleep(0.005)
    return native.kept_bytes() / MIB


@needs_blocks
def test_large_tensors_do_not_fault_their_pages_in():
    as_it_comes, switched_off = int(python(FAULTS)), int(python(FAULTS, GLUONOPS_TUNE_MEMORY="0"))
    assert switched_off > PAGES / 2, "the system no longer maps large blocks anew: tune_memory has nothing to do"
    assert as_it_comes < PAGES / 100


@needs_blocks
def test_freed_memory_is_kept_and_used_again(bound):
    free(8)
    assert kept(8) == 8
    tensor = mx.nd.zeros((8 * MIB,), dtype="uint8")
    tensor.wait_to_read()
    assert kept(0) == 0


@needs_blocks
def test_new_blocks_begin_at_different_places_of_a_page(bound):
    tensors = [mx.nd.zeros((3 * MIB + 1,), dtype="uint8") for _ in range(4)]
    places = {address(tensor) % 4096 for tensor in tensors}
    assert len(places) == len(tensors)
    assert all(place % 256 == 0 for place in places)


def address(tensor):
    data = ctypes.c_void_p()
    mx.base.check_call(mx.base._LIB.MXNDArrayGetData(tensor.handle, ctypes.byref(data)))
    return data.value


@needs_blocks
def test_what_was_freed_first_goes_first(bound):
    free(32, 16, 8)
    assert kept(56) == 56
    free(24)
    assert kept(16 + 8 + 24) == 48


@needs_blocks
@pytest.mark.parametrize("size, expected", [(56, 56), (65, 0), (1 / 16, 1 / 16), (1 / 32, 0)])
def test_which_blocks_are_kept(bound, size, expected):
    free(size, 1)   # what comes second is freed second
    assert kept(expected + 1) == expected + 1


@needs_blocks
def test_a_lower_bound_gives_memory_back(bound):
    free(16, 32)
    assert kept(48) == 48
    assert gops.tune_memory(40 * MIB) == 40 * MIB and kept(32) == 32
    assert gops.tune_memory(0) == 0 and kept(0) == 0


@needs_blocks
def test_a_tensor_outlives_the_bound_it_was_made_under(bound):
    tensor = mx.nd.arange(4 * MIB)
    tensor.wait_to_read()
    gops.tune_memory(0)
    np.testing.assert_array_equal(tensor.asnumpy(), np.arange(4 * MIB, dtype="float32"))
    del tensor
    gops.tune_memory(64 * MIB)
    free(1)
    assert kept(1) == 1


@needs_blocks
def test_no_two_tensors_share_memory(bound):
    """Threads make, check and free tensors of many sizes, with the bound moving meanwhile."""
    failures = []

    def work(seed):
        rng = np.random.RandomState(seed)
        held = []
        for _ in range(60):
            value, size = rng.randint(1, 100), rng.randint(1, MIB)
            held.append((value, mx.nd.full((size,), value, dtype="uint8")))
            if len(held) == 8:
                value, tensor = held.pop(rng.randint(8))
                if not (tensor == value).asnumpy().all():
                    failures.append((seed, value))

    workers = [threading.Thread(target=work, args=[seed]) for seed in range(3)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        for most in (0, MIB, 64 * MIB):
            gops.tune_memory(most)
    assert not failures


@needs_blocks
def test_a_forked_process_goes_on(bound):
    free(16)
    busy = [mx.nd.ones((4, 512, 512)) * i for i in range(50)]   # threads of MXNet's allocate while it forks
    child = os.fork()
    if not child:
        tensor = mx.nd.ones((16, 512, 512))
        os._exit(0 if tensor.sum().asscalar() == tensor.size else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert [tensor[0, 0, 0].asscalar() for tensor in busy] == list(range(50))


@pytest.mark.parametrize("keep", [-1, 2**63, 1.5, True, "1"])
def test_a_wrong_bound_is_refused(keep):
    with pytest.raises(gops.OpError, match="expected an integer from 0"):
        gops.tune_memory(keep)


def test_without_the_library_nothing_is_kept():
    code = "import gluonops as gops, mxnet as mx; print(gops.tune_memory(), mx.nd.ones((9,)).sum().asscalar())"
    assert python(code, GLUONOPS_NATIVE="0") == "None 9.0"


def test_usable_memory_is_at_most_the_machines(tmp_path):
    assert memory.usable_memory(tmp_path) == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("groups, file", [
    ("4:memory:/job", "memory/job/memory.limit_in_bytes"),
    ("4:memory:/job/step", "memory/job/memory.limit_in_bytes"),
    ("0::/job", "job/memory.max"),
    ("0::/on/the/host", "memory.max"),
])
def test_usable_memory_follows_the_limit_of_the_cgroup(tmp_path, groups, file):
    for path, text in (("proc/self/cgroup", groups), (f"sys/fs/cgroup/{file}", str(512 * MIB))):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text + "\n")
    assert memory.usable_memory(tmp_path) == 512 * MIB


@pytest.mark.parametrize("text, available", [("MemTotal: 9 kB\nMemAvailable:   2048 kB\n", 2 * MIB), ("", None)])
def test_available_memory_is_what_others_leave(tmp_path, text, available):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(text)
    assert memory.available_memory(tmp_path) == (available or memory.usable_memory(tmp_path))


@pytest.mark.parametrize("limit", ["max", "", "much", "nan", "-1", "9223372036854771712", "1e400"])
def test_no_limit_is_none(tmp_path, limit):
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    assert memory.usable_memory(tmp_path) > 512 * MIB


@needs_proc
@pytest.mark.parametrize("backend", ["custom", "native", pytest.param("builtin", marks=pytest.mark.slow)])
def test_soak(backend):
    """Training through our operators, and predicting: after the warm-up the process stops growing.

    A tensor left behind in each step would show in every twenty-five of them, by 512 KiB and more; a further thread
    of MXNet's for CustomOps, which comes with some MiB of its own, shows in one.
    """
    sizes = [int(size) for size in python(SOAK.format(static=backend != "custom"), GLUONOPS_BACKEND=backend).split()]
    assert len(sizes) == 6 and min(after - before for before, after in zip(sizes, sizes[1:])) < 256, sizes


@needs_proc
@pytest.mark.parametrize("hybridized, np_shape", [pytest.param(False, False, marks=pytest.mark.slow), (True, True)])
def test_new_shapes_leave_nothing_behind(hybridized, np_shape):
    """The copy around a CustomOp uses no operator of oneDNN's: MXNet keeps some 10 kB for every new shape of one.

    That is 0.5 to 1 MiB in every fifty. A further thread of MXNet's for CustomOps shows in one.
    """
    code = SHAPES.format(hybridized=hybridized, np_shape=np_shape)
    sizes = [int(size) for size in python(code, GLUONOPS_BACKEND="custom").split()]
    growths = [after - before for before, after in zip(sizes, sizes[1:])]
    # Without it the median is 160 to 270 KiB.
    assert len(growths) == 8 and statistics.median(growths) < 384, growths
