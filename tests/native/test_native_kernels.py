"""The C++ kernels where they differ from other implementations: vectors, short rows, blocks, threads.

``tests/op_suite.py`` compares every case and type with the oracles, in the backend ``native`` as in all others.
"""
import hashlib
import os
import pathlib
import subprocess
import sys

import gluonops  # noqa: F401  (first: it makes mxnet importable)
import mxnet as mx
import numpy as np
import pytest
from gluonops.backends import native
from gluonops.contract import registry
from gluonops.native import build
from in_turn import in_turn
from mxnet import autograd
from native_cases import CASES, SUITES, require_library
from op_suite import Case

HERE = pathlib.Path(__file__).parent
SANITIZE = HERE.parent / "sanitize.sh"
FLOATS = ("float16", "float32", "float64")
HIDDEN = [case for case in CASES if len(registry.get(case.values[0]).op.outputs) > 1]


@pytest.fixture(autouse=True)
def library(monkeypatch):
    require_library()
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")


def run(name, attrs, inputs, head=None):
    """Output and gradients, imperatively."""
    arrays = [mx.nd.array(a, dtype=a.dtype) for a in inputs]
    for array in arrays:
        array.attach_grad()
        array.grad[:] = 7   # must be written over
    with autograd.record():
        output = getattr(mx.nd, f"gluonops_{name}")(*arrays, **attrs)
        output = output[0] if isinstance(output, list) else output
    if head is not None:
        output.backward(mx.nd.array(head, dtype=output.dtype))
    return [output.asnumpy()] + [array.grad.asnumpy() for array in arrays if head is not None]


@in_turn("name, case", [case.values for case in HIDDEN])
def test_hidden_outputs(name, case, rng):
    """A bound graph has the outputs that backward reads, as the reference has them."""
    suite = SUITES[name]()
    inputs = [mx.nd.array(array) for array in suite.draw(case, "float32", rng)]
    variables = [mx.sym.var(arg.name) for arg in suite.op.inputs]
    graph = getattr(mx.sym, f"gluonops_{name}")(*variables, **suite.op.strings(suite.typed(case)))
    outputs = graph.bind(mx.cpu(), inputs).forward(is_train=True)
    reference = registry.get(name).reference.forward(mx.nd, suite.typed(case), *inputs)
    assert len(outputs) == len(reference) == len(suite.op.outputs)
    for out, got, want in zip(suite.op.outputs, outputs, reference):
        np.testing.assert_allclose(got.asnumpy(), want.asnumpy(), rtol=1e-5, atol=1e-6, err_msg=out.name)


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("name", ["softmax_output", "softmax_cross_entropy"])
def test_labels_that_are_no_class_and_ignored_rows(name, axis):
    """The former give NaN, the latter exactly 0, even in rows of NaN and infinity."""
    labels = np.array([[0, -1, 3, 1.5, np.nan, 1e30, -1e30, -2, 2, -2]])
    data = np.random.RandomState(0).randn(1, 10, 3).astype("float32")
    data[0, 7], data[0, 9] = np.nan, np.inf
    head = np.ones(data.shape if name == "softmax_output" else labels.shape, "float32")
    head.reshape(10, -1)[9] = np.nan
    inputs = [data if axis == 2 else data.transpose(0, 2, 1).copy(), labels.astype("float32")]
    head = head if axis == 2 or head.ndim == 2 else head.transpose(0, 2, 1)
    output, gradient, _ = run(name, {"axis": axis, "ignore_label": -2}, inputs, head)
    gradient = gradient[0] if axis == 2 else gradient[0].T
    good, ignored = [0, 8], [7, 9]
    assert np.isfinite(gradient[good]).all() and np.array_equal(gradient[ignored], np.zeros((2, 3)))
    assert np.isnan(gradient[1:7]).all()
    if name == "softmax_cross_entropy":
        assert np.isnan(output[0, 1:7]).all() and not output[0, ignored].any() and np.isfinite(output[0, good]).all()


def test_exponential_is_exact_to_a_unit_or_two():
    """softmax of (x, 0) for x from 0 down to where float32 ends; minus infinity is exactly 0."""
    x = np.concatenate([np.linspace(-103, 0, 20001), [-1e30, -np.inf]]).astype("float32")
    got = run("softmax", {}, [np.stack([x, np.zeros_like(x)], 1)])[0][:, 0].astype("float64")
    wide = np.exp(x.astype("float64"))
    want = wide / (1 + wide)
    spacing = np.maximum(np.spacing(want.astype("float32")).astype("float64"), 2.0 ** -149)
    assert np.abs(got - want).max() <= 1e-7 and (np.abs(got - want) / spacing).max() <= 3
    assert got[-1] == 0 and got[-2] == 0


