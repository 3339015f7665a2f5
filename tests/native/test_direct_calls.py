"""Small calls, which the calling thread computes: when it does, and that the results are those of the engine."""
import concurrent.futures
import os
import pathlib
import threading
import time

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.backends import native
from gluonops.contract import registry
from native_cases import require_library

LARGE = (1200, 1000)   # 4.8 MB, more than a direct call takes


@pytest.fixture(scope="module", autouse=True)
def _library():
    require_library()


@pytest.fixture
def ways(monkeypatch):
    """Which way each call has gone: ``direct`` or ``engine``."""
    taken = []
    run, run_in_engine = native.LibraryCall.__call__, native.LibraryCall._run_in_engine

    def noted(call, inputs):
        by_engine = taken.count("engine")
        outputs = run(call, inputs)
        if taken.count("engine") == by_engine:
            taken.append("direct")
        return outputs

    def noted_in_engine(call, tensors):
        taken.append("engine")
        run_in_engine(call, tensors)

    with gops.backend("native"):
        regain_patience()
        monkeypatch.setattr(native.LibraryCall, "__call__", noted)
        monkeypatch.setattr(native.LibraryCall, "_run_in_engine", noted_in_engine)
        yield taken


def regain_patience():
    """A thread whose inputs were not ready leaves up to 31 of its next calls to the engine."""
    ready = random(2, 2)
    for _ in range(32):
        gops.ops.abs(ready)


def random(*shape):
    array = mx.nd.array(np.random.RandomState(0).randn(*shape))
    array.wait_to_read()
    return array


class Gate(mx.operator.CustomOp):
    """An identity that waits until it is opened."""

    opened = threading.Event()

    def forward(self, is_train, req, in_data, out_data, aux):
        assert self.opened.wait(60)
        self.assign(out_data[0], req[0], in_data[0])


@mx.operator.register("direct_calls_gate")
class GateProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Gate()


def test_a_small_call_is_direct(ways):
    data = random(7, 9)
    result = gops.ops.softmax(data, temperature=2.0)
    assert ways == ["direct"]
    shifted = np.exp(data.asnumpy() / 2)
    np.testing.assert_allclose(result.asnumpy(), shifted / shifted.sum(-1, keepdims=True), rtol=1e-6)


def test_a_large_call_is_the_engines(ways):
    data = random(*LARGE)
    np.testing.assert_array_equal(gops.ops.abs(data).asnumpy(), np.abs(data.asnumpy()))
    small_with_large_output = gops.ops.tile(random(100, 100), tiles=200)
    assert small_with_large_output.shape == (100, 20000)
    assert ways == ["engine", "engine"]


def test_both_ways_have_the_same_bits(ways):
    data, label = random(33, 10), mx.nd.array(np.arange(33) % 10)
    label.wait_to_read()
    direct = gops.ops.softmax_cross_entropy(data, label)
    with mx.autograd.record():
        by_engine = gops.ops.softmax_cross_entropy(data, label)
    assert ways == ["direct", "engine"]
    np.testing.assert_array_equal(direct.asnumpy(), by_engine.asnumpy())


def test_each_shape_and_type_has_its_own_outputs(ways):
    """A call keeps the shapes and the types that it has inferred last."""
    for shape in ((3, 4), (4, 3), (12,), (3, 4), (2, 2, 3)):
        for dtype in ("float32", "float64", "float16"):
            data = random(*shape).astype(dtype)
            data.wait_to_read()
            result = gops.ops.abs(data)
            assert (result.shape, result.dtype) == (shape, np.dtype(dtype))
            np.testing.assert_array_equal(result.asnumpy(), np.abs(data.asnumpy()))
    assert set(ways) == {"direct"}


def test_an_error_is_not_kept(ways):
    data, label, other = random(4, 3), mx.nd.zeros(4), mx.nd.zeros(5)
    mx.nd.waitall()
    for _ in range(2):
        with pytest.raises(gops.OpError, match=r"gluonops\.softmax_cross_entropy: label has shape \(5,\)"):
            gops.ops.softmax_cross_entropy(data, other)
        assert gops.ops.softmax_cross_entropy(data, label).shape == (4,)
    assert ways == ["direct", "direct"]


