"""Choosing a backend, and what the emitter refuses."""
import functools
import json
import os
import threading

import fresh
import gluonops as gops
import mxnet as mx
import numpy as np
import op_suite
import pytest
from gluonops.backends import native
from mxnet.gluon import nn


def kinds(graph):
    return {node["op"] for node in json.loads(graph.tojson())["nodes"]} - {"null"}


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """The default is kept, and no backend that a test pretends to have or to lack."""
    emitter = gops.backends.emitter
    monkeypatch.setattr(gops.backends.backend, "_default", gops.backends.backend._default)
    monkeypatch.setattr(emitter, "_prepared_for", functools.lru_cache(typed=True)(emitter._prepared_for.__wrapped__))
    monkeypatch.setattr(emitter, "_prepared", functools.lru_cache(emitter._prepared.__wrapped__))


def test_auto_is_native_where_there_is_no_gpu(monkeypatch):
    assert gops.current_backend() == "auto"
    assert kinds(gops.ops.abs(mx.sym.var("data"))) == {"gluonops_abs"}
    monkeypatch.setattr(gops.backends.backend, "has_gpu", lambda: True)
    gops.backends.emitter._prepared_for.cache_clear()
    gops.backends.emitter._prepared.cache_clear()
    assert kinds(gops.ops.abs(mx.sym.var("data"))) == {"Custom"}


def test_without_the_library(monkeypatch):
    """auto falls back; asked for by name, native raises and says how to build it."""
    monkeypatch.setattr(native, "reason", lambda: "the C++ library is not built; run: make native")
    assert "Custom" in kinds(gops.ops.abs(mx.sym.var("data")))
    with pytest.raises(gops.OpError, match="the native backend is not available: the C.. library is not built; run: "):
        gops.backend("native")
    with gops.backend("custom"):
        np.testing.assert_array_equal(gops.ops.abs(mx.nd.array([-1])).asnumpy(), [1])


def test_an_operator_without_a_native_kernel(monkeypatch):
    monkeypatch.setattr(native, "has", lambda op: op.name != "abs")
    assert "Custom" in kinds(gops.ops.abs(mx.sym.var("data")))
    with gops.backend("native"), pytest.raises(gops.OpError, match="gluonops.abs: it has no native kernel"):
        gops.ops.abs(mx.sym.var("data"))


@pytest.mark.parametrize("honoured", [False, True])
def test_the_identity_guard(honoured, monkeypatch):
    """It stands in graphs, and in recorded calls, where the library does not honour the request."""
    identity, called = mx.nd.identity, []
    monkeypatch.setattr(mx.nd, "identity", lambda *args, **kwargs: called.append(args) or identity(*args))
    monkeypatch.setattr(native, "honours_requests", lambda: honoured)
    with gops.backend("native"):
        in_graph = kinds(gops.ops.reorg(mx.sym.var("data")))
        assert in_graph == ({"gluonops_reorg"} if honoured else {"_copy", "gluonops_reorg"})
        gops.ops.reorg(mx.nd.ones((1, 4, 2, 2)))
        assert not called
        with mx.autograd.record():
            gops.ops.reorg(mx.nd.ones((1, 4, 2, 2)))
        assert len(called) == (0 if honoured else 1)


def test_scope_and_setter():
    with gops.backend("builtin"):
        assert gops.current_backend() == "builtin"
        with gops.backend("custom"):
            assert gops.current_backend() == "custom"
        assert gops.current_backend() == "builtin"
        assert kinds(gops.ops.abs(mx.sym.var("data"))) == {"abs", "_copy"}
    assert gops.current_backend() == "auto"
    gops.backend("builtin")
    assert gops.current_backend() == "builtin"
    with gops.backend("custom"):
        assert gops.current_backend() == "custom"
    assert gops.current_backend() == "builtin"


def test_a_scope_ends_with_an_error_inside():
    with pytest.raises(KeyError), gops.backend("builtin"):
        raise KeyError
    assert gops.current_backend() == "auto"


def test_a_scope_is_its_threads_own():
    backends = []
    with gops.backend("builtin"):
        thread = threading.Thread(target=lambda: backends.append(gops.current_backend()))
        thread.start()
        thread.join()
    assert backends == ["auto"]


@pytest.mark.parametrize("name, text", [
    ("cuda", "gluonops.backend: got 'cuda'; expected 'auto', 'custom', 'native' or 'builtin'"),
])
def test_unavailable(name, text):
    with pytest.raises(gops.OpError, match=text):
        gops.backend(name)
    assert gops.current_backend() == "auto"


def in_environment(value, code):
    return fresh.python("-c", f"import gluonops as gops, mxnet as mx\n{code}",
                        env={**os.environ, "GLUONOPS_BACKEND": value})


def test_environment_variable():
    assert in_environment("builtin", "print(gops.current_backend())").stdout.split() == ["builtin"]
    result = in_environment("cuda", "gops.ops.abs(mx.nd.ones(1))")
    assert result.returncode and "OpError: gluonops.backend: got 'cuda'" in result.stderr


