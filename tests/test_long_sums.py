"""Long sums in float32: see long_sums.py. Daily the C++ kernels sum 20,001 numbers of few bits, the others 2,049."""
import functools
import itertools

import gluonops as gops
import op_suite
import pytest
from gluonops.contract import registry
from long_sums import CASES, DRAWS, LENGTHS, WITHOUT_LONG_SUMS, LongSums

SHORT, USUAL, LONG = LENGTHS
SLOW_ORACLES = ("gaussian_yolo_loss", "region_loss", "yolo_loss")   # they go from cell to cell


def is_daily(name, backend, length, draw):
    usual = USUAL if backend == "native" and name not in SLOW_ORACLES else SHORT
    return backend != "custom" and draw == "few_bits" and length == usual


def runs():
    """Those of one length and draw of a place follow each other, so that they share what is right."""
    for name, places in CASES.items():
        backends = [backend for backend in op_suite.suite_of(name).axes("backend") if backend != "builtin"]
        for run in itertools.product([name], places, LENGTHS, DRAWS, backends):
            if run[4] == "cuda" and run[2] > (SHORT if run[:2] == ("dice_loss", "classes") else USUAL):
                continue   # a GPU computes more than its emulator can
            daily = is_daily(name, run[4], run[2], run[3])
            yield pytest.param(*run, id="-".join(map(str, run)), marks=() if daily else pytest.mark.slow)


long_sums = functools.lru_cache(maxsize=1)(LongSums)


@pytest.mark.parametrize("name, place, length, draw, backend", list(runs()), indirect=["backend"])
def test_long_sum(name, place, length, draw, backend):
    long_sums(name, place, length, draw).check(backend)


@pytest.mark.gpu
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("name, place", [(name, place) for name, places in CASES.items() for place in places])
def test_long_sum_on_gpu(name, place, draw):
    if "kernel.cu" in registry.get(name).op.unsupported:
        pytest.skip("it has no CUDA kernel")
    LongSums(name, place, SHORT if name in SLOW_ORACLES else LONG, draw).check("custom", "gpu")


def test_every_operator_is_in_the_table_or_has_no_long_sums():
    assert sorted([*CASES, *WITHOUT_LONG_SUMS]) == sorted(gops.ops.list())