def in_new_thread(function):
    """Return what a function returns. Its first call is not left to the engine."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(timeout=120)


def test_it_does_not_wait_for_its_input(ways):
    ready = random(3, 4)

    def work():
        Gate.opened.clear()
        with gops.backend("native"):
            pending = mx.nd.Custom(ready, op_type="direct_calls_gate")
            result = gops.ops.abs(pending)   # returns while the input is not there
            second = gops.ops.abs(result)
            Gate.opened.set()
            np.testing.assert_array_equal(second.asnumpy(), np.abs(ready.asnumpy()))
            at_first = list(ways)
            regain_patience()
            gops.ops.abs(ready)
        return at_first

    assert in_new_thread(work) == ["engine", "engine"]
    assert ways[-1] == "direct"


def test_a_writer_waits_for_nothing_that_is_over(ways):
    """The engine knows that the call has read its input: who writes it next gets it at once."""
    data = random(5, 5)
    before = data.asnumpy()
    result = gops.ops.abs(data)
    data[:] = 7
    assert ways == ["direct"]
    np.testing.assert_array_equal(result.asnumpy(), np.abs(before))
    np.testing.assert_array_equal(data.asnumpy(), np.full((5, 5), 7, "float32"))


def test_a_recorded_call_is_the_engines(ways):
    data = random(4, 6)
    data.attach_grad()
    with mx.autograd.record():
        result = gops.ops.abs(data)
    result.backward()
    np.testing.assert_array_equal(data.grad.asnumpy(), np.sign(data.asnumpy()))
    assert ways == ["engine"]


def test_the_output_of_a_convolution(ways):
    """It may be in a layout of oneDNN's."""
    data, weight = random(2, 16, 9, 9), random(32, 16, 3, 3)
    result = mx.nd.Convolution(data, weight, num_filter=32, kernel=(3, 3), no_bias=True)
    result.wait_to_read()
    out = gops.ops.abs(result)
    assert len(ways) == 1
    np.testing.assert_array_equal(out.asnumpy(), np.abs(result.asnumpy()))


def test_views_and_one_array_twice(ways):
    boxes = mx.nd.array(np.random.RandomState(1).rand(9, 4))
    boxes.wait_to_read()
    part = boxes[2:6]
    np.testing.assert_array_equal(gops.ops.abs(part).asnumpy(), boxes.asnumpy()[2:6])
    same = gops.ops.box_iou(part, part).asnumpy()
    np.testing.assert_array_equal(same, same.T)
    assert set(ways) == {"direct"}


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_no_elements(ways, shape):
    with mx.util.np_shape(True):
        assert gops.ops.abs(mx.nd.zeros(shape)).shape == shape
    assert ways == ["engine"]


def test_the_user_gets_the_outputs_of_the_contract(ways):
    """The others, which the gradient reads, are freed."""
    op = registry.get("softmax_cross_entropy").op
    loss = native.LibraryCall(op, op.parse({}))([random(4, 3), mx.nd.array([0, 1, 2, 0])])
    assert len(op.outputs) == 3 and loss.shape == (4,)


def test_each_attribute_has_its_own_outputs(ways):
    """The library parses the attributes once for each prepared call, and once for each node of a graph."""
    data, variable = random(3, 5), mx.sym.var("data")
    for temperature in (1.0, 2.0, 1.0, 4.0):
        for axis in (-1, 0):
            shifted = np.exp(data.asnumpy().astype("float64") / temperature)
            expected = shifted / shifted.sum(axis, keepdims=True)
            direct = gops.ops.softmax(data, axis=axis, temperature=temperature)
            with mx.autograd.record():
                by_engine = gops.ops.softmax(data, axis=axis, temperature=temperature)
            graph = gops.ops.softmax(variable, axis=axis, temperature=temperature)
            loaded = mx.sym.load_json(graph.tojson())
            of_graphs = [each.bind(mx.cpu(), {"data": data}).forward()[0] for each in (graph, loaded)]
            for got in (direct, by_engine, *of_graphs):
                np.testing.assert_allclose(got.asnumpy(), expected, rtol=1e-5)
    assert set(ways) == {"direct", "engine"}


