"""The kernels' own PTX, executed in the interpreter: results against NumPy, under several schedules.

A case of every fourth operator runs with the others; `make cuda-ptx` runs all of ``python -m benchmarks.gpu --quick``.
"""
import copy
import functools
import math
import re

import pytest
from benchmarks.gpu import __main__ as program
from benchmarks.gpu import compare, plan
from benchmarks.harness.cases import on_gpu
from gluonops.cuda import rtc

from ptx.parse import PtxError
from ptx.runner import Interpreter

OPS = rtc.operators()
LOCKSTEP, SCHEDULES = None, (1, 2)   # seeds of random schedules

pytest.importorskip("nvidia.cuda_nvrtc", reason="nvidia-cuda-nvrtc-cu11 has no wheel here")


@functools.lru_cache(maxsize=16)
def planned(op, dtype, label):
    """Return the plan of an operator's quick cases of these types, compiled once."""
    return plan.make(case for case in on_gpu([op], quick=True) if (case.dtype, case.label) == (dtype, label))


def run(planned, case, seed):
    interpreter = Interpreter(seed)
    interpreter.load(planned["programs"])
    inputs = compare.inputs(case)
    interpreter.prepare(case, inputs, compare.before(case))
    assert program.check(interpreter, case, inputs) is None


@pytest.mark.parametrize("number, op", [pytest.param(number, op, marks=[pytest.mark.slow] if number % 4 else [])
                                        for number, op in enumerate(OPS)])
def test_a_case_of_every_kernel(number, op):
    """It is in float32, and in turn a typical one of little work, adding at random, or behind an odd address."""
    plan = planned(op, "float32", "float32")
    small = [case for case in plan["cases"] if math.prod(case["shape"]) < 4000]
    chosen = [small[0], *(case for case in small if case["request"] == "add" or case["offset"])][:3]
    run(plan, chosen[number % 3], (LOCKSTEP, 1, LOCKSTEP)[number % 3])


def every():
    """Parameters: each quick case with its number among those of its types, which name it."""
    for op in OPS:
        groups = dict.fromkeys((case.dtype, case.label) for case in on_gpu([op], quick=True))
        for dtype, label in groups:
            of_types = [case for case in on_gpu([op], quick=True) if (case.dtype, case.label) == (dtype, label)]
            for number, case in enumerate(of_types):
                shape = "x".join(map(str, case.shape))
                yield pytest.param(op, dtype, label, number, id=f"{case.name} {shape} {dtype}".replace(" ", "-"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [LOCKSTEP, *SCHEDULES])
@pytest.mark.parametrize("op, dtype, label, number", list(every()))
def test_every_quick_case(op, dtype, label, number, seed):
    plan = planned(op, dtype, label)
    run(plan, plan["cases"][number], seed)


class TestPlanted:
    """Faults planted in the kernels or in how they are launched are found; see also test_ptx_machine.py."""

    def broken(self, op, change, wanted=lambda case: True):
        """Run the first case that is wanted, with a plan that has been changed."""
        whole = planned(op, "float32", "float32")
        plan = {**whole, "cases": [case for case in whole["cases"] if wanted(case)][:1]}
        changed = change(copy.deepcopy(plan))
        assert changed != plan
        run(changed, changed["cases"][0], LOCKSTEP)

    @staticmethod
    def rewritten(pattern, instead):
        """Return a change of the PTX."""
        def change(planned):
            for entry in planned["programs"].values():
                entry["ptx"] = re.sub(pattern, instead, entry["ptx"])
            return planned
        return change

    @staticmethod
    def resized(by):
        """Return a change of abs's only scalar, the number of elements."""
        def change(planned):
            for launched in planned["cases"][0]["passes"].values():
                kind, size = launched["launches"][0][-1]
                launched["launches"][0][-1] = (kind, size + by)
            return planned
        return change

    def test_a_missed_barrier(self):
        with pytest.raises(PtxError, match="race|uninitialised"):
            self.broken("softmax", self.rewritten(r"bar\.sync\s+0;", ""), lambda case: case["shape"][-1] > 4096)

    def test_an_element_too_many(self):
        with pytest.raises(PtxError, match=r"out of bounds: ld\.global.* of data, which has 4172"):
            self.broken("abs", self.resized(1))

    def test_an_element_too_few(self):
        with pytest.raises(AssertionError, match=r"output is nan at \(6, 148\)"):
            self.broken("abs", self.resized(-1))

    def test_a_wrong_test_of_alignment(self):
        """An address counts as aligned to 16 bytes whatever it is."""
        always = self.rewritten(r"and\.b64(\s+%rd\d+, %rd\d+), 15;", r"and.b64\1, 0;")
        with pytest.raises(PtxError, match="misaligned"):
            self.broken("abs", always, lambda case: case["offset"] == 1)
