"""MXNet's batch norm beside other processes: when its calls run in one thread, and that they compute the same."""
import ctypes
import os

import fresh
import numpy as np
import pytest
from native_cases import require_library

# Functions of the library, and a call of a convolution and a batch norm with their gradients.
CODE = """
import ctypes, json, sys
import gluonops
import mxnet as mx
from gluonops.core import native

library = ctypes.CDLL(native.library_path())
note, alone = library.gluonops_note_batch_norm, library.gluonops_batch_norms_alone
note.argtypes = [ctypes.c_int64] * 2
note.restype = alone.restype = ctypes.c_int64

mx.random.seed(0)
x = mx.nd.random.uniform(-1, 1, (4, 16, 12, 12))
weight = mx.nd.zeros((16, 16, 1, 1))
for channel in range(16):
    weight[channel, channel] = 1
head = mx.nd.random.uniform(-1, 1, x.shape)
gamma, beta = mx.nd.random.uniform(0.5, 1.5, 16), mx.nd.random.uniform(-1, 1, 16)
mean, variance = mx.nd.zeros(16), mx.nd.ones(16)
for array in (x, gamma, beta):
    array.attach_grad()

def step():
    with mx.autograd.record():
        y = mx.nd.Convolution(x, weight, kernel=(1, 1), num_filter=16, no_bias=True)   # in oneDNN's layout
        y = mx.nd.BatchNorm(y, gamma, beta, mean, variance, fix_gamma=False, eps=1e-5)
    y.backward(head)
    arrays = {"y": y, "x_grad": x.grad, "gamma_grad": gamma.grad, "beta_grad": beta.grad}
    return {name: array.asnumpy() for name, array in arrays.items()}
"""


def run(code, **env):
    require_library()
    done = fresh.python("-c", CODE + code, env={**os.environ, **env})
    assert done.returncode == 0, done.stderr
    return done.stdout


def oracle(x, head, gamma, beta):
    """Batch norm and its gradients in float64."""
    over = (0, 2, 3)
    x, head, gamma, beta = (np.asarray(array, "float64") for array in (x, head, gamma, beta))
    gamma, beta = gamma[:, None, None], beta[:, None, None]
    scale = 1 / np.sqrt(x.var(over, keepdims=True) + 1e-5)
    normal = (x - x.mean(over, keepdims=True)) * scale
    projection = (head * normal).mean(over, keepdims=True)
    gradient = gamma * scale * (head - head.mean(over, keepdims=True) - normal * projection)
    return {"y": normal * gamma + beta, "x_grad": gradient, "gamma_grad": (head * normal).sum(over),
            "beta_grad": head.sum(over)}


def test_a_call_alone_computes_the_same(tmp_path):
    code = f"""
import numpy as np
note(0, 10**6)
before = alone()
found = step()
print(alone() - before)
np.savez({str(tmp_path / "found.npz")!r}, x=x.asnumpy(), head=head.asnumpy(), gamma=gamma.asnumpy(),
         beta=beta.asnumpy(), **found)
"""
    assert run(code) == "2\n"   # forward and backward
    arrays = np.load(tmp_path / "found.npz")
    expected = oracle(*(arrays[name] for name in ("x", "head", "gamma", "beta")))
    for name, values in expected.items():
        np.testing.assert_allclose(arrays[name], values, rtol=1e-4, atol=1e-4, err_msg=name)


def test_a_call_that_waits_again_keeps_the_next_ones_alone_for_longer():
    code = """
print(json.dumps([note(0, 10), note(10**9, 10**6), *[note(0, 10**6) for _ in range(7)]]))
"""
    assert run(code) == "[0, 0, 100, 200, 400, 800, 1600, 3200, 3200]\n"


def test_nothing_is_watched_where_the_environment_forbids_it():
    assert run("note(0, 10**6); step(); print(alone())", GLUONOPS_TUNE_THREADS="0") == "0\n"


def test_one_thread_is_one_thread():
    """What the library asks of OpenMP: a parallel region has one thread, and the sizes of buffers stay the same."""
    try:
        libgomp = ctypes.CDLL("libgomp.so.1")
    except OSError:
        pytest.skip("there is no libgomp")
    levels, threads = libgomp.omp_get_max_active_levels(), libgomp.omp_get_max_threads()
    team_sizes = []
    region = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: team_sizes.append(libgomp.omp_get_num_threads()))
    libgomp.omp_set_max_active_levels(0)
    try:
        libgomp.GOMP_parallel(region, None, 2, 0)
        assert libgomp.omp_get_max_threads() == threads
    finally:
        libgomp.omp_set_max_active_levels(levels)
    assert team_sizes == [1]
