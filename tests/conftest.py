"""Shared fixtures: seeds, GPU marker, and the parametrization of operator suites."""
import contextlib
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
import in_turn  # noqa: E402

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
    keep_from_the_garbage_collector()


def pytest_runtest_teardown(item, nextitem):
    """Do the same with what a module's tests have imported, traced and cached."""
    if nextitem is None or nextitem.path != item.path:
        keep_from_the_garbage_collector()


def keep_from_the_garbage_collector():
    """Collect the garbage, and keep the collector off what is left, which the process needs until it ends.

    It would look through a million objects each time that it collects everything, for 0.6 s. MXNet's DataLoader lets it
    do so each time one is made.
    """
    gc.collect()
    gc.freeze()


def pytest_report_header(config):
    return f"gluonops: GLUONOPS_TEST_SEED={SEED}, {mx.context.num_gpus()} GPUs"


@contextlib.contextmanager
def alone(name, draws=True):
    """Make what is run here independent of what ran before it in this process; return a seed that follows from a name.

    MXNet's counters of names and its random seed are reset. An error that was recorded before by calling an operator
    without MXNet is dropped. MXNet takes 1.2 ms for a seed, which only what ``draws`` its numbers needs.
    """
    errors._from_bodies.clear()
    errors._mentioned.clear()
    seed = zlib.crc32(name.encode()) ^ SEED
    if draws:
        mx.random.seed(seed)
    np.random.seed(seed)
    with mx.name.NameManager():
        yield seed


@pytest.fixture(autouse=True)
def as_if_alone(request):
    """Make a test independent of those that ran before it. The numbers of an OpSuite are NumPy's, not MXNet's."""
    with alone(request.node.name, draws=not hasattr(request.cls, "axes")) as seed:
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
DRAWN = ("case", "row", "label_dtype", "dtype")   # what the random numbers of a suite depend on


def pytest_generate_tests(metafunc):
    """Parametrize the tests of a suite by its ``axes``; see op_suite.OpSuite.

    There is one test for each backend, which takes the values of the other axes in turn.
    """
    suite = metafunc.cls
    if suite is None or not hasattr(suite, "axes"):
        return
    axes = {name: suite.axes(name) for name in AXES if name in metafunc.fixturenames}
    if "request_" in axes and "dtype" in axes:   # integers have no gradient
        axes["dtype"] = [dtype for dtype in axes["dtype"] if np.dtype(dtype).kind == "f"]
    if not axes:
        return
    every = metafunc.config.getoption("every_mode")
    chosen = list(itertools.product(*axes.values()) if every else
                  daily.combinations(metafunc.definition.name, suite.name, axes))
    groups = {}
    for combination in chosen:
        groups.setdefault(dict(zip(axes, combination)).get("backend", "each"), []).append(combination)
    tests = [[backend if name == "backend" else column for name, column in zip(axes, in_turn.columns(rows))]
             for backend, rows in groups.items()]
    metafunc.parametrize(list(axes), tests, ids=list(groups), indirect=[name for name in axes if name == "backend"])


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test for what it takes in turn, as if each turn were alone. It is skipped if all are.

    Only MXNet's random numbers go on from turn to turn: a seed would take longer than most turns.
    """
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    turns = in_turn.turns(arguments)
    if turns is None:
        return None
    is_suite = hasattr(pyfuncitem.cls, "axes")
    skipped = []
    for number, turn in enumerate(turns):
        name = _drawn(pyfuncitem.originalname, turn) if is_suite else f"{pyfuncitem.name} {number}"
        with alone(name, draws=False) as seed, in_turn.own(arguments, number) as own:
            if "rng" in own:
                own["rng"] = np.random.RandomState(seed)
            try:
                pyfuncitem.obj(**{**own, **turn})
            except pytest.skip.Exception as reason:
                skipped.append(reason)
            except BaseException:
                print(f"It fails with {turn}.")
                raise
    if len(skipped) == len(turns):
        raise skipped[0]
    return True


def _drawn(check, turn):
    """Return what the random numbers of a suite follow from: all backends share the oracle's results for a case."""
    return "-".join([check, *(str(getattr(turn[name], "id", turn[name])) for name in DRAWN if name in turn)])