@pytest.mark.parametrize("infinite", [False, True])
def test_logarithms_of_short_rows(infinite):
    """The loss of (0, x, -inf, ...). Many logarithms are taken at once, or one by one where a row is not finite."""
    x = np.linspace(-20, 20, 4001).astype("float32")
    logits = np.full((4001, 10), -np.inf, "float32")
    logits[:, 0], logits[:, 1] = 0, x
    if infinite:
        logits[7::64] = -np.inf
    loss = run("softmax_cross_entropy", {}, [logits, np.zeros(4001, "float32")])[0]
    finite = np.isfinite(logits[:, 0])
    want = np.logaddexp(0, x.astype("float64"))[finite]
    assert (np.abs(loss[finite] - want) <= 2e-7 * np.maximum(want, 1)).all()
    assert finite.all() != infinite and not np.isfinite(loss[~finite]).any()


@in_turn("dtype", FLOATS)
@in_turn("shape", [(203, 10), (2, 21), (37, 31), (50, 127), (1030, 7), (66, 10, 2), (19, 33, 2),
                   (17, 128, 2), (5, 3, 2)])
def test_short_rows(shape, dtype, rng):
    """Blocks and vectors hold the ends of several rows, a block has a rest, or rows take more than one vector."""
    labels = (shape[0], *shape[2:])
    for name, shapes, attrs in (
            ("softmax", (shape,), {"axis": 1, "temperature": 2}),
            ("softmax_cross_entropy", (shape, labels), {"axis": 1}),
            ("softmax_cross_entropy", (shape, labels), {"axis": 1, "ignore_label": 1, "smoothing": 0.25})):
        suite, case = SUITES[name](), Case("short", shapes, attrs)
        arrays = suite.draw(case, dtype, rng)
        head = suite.head(case, arrays, rng).astype(dtype)
        output, gradients = suite.expected(case, arrays, head)
        got = run(name, suite.op.strings(suite.typed(case)), arrays, head)
        suite.close(got[0], output, "output", "custom", dtype)
        suite.close(got[1], gradients["data"], "gradient", "custom", dtype)


def test_float16_keeps_what_it_can_hold():
    """abs and reorg move every bit pattern; softmax rounds to nearest."""
    every = np.arange(65536, dtype="uint16").view("float16")
    got = run("abs", {}, [every])[0]
    np.testing.assert_array_equal(got.view("uint16"), np.abs(every).view("uint16"))
    got = run("reorg", {}, [every.reshape(4, 16, 32, 32)])[0]
    assert sorted(got.view("uint16").ravel()) == list(range(65536))
    ones = np.zeros((1, 2049), "float16")
    assert (run("softmax", {}, [ones])[0] == np.float16(1 / 2049)).all()


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
@pytest.mark.parametrize("stride", [2, 3, 4, 5])
def test_reorg_of_rows_of_any_width(stride, dtype):
    """Rows are shorter than a vector, or of whole vectors, or leave a rest; in both directions."""
    for width in (1, 3, 8, 16, 31, 32, 33, 130):
        data = np.random.RandomState(width).randint(0, 255, (1, 2, stride, stride * width)).astype(dtype)
        blocks = data.reshape(1, 2, 1, stride, width, stride).transpose(0, 3, 5, 1, 2, 4)
        output, gradient = run("reorg", {"stride": stride, "mode": "DCR"}, [data], blocks.reshape(1, -1, 1, width))
        np.testing.assert_array_equal(output, blocks.reshape(output.shape))
        np.testing.assert_array_equal(gradient, data)


def test_behind_a_layout_of_onednn():
    """The output of a convolution is copied to plain layout, and so is the gradient of its output."""
    data, weight = mx.nd.random.uniform(shape=(2, 16, 8, 8)), mx.nd.random.uniform(shape=(32, 16, 3, 3))
    results = []
    for function in (mx.nd.abs, mx.nd.gluonops_abs):
        weight.attach_grad()
        with autograd.record():
            features = mx.nd.Convolution(data, weight, kernel=(3, 3), num_filter=32, no_bias=True)
            output = mx.nd.Convolution(function(features), weight.reshape((16, 32, 3, 3)), kernel=(3, 3),
                                       num_filter=16, no_bias=True)
        output.backward()
        results.append((output.asnumpy(), weight.grad.asnumpy()))
    for ours, theirs in zip(*results):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