def test_a_wrong_attribute_is_refused_where_the_node_is_made(ways):
    with pytest.raises(gops.OpError, match=r"gluonops\.softmax: temperature is '-1'; expected a finite number above 0"):
        mx.sym.gluonops_softmax(mx.sym.var("data"), temperature=-1)
    with pytest.raises(gops.OpError, match=r"gluonops\.softmax: 'heat' is not an attribute"):
        mx.nd.gluonops_softmax(random(2, 3), heat=1)


def test_a_call_that_cannot_be_prepared_says_why(ways):
    op = registry.get("softmax").op
    with pytest.raises(gops.OpError, match=r"gluonops\.softmax: temperature is '-1.0'; expected a finite number above"):
        native.LibraryCall(op, op.parse({})._replace(temperature=-1.0))


def test_bad_input_raises_in_the_call(ways):
    with pytest.raises(gops.OpError, match=r"gluonops\.softmax_cross_entropy: label "):
        gops.ops.softmax_cross_entropy(random(4, 3), random(5))
    integers = random(2, 2).astype("int32")
    integers.wait_to_read()
    with pytest.raises(gops.OpError, match="dtype"):
        gops.ops.softmax(integers)
    assert not ways


class Failing(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        raise ArithmeticError("planted")


@mx.operator.register("direct_calls_failing")
class FailingProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Failing()


@pytest.mark.parametrize("pause", [0, 0.2])   # the input has failed already, or will
def test_an_input_that_fails(ways, pause):
    """The error of what should have made it comes where the result is waited for."""
    def work():
        broken = mx.nd.Custom(random(2, 2), op_type="direct_calls_failing")
        time.sleep(pause)
        with gops.backend("native"):
            result = gops.ops.abs(broken)
        with pytest.raises(mx.MXNetError):
            result.asnumpy()

    in_new_thread(work)
    assert ways == ["engine"]


def test_many_threads(ways):
    """Each has data of another shape: they share what a call has inferred last."""
    inputs = [random(64, 100 + i) for i in range(4)]
    expected = [gops.ops.softmax(data).asnumpy() for data in inputs]

    def work(i):
        with gops.backend("native"):
            return [gops.ops.softmax(inputs[i]).asnumpy() for _ in range(50)]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for results, right in zip(pool.map(work, range(4)), expected):
            for result in results:
                np.testing.assert_array_equal(result, right)


@pytest.mark.parametrize("right, wrong", [({"axis": 1}, {"axis": True}), ({"axis": 1}, {"axis": 1.0})])
def test_equal_values_of_another_type(ways, right, wrong):
    """True equals 1. It is refused even after a call with 1."""
    gops.ops.softmax(random(2, 3), **right)
    with pytest.raises(gops.OpError, match="axis is"):
        gops.ops.softmax(random(2, 3), **wrong)


@pytest.mark.parametrize("wrong", [(2.0, 1), (2, True), [2, True]])
def test_equal_items_of_another_type(ways, wrong):
    data = random(2, 3)
    for right in ((2, 1), [2, 1]):
        assert gops.ops.tile(data, tiles=right).shape == (4, 3)
    with pytest.raises(gops.OpError, match="tiles is"):
        gops.ops.tile(data, tiles=wrong)


def resident_bytes():
    pages = int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads the memory from /proc")
def test_no_output_is_left(ways):
    data = random(200, 200)
    gops.ops.abs(data)
    before = resident_bytes()
    for _ in range(2000):   # Each has 160 kB.
        gops.ops.abs(data)
    assert resident_bytes() - before < 64 << 20
    assert set(ways) == {"direct"}
