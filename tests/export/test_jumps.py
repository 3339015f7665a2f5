"""Exports of operators that jump, where they do: at multiples, halves, equal numbers, zeros, infinities and NaN."""
import pathlib
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.export.jumps import halves, has_jumps
from gluonops.export.onnx.session import session

sys.path.append(str(pathlib.Path(__file__).parent))
import jump_cases  # noqa: E402
from jump_cases import JUMPS, numbers_at_jumps  # noqa: E402

CASES = [pytest.param(name, kind, id=f"{name}-{kind}") for name, jump in JUMPS.items() for kind in jump.kinds]


def saved(prefix, graph):
    graph.save(f"{prefix}-symbol.json")
    mx.nd.save(f"{prefix}-0000.params", {})
    return prefix


@pytest.mark.parametrize("name, kind", CASES)
def test_onnx(name, kind, tmp_path):
    pytest.importorskip("onnxruntime")   # It has no wheel for Python 3.15 yet.
    jump = JUMPS[name]
    arrays = jump_cases.fed(jump, kind)
    found = jump_cases.in_onnxruntime(jump, kind, arrays, tmp_path)
    jump_cases.check(found, jump_cases.expected(jump, kind, arrays)[0])


@pytest.mark.parametrize("name, kind", CASES)
def test_torch(name, kind, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    jump = JUMPS[name]
    arrays = jump_cases.fed(jump, kind)
    found, gradients = jump_cases.in_torch(jump, kind, arrays, tmp_path)
    wanted, right = jump_cases.expected(jump, kind, arrays)
    jump_cases.check(jump_cases.of_types(found, wanted), wanted)
    is_finite = np.isfinite(arrays[0]) & np.isfinite(arrays[-1]) if right else ()
    for ours, theirs in zip(gradients, right):
        jump_cases.check([ours[is_finite]], [theirs[is_finite]])


@pytest.mark.parametrize("name", jump_cases.LOSSES)
def test_losses_in_torch(name, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    jump, kind = jump_cases.LOSSES[name], "float64"
    arrays = jump_cases.fed(jump, kind)
    found, gradients = jump_cases.in_torch(jump, kind, arrays, tmp_path, training=True)
    wanted, right = jump_cases.expected(jump, kind, arrays)
    for ours, theirs in zip([*found, gradients[0]], [*wanted, right[0]]):   # labels have no gradient
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-12)   # MXNet holds a scale in float32


def test_the_right_remainders(tmp_path):
    """Those of issue 64, from exact arithmetic: 0.6 in float32 is 5033165 / 2^23."""
    pytest.importorskip("onnxruntime")
    net = saved(tmp_path / "net", mx.sym.var("data") % 0.6)
    path = gops.export.onnx(net, tmp_path / "net.onnx", (1, 6))
    numbers = np.array([[3, 5.4, 6, 2999.7, -3, 0.6]], np.float32)
    divisor = np.float32(0.6)
    scale = 2 ** 23
    right = [int(float(number) * scale) % int(float(divisor) * scale) / scale for number in numbers[0]]
    found, = session(path, "test").run(None, {"data": numbers})
    np.testing.assert_array_equal(found[0], np.array(right, np.float32))
    assert found[0, 0] == np.float32(0.5999999) and found[0, 4] == np.float32(1.1920929e-07)


@pytest.mark.parametrize("export", ["onnx", "torch"])
@pytest.mark.parametrize("text, function", [
    (r"has the scalar -3(\.0)?, which does not fit into uint8", lambda x: mx.sym.cast(x, "uint8") + -3),
    (r"has the scalar 300(\.0)?, which does not fit into int8", lambda x: mx.sym.cast(x, "int8") > 300),
    ("divides integers by 0, which ends MXNet's process", lambda x: mx.sym.cast(x, "int32") / 0.5)])
def test_what_depends_on_the_processor_is_refused(export, text, function, tmp_path):
    if export == "torch":
        pytest.importorskip("safetensors")
    net = saved(tmp_path / "net", function(mx.sym.var("data")))
    with pytest.raises(gops.OpError, match=text):
        getattr(gops.export, export)(net, tmp_path / "out", (2, 3))


def test_attributes_beyond_a_type_are_refused_in_onnx(tmp_path):
    net = saved(tmp_path / "net", mx.sym.SequenceMask(mx.sym.cast(mx.sym.var("data"), "uint8"), mx.sym.var(
        "lengths"), use_sequence_length=True, value=-1))
    with pytest.raises(gops.OpError, match=r"\(SequenceMask\) cannot be exported to ONNX: it has an attribute that "
                       r"does not fit its integer type"):
        gops.export.onnx(net, tmp_path / "net.onnx", {"data": (2, 3), "lengths": (3,)})


@pytest.mark.parametrize("op", ["exp", "sqrt", "softmax", "mean"])
def test_functions_of_integers_are_refused_in_torch(op, tmp_path):
    pytest.importorskip("safetensors")
    net = saved(tmp_path / "net", getattr(mx.sym, op)(mx.sym.cast(mx.sym.var("data"), "int32")))
    with pytest.raises(gops.OpError, match=rf"\({op}\) .* computes in int32 with integers as results"):
        gops.export.torch(net, tmp_path / "out", (2, 3))


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int32", "uint8"])
def test_drawn_numbers(kind, rng):
    """Equal ones, zeros of both signs, halves; and multiples of 0.6 among those that are no halves."""
    exact, found = halves(rng, (20, 50), kind), numbers_at_jumps(rng, (20, 50), kind)
    for drawn in (exact, found):
        assert drawn.shape == (20, 50) and drawn.dtype == kind and np.isfinite(drawn).all()
        assert len(np.unique(drawn)) < 100 and (drawn == 0).any() and (drawn == 3).any()
    if np.dtype(kind).kind == "f":
        assert (exact * 2 % 1 == 0).all() and (exact % 1 == 0.5).any()
        assert (np.signbit(exact) & (exact == 0)).any() and (found == np.dtype(kind).type(0.6)).any()
    else:
        assert found.min() == (0 if kind == "uint8" else -8) and found.max() == 8


@pytest.mark.parametrize("operator, jumps", [
    (lambda x: mx.sym.round(x), True), (lambda x: x % 0.6, True), (lambda x: x > 1, True),
    (lambda x: mx.sym.argmax(x, axis=1), True), (lambda x: mx.sym.relu(x) + mx.sym.exp(x), False),
    (lambda x: mx.sym.Pooling(mx.sym.Convolution(x, kernel=(1, 1), num_filter=2), global_pool=True), False)])
def test_graphs_that_jump(operator, jumps):
    assert has_jumps(gops.export.graph.Graph.of(operator(mx.sym.var("data")))) == jumps
