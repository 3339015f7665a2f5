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
from gluonops.core import errors, native, registry  # noqa: E402

sys.path.append(str(pathlib.Path(__file__).parent / "cuda"))
import cuda_emulator  # noqa: E402

SEED = int(os.environ.get("GLUONOPS_TEST_SEED", "0"))
# The same examples in every run, like the random numbers below; and no limit on the time of one: machines are shared.
hypothesis.settings.register_profile("gluonops", derandomize=SEED == 0, deadline=None)
hypothesis.settings.load_profile("gluonops")


def pytest_addoption(parser):
    text = ("run every case of an operator in every mode: imperative, hybridized, static, reloaded. "
            "Without it, each case runs in one of them, in turn")
    parser.addoption("--every-mode", action="store_true", help=text)


def pytest_configure(config):
    """Cache the compiled kernels: in pytest's cache, or in a temporary folder if that is off."""
    cuda_emulator.cache = (config.cache.mkdir("cuda") if hasattr(config, "cache")
                           else pathlib.Path(tempfile.mkdtemp(prefix="gluonops-")))


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
    operator without MXNet is dropped.
    """
    errors._from_bodies.clear()
    errors._mentioned.clear()
    seed = zlib.crc32(request.node.name.encode()) ^ SEED
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
    suite = getattr(request.cls, "name", None)
    file = {"native": "kernel.cc", "cuda": "kernel.cu"}.get(request.param)
    if suite and file in registry.get(suite).op.unsupported:
        pytest.skip(f"no {request.param} kernel: {registry.get(suite).op.unsupported[file]}")
    if request.param == "reference":
        monkeypatch.setitem(native._state, "path", None)
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


BACKENDS = ["custom", "reference", "native", "builtin", "cuda"]
MODES = ["imperative", "hybridized", "static", "reloaded"]


def pytest_generate_tests(metafunc):
    """Parametrize the tests of a suite by its ``axes``; see op_suite.OpSuite."""
    suite = metafunc.cls
    if suite is None or not hasattr(suite, "axes"):
        return
    if {"case", "dtype", "backend", "mode"} <= set(metafunc.fixturenames):
        chosen = every_combination if metafunc.config.getoption("every_mode") else one_mode_each
        metafunc.parametrize("case, dtype, backend, mode", list(chosen(suite)), indirect=["backend"])
        return
    if metafunc.function.__name__ == "test_requests_of_arrays":
        metafunc.parametrize("request_, backend, mode", list(one_mode_per_request()), indirect=["backend"])
        return
    for name in ("case", "dtype", "row", "error", "label_dtype"):
        if name in metafunc.fixturenames:
            values = suite.axes(name)
            metafunc.parametrize(name, values, ids=[getattr(value, "id", str(value)) for value in values])
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", BACKENDS, indirect=True)
    if "mode" in metafunc.fixturenames:
        metafunc.parametrize("mode", MODES)
    if "context" in metafunc.fixturenames:
        metafunc.parametrize("context", ["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])


def every_combination(suite):
    """Every case, dtype and backend in every mode."""
    for case, dtype, backend, mode in itertools.product(suite.axes("case"), suite.axes("dtype"), BACKENDS, MODES):
        yield pytest.param(case, dtype, backend, mode, id=f"{case.id}-{dtype}-{backend}-{mode}")


def one_mode_each(suite):
    """Every case, dtype and backend in one mode, the modes in turn.

    Four dtypes that follow one another take a case and a backend through every mode; so do four cases of one dtype.
    """
    indices = (range(len(suite.axes("case"))), range(len(suite.axes("dtype"))), range(len(BACKENDS)))
    for of_case, of_dtype, of_backend in itertools.product(*indices):
        case, dtype, backend = suite.axes("case")[of_case], suite.axes("dtype")[of_dtype], BACKENDS[of_backend]
        mode = MODES[(of_case + of_dtype + of_backend) % len(MODES)]
        yield pytest.param(case, dtype, backend, mode, id=f"{case.id}-{dtype}-{backend}-{mode}")


def one_mode_per_request():
    """Every backend adds to gradients and leaves them alone, in one mode each; five backends take both through all."""
    for of_request, request in enumerate(("add", "null")):
        for of_backend, backend in enumerate(BACKENDS):
            yield request, backend, MODES[(of_request + of_backend) % len(MODES)]
