"""Shared fixtures: seeds, GPU marker, and the parametrization of operator suites."""
import gc
import itertools
import os
import pathlib
import sys
import tempfile
import zlib

os.environ.setdefault("GLUONOPS_CHECK_LABELS", "1")
os.environ.setdefault("MXNET_SUBGRAPH_VERBOSE", "0")

import gluonops as gops  # noqa: E402,F401  (first: it makes mxnet importable)
import hypothesis  # noqa: E402
import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from gluonops.backends import native  # noqa: E402
from gluonops.contract import errors  # noqa: E402

sys.path.append(str(pathlib.Path(__file__).parent / "cuda"))
import cuda_emulator  # noqa: E402
import daily  # noqa: E402

SEED = int(os.environ.get("GLUONOPS_TEST_SEED", "0"))
# The same examples in every run, like the random numbers below; and no limit on the time of one: machines are shared.
hypothesis.settings.register_profile("gluonops", derandomize=SEED == 0, deadline=None)
hypothesis.settings.load_profile("gluonops")


def pytest_addoption(parser):
    text = ("run every case of an operator with every dtype, request and backend in every mode: imperative, "
            "hybridized, static, reloaded. Without it, those that tests/daily.py names")
    parser.addoption("--every-mode", action="store_true", help=text)


def pytest_configure(config):
    """Cache the compiled kernels: in pytest's cache, or in a temporary folder if that is off."""
    cuda_emulator.cache = (config.cache.mkdir("cuda") if hasattr(config, "cache")
                           else pathlib.Path(tempfile.mkdtemp(prefix="gluonops-")))


@pytest.hookimpl(hookwrapper=True)
def pytest_collection(session):
    """Keep the garbage collector off while tests are collected: they are all kept, and it would look through them."""
    gc.disable()
    yield
    gc.enable()


def pytest_collection_finish(session):
    """Keep the garbage collector off what the whole session needs anyway.

    MXNet's DataLoader collects everything each time one is made: 0.3 s, among 15,000 collected tests.
    """
    gc.collect()
    gc.freeze()


def pytest_report_header(config):
    return f"gluonops: GLUONOPS_TEST_SEED={SEED}, {mx.context.num_gpus()} GPUs"


@pytest.fixture(autouse=True)
def as_if_alone(request):
    """Make a test independent of those that ran before it in this process.

    MXNet's counters of names and its random seed are reset. An error that an earlier test recorded by calling an
    operator without MXNet is dropped. MXNet takes 1.2 ms for a seed, which a check of an OpSuite does not need: its
    numbers are NumPy's.
    """
    errors._from_bodies.clear()
    errors._mentioned.clear()
    seed = zlib.crc32(request.node.name.encode()) ^ SEED
    if not hasattr(request.cls, "axes"):
        mx.random.seed(seed)
    np.random.seed(seed)
    with mx.name.NameManager():
        yield seed


@pytest.fixture
def rng(as_if_alone):
    """Random numbers of a test's own, the same in every run; GLUONOPS_TEST_SEED draws others."""
    return np.random.RandomState(as_if_alone)


@pytest.fixture
def backend(request, monkeypatch):
    """A backend's name.

    ``reference`` is custom without the C++ library, as on a machine without a compiler. ``cuda`` is custom with its
    CUDA kernels, run on the CPU (see tests/cuda/cuda_emulator.py).
    """
    if request.param == "reference":
        monkeypatch.setattr(native, "reason", lambda: "the C++ library is not built")
    elif request.param == "cuda":
        cuda_emulator.install(monkeypatch)
    else:
        yield request.param
        return
    yield "custom"
    mx.nd.waitall()


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu") and mx.context.num_gpus() == 0:
        if os.environ.get("GLUONOPS_REQUIRE_GPU") == "1":
            pytest.fail("GLUONOPS_REQUIRE_GPU=1 and MXNet sees no GPU", pytrace=False)
        pytest.skip("MXNet sees no GPU")


AXES = ("case", "row", "error", "label_dtype", "dtype", "request_", "backend", "mode")


def pytest_generate_tests(metafunc):
    """Parametrize the tests of a suite by its ``axes``; see op_suite.OpSuite."""
    suite = metafunc.cls
    if suite is None or not hasattr(suite, "axes"):
        return
    axes = {name: suite.axes(name) for name in AXES if name in metafunc.fixturenames}
    if "request_" in axes and "dtype" in axes:   # integers have no gradient
        axes["dtype"] = [dtype for dtype in axes["dtype"] if np.dtype(dtype).kind == "f"]
    if not axes:
        return
    every = metafunc.config.getoption("every_mode")
    tests = list(itertools.product(*axes.values()) if every else
                 daily.combinations(metafunc.definition.name, suite.name, axes))
    if metafunc.definition.get_closest_marker("gpu") and mx.context.num_gpus() == 0:
        del tests[1:]   # the one that is skipped says enough
    ids = ["-".join(getattr(value, "id", str(value)) for value in test) for test in tests]
    metafunc.parametrize(list(axes), tests, ids=ids, indirect=[name for name in axes if name == "backend"])
