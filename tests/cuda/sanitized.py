"""What `make test` runs under AddressSanitizer, started by test_emulator.py: every kernel in float32, on some cases.

All tensors are at odd offsets. `make cuda-sanitize` takes every dtype, and all cases but the slow ones.
"""
import cuda_emulator
import pytest
from test_cuda_kernels import EXTRA, OPS, SUITES, Run, emulated, slow  # noqa: F401  (emulated: a fixture of all tests)

MOST = 8   # cases of an operator, from all over its list


def some_cases(name):
    cases = [case for case in (*SUITES[name].cases, *EXTRA.get(name, ())) if not slow(case)]
    return cases[::-(-len(cases) // MOST)]


@pytest.mark.parametrize("request_", ["write", "add"])
@pytest.mark.parametrize("name", OPS)
def test_some_cases_at_odd_offsets(name, request_, rng, monkeypatch):
    monkeypatch.setattr(cuda_emulator, "instances", tuple)   # of the kernels, this dtype's
    for case in some_cases(name):
        Run(name, case, "float32", request_, rng, offsets=(1, 3)).check()