@pytest.mark.parametrize("value, text", [
    (np.ones(3), "data is numpy.ndarray; expected NDArrays or Symbols. Convert arrays with mx.nd.array"),
    (mx.nd.ones((2, 2)).tostype("csr"), "data is sparse NDArray; expected NDArrays or Symbols. Convert it with .to"),
    ([1, 2], "data is list"),
    (None, "data is NoneType"),
])
def test_what_is_no_tensor(value, text):
    with pytest.raises(gops.OpError) as caught:
        gops.ops.abs(value)
    assert text in str(caught.value)


def test_mixed_kinds():
    with pytest.raises(gops.OpError, match="data is Symbol, label is NDArray; expected NDArrays or Symbols"):
        gops.ops.softmax_output(mx.sym.var("data"), mx.nd.ones(3))
    with pytest.raises(gops.OpError, match="label is NoneType"):
        gops.ops.softmax_output(mx.nd.ones((2, 3)))


@pytest.mark.parametrize("backend", ["custom", "native", "builtin"])
def test_names_in_nested_blocks(backend):
    """A node carries its block's prefix once, in every backend, and twins get names of their own."""
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gops.nn.Reorg(prefix="first_"), gops.nn.Reorg(prefix="second_"))
    with gops.backend(backend):
        graph = net(mx.sym.var("data"))
        names = [name for name in graph.get_internals().list_outputs() if name.endswith("reorg0_output")]
        assert names == ["net_first_reorg0_output", "net_second_reorg0_output"]
        assert gops.ops.abs(mx.sym.var("x"), name="mine").list_outputs() == ["mine_output"]
        with mx.name.Prefix("outer_"):
            assert gops.ops.softmax_output(mx.sym.var("x"), name="mine").list_arguments() == ["x", "outer_mine_label"]


@pytest.mark.parametrize("backend", ["custom", "native", "builtin"])
def test_every_node_has_a_name_of_its_own(backend, monkeypatch):
    """The emitter's nodes are named after the operator's, and marked; ``plot_network`` tells nodes by their names."""
    monkeypatch.setattr(native, "honours_requests", lambda: False)   # every guard stands
    with gops.backend(backend):
        data, label = mx.sym.var("data"), mx.sym.var("label")
        graph = gops.ops.softmax_cross_entropy(gops.ops.abs(gops.ops.tile(data, 2)), label)
    nodes = json.loads(graph.tojson())["nodes"]
    names = [node["name"] for node in nodes]
    assert len(set(names)) == len(names)
    inserted = {node["name"]: node["attrs"]["__gluonops_inserted__"] for node in nodes
                if "__gluonops_inserted__" in node.get("attrs", {})}
    assert not any("gluonops" in node["op"] or node["op"] in ("Custom", "null") for node in nodes
                   if node["name"] in inserted)
    if backend == "native":
        assert inserted["abs0_data_guard"] == inserted["softmax_cross_entropy0_label_guard"] == "guard"
    edges = [(nodes[entry[0]]["name"], node["name"]) for node in nodes for entry in node["inputs"]]
    assert all(names.index(source) < names.index(target) for source, target in edges), "no cycle"


def test_marked_nodes_around_a_loss_head():
    with gops.backend("native"):
        graph = gops.ops.softmax_output(mx.sym.var("data"), name="head")
    marks = {name: attrs["__gluonops_inserted__"] for name, attrs in graph.attr_dict().items()
             if "__gluonops_inserted__" in attrs}
    assert marks == {"head_loss": "head", "head": "head"}


@pytest.mark.parametrize("backend", ["custom", "builtin"])
def test_partial_shapes_behind_an_operator(backend):
    """The copy in plain layout around a CustomOp hands on the sizes that are known."""
    with gops.backend(backend):
        graph = mx.sym.FullyConnected(gops.ops.abs(mx.sym.var("x")), num_hidden=3, name="fc")
    assert graph.infer_shape_partial(x=(0, 7)) == ([(0, 7), (3, 7), (3,)], [(0, 3)], [])


@pytest.mark.parametrize("backend, function", [("custom", gops.ops.abs), ("custom", gops.ops.softmax),
                                               ("builtin", gops.ops.abs)])
def test_partial_shapes_in_front_of_an_operator(backend, function):
    """What x lacks follows from z."""
    with gops.backend(backend):
        graph = function(mx.sym.var("x")) + mx.sym.var("z")
    assert graph.infer_shape(x=(0, 3), z=(2, 0)) == ([(2, 3), (2, 3)], [(2, 3)], [])


class Twice(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, data):
        return gops.ops.tile(gops.ops.abs(data), (1,))


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("backend", ["custom", "builtin"])
def test_a_scalar_under_np_shape(backend, hybridized):
    """abs leaves it a scalar, and tile makes a vector of it, as in NumPy."""
    with mx.util.np_shape(True), gops.backend(backend):
        scalar = mx.nd.zeros(()) - 2
        scalar.attach_grad()
        net = Twice()
        net.hybridize(hybridized)
        with mx.autograd.record():
            output = gops.ops.abs(scalar)
            tiled = net(scalar)
        tiled.backward()
        assert (output.shape, tiled.shape, scalar.grad.shape) == ((), (1,), ())
        assert (output.asnumpy(), tiled.asnumpy(), scalar.grad.asnumpy()) == (2, 2, -1)