SHAPES = {
    "abs": (((1001, 999),), {}),
    "region_decode": (((3, 48, 76, 76),), {"anchors": (1, 2, 3, 4), "classes": 19}),
    "region_loss": (((3, 48, 76, 76), (3, 30, 5), (1,)), {"anchors": (1, 2, 3, 4), "classes": 19}),
    "reorg": (((6, 16, 76, 76),), {}),
    "tile": (((1003, 333),), {"tiles": "(3, 2)"}),
    "softmax": (((999, 1001),), {}),
    "softmax_output": (((5, 21, 9999), (5, 9999)), {"axis": 1, "normalization": "valid", "ignore_label": 3}),
    "softmax_cross_entropy": (((999, 1001), (999,)), {"smoothing": 0.1}),
    "center_loss": (((999, 1001), (999,), (21, 1001)), {}),
    "gaussian_yolo_loss": (((3, 56, 76, 76), (3, 30, 5)), {"anchors": (1, 2, 3, 4), "classes": 19}),
    "yolo_loss": (((3, 48, 76, 76), (3, 30, 5)), {"anchors": (1, 2, 3, 4), "classes": 19}),
}


def digest():
    """Return a hash of every operator's results on tensors that are worth several threads."""
    result, rng = hashlib.sha256(), np.random.RandomState(0)
    for name, (shapes, attrs) in sorted(SHAPES.items()):
        for dtype in FLOATS:
            inputs = SUITES[name]().draw(Case(name, shapes, attrs), dtype, rng)
            output = run(name, attrs, inputs)[0]
            for array in run(name, attrs, inputs, rng.randn(*output.shape).astype(dtype)):
                result.update(array.tobytes())
    return result.hexdigest()


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_threads():
    digests = set()
    for threads in ("1", "2", "3", "4"):
        env = {**os.environ, "OMP_NUM_THREADS": threads, "GLUONOPS_CHECK_LABELS": "0"}
        env["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), *filter(None, [env.get("PYTHONPATH")])])
        done = subprocess.run([sys.executable, __file__], env=env, text=True, capture_output=True,
                              check=True)
        digests.add(done.stdout.split()[-1])
    assert len(digests) == 1


@pytest.mark.slow
@pytest.mark.parametrize("target", ["base", "avx2", "avx512"])
def test_every_instruction_set(target):
    """The suites' cases pass with the kernels of lesser processors."""
    env = {**os.environ, "GLUONOPS_NATIVE_TARGET": target}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, str(HERE.parent / "ops"), "-k",
               "(output_and_gradient and native) or exponential or float16 or no_class"]
    done = subprocess.run(command, env=env, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


OUTSIDE = """
import ctypes, gluonops, mxnet as mx
from mxnet.base import _LIB
tensor, address = mx.nd.ones(64), ctypes.c_void_p()
tensor.wait_to_read()
assert _LIB.MXNDArrayGetData(tensor.handle, ctypes.byref(address)) == 0
ctypes.memset(address.value + 4 * 64, 0, 1)
"""


@pytest.mark.slow
def test_sanitizers(tmp_path):
    """Every operator under AddressSanitizer and UndefinedBehaviorSanitizer. A planted write has to be seen first."""
    library = build.build(tmp_path / "libgluonops.so", generated=tmp_path / "generated", sanitize=True)
    assert b"__asan_report_store" in library.read_bytes()

    def sanitized(*words):
        return subprocess.run([str(SANITIZE), sys.executable, *words], text=True, capture_output=True, check=False,
                              cwd=HERE.parents[1], env={**os.environ, "GLUONOPS_LIBRARY": str(library)})

    planted = sanitized("-c", OUTSIDE)
    assert planted.returncode and "heap-buffer-overflow" in planted.stderr, planted.stderr[-3000:]
    done = sanitized("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "-m", "not slow", "-k", "native",
                     "tests/ops", __file__)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


@pytest.mark.slow
def test_thread_sanitizer():
    """It reports a planted race, and none in the pool."""
    done = subprocess.run([str(HERE / "thread_sanitize.sh")], text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, "threads: fine\n"), done.stderr[-3000:]


if __name__ == "__main__":
    assert native.loaded(), native.reason()
    print(digest())