WEIGHTS = (0.5, 2.0, 1.0)


@pytest.mark.parametrize("backend", ["custom", "native", "builtin"])
@pytest.mark.parametrize("make", [list, np.array, mx.nd.array, mx.np.array], ids=["list", "numpy", "nd", "np"])
@pytest.mark.parametrize("name, attribute, block", [
    ("softmax_cross_entropy", "class_weight", gops.loss.SoftmaxCELoss),
    ("softmax_focal_loss", "alpha", gops.loss.SoftmaxFocalLoss),
    ("lovasz_softmax", "class_weight", gops.loss.LovaszSoftmaxLoss),
    ("margin_softmax_cross_entropy", "class_weight", gops.loss.MarginSoftmaxCELoss),
    ("sigmoid_cross_entropy", "pos_weight", gops.loss.SigmoidCELoss)])
def test_numbers_in_arrays(backend, make, name, attribute, block, rng):
    """They count as in a tuple, in functions, hybridized blocks and graphs; and an array is read again at each call."""
    function, weights = getattr(gops.ops, name), make(WEIGHTS)
    data = mx.nd.array(rng.rand(4, 3))
    label = mx.nd.ones((4, 3)) if attribute == "pos_weight" else mx.nd.array([0, 1, 2, 1])
    with gops.backend(backend):
        expected = function(data, label, **{attribute: WEIGHTS}).asnumpy()
        np.testing.assert_array_equal(function(data, label, **{attribute: weights}).asnumpy(), expected)
        losses = [block(**{attribute: value}) for value in (WEIGHTS, weights)]
        assert repr(losses[0]) == repr(losses[1])
        for loss in losses:
            loss.hybridize()
        np.testing.assert_array_equal(*[loss(data, label).asnumpy() for loss in losses])
        graphs = [function(mx.sym.var("data"), mx.sym.var("label"), name="node", **{attribute: value}).tojson()
                  for value in (WEIGHTS, weights)]
        assert graphs[0] == graphs[1]
        weights[0] = 4.0
        changed = function(data, label, **{attribute: weights}).asnumpy()
    assert (changed != expected).any()


NO_CLASSES, NO_PLACES = ((5, 0), (5,)), ((2, 3, 0), (2, 0))


@pytest.mark.parametrize("name, shapes", [
    ("dice_loss", NO_PLACES), ("lovasz_softmax", NO_PLACES), ("lovasz_softmax", ((2, 0, 3), (2, 3))),
    ("softmax_cross_entropy", NO_CLASSES), ("softmax_focal_loss", NO_CLASSES),
    ("margin_softmax_cross_entropy", NO_CLASSES), ("distillation_loss", ((5, 0), (5, 0))),
    ("center_loss", ((5, 0), (5,), (3, 0))), ("yolo_loss", ((2, 16, 0, 3), (2, 3, 5))),
    ("region_loss", ((2, 16, 0, 3), (2, 3, 5), (1,)))])
@pytest.mark.parametrize("backend", ["custom", "native", "builtin"])
def test_an_output_of_nothing(name, shapes, backend, monkeypatch):
    """It was what the memory had held, or MXNet ended the process."""
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")
    attrs = {"anchors": (1.5, 0.5, 0.75, 2.0), "classes": 3} if len(shapes[0]) == 4 else {}
    with mx.util.np_shape(True), gops.backend(backend), pytest.raises(gops.OpError, match="which has no elements"):
        getattr(gops.ops, name)(*[mx.nd.ones(shape) for shape in shapes], **attrs).wait_to_read()


@pytest.mark.parametrize("backend", ["custom", "reference", "native", "builtin", "cuda"], indirect=True)
@pytest.mark.parametrize("mode", ["imperative", "hybridized", "static", "reloaded"])
@pytest.mark.parametrize("name", ["box_iou", "distillation_loss", "iou_loss", "sigmoid_cross_entropy",
                                  "sigmoid_focal_loss"])
def test_one_array_as_both_inputs(name, mode, backend, rng):
    """Its gradient is the sum of both inputs'."""
    suite = op_suite.suite_of(name)()
    case = op_suite.Case("twice", ((3, 4), (3, 4)))
    _, label = suite.draw(case, "float32", rng)
    arrays, array = [label, label], mx.nd.array(label)
    head = suite.head(case, arrays, rng).astype("float32")
    expected, gradients = suite.expected(case, arrays, head)
    array.attach_grad()
    with gops.backend(backend), mx.autograd.record():
        output = suite.net(case, mode)(array, array)
    output.backward(mx.nd.array(head))
    np.testing.assert_allclose(output.asnumpy(), expected, 1e-5, 1e-5)
    np.testing.assert_allclose(array.grad.asnumpy(), sum(gradients.values()), 1e-5, 1e-5)
