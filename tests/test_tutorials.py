"""What the tutorials do with Symbol, Module and Gluon, done with our operators."""
import inspect

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from mxnet.gluon import nn

BACKENDS = pytest.mark.parametrize("backend", ["custom", "native", "builtin"])


def softmax_mlp(backend="custom"):
    data = mx.sym.var("data")
    hidden = mx.sym.Activation(mx.sym.FullyConnected(data, num_hidden=8, name="fc1"), act_type="relu", name="relu1")
    logits = mx.sym.FullyConnected(hidden, num_hidden=3, name="fc2")
    if backend == "custom":
        return mx.sym.Custom(logits, op_type="gluonops_softmax_output", name="softmax")
    with gops.backend(backend):
        return gops.ops.softmax_output(logits, name="softmax")


@BACKENDS
def test_names(backend):
    graph = softmax_mlp(backend)
    assert graph.list_arguments() == ["data", "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias", "softmax_label"]
    assert graph.list_outputs() == ["softmax_output"]


def test_shapes_follow_from_the_data():
    arguments, outputs, _ = softmax_mlp().infer_shape(data=(4, 5))
    shapes = dict(zip(softmax_mlp().list_arguments(), arguments))
    assert shapes["softmax_label"] == (4,) and shapes["fc2_weight"] == (3, 8) and outputs == [(4, 3)]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8", "int32"])
@pytest.mark.parametrize("op", ["abs", "tile", "reorg"])
def test_types_follow_from_the_data(op, dtype):
    graph = mx.sym.Custom(mx.sym.var("data"), op_type=f"gluonops_{op}")
    assert graph.infer_type(data=dtype)[1] == [np.dtype(dtype).type]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_types_of_softmax_output(dtype):
    graph = mx.sym.Custom(mx.sym.var("data"), op_type="gluonops_softmax_output", name="softmax")
    assert graph.infer_type(data=dtype)[:2] == ([np.dtype(dtype).type] * 2, [np.dtype(dtype).type])
    arguments, outputs, _ = graph.infer_type(data=dtype, softmax_label="int32")
    assert arguments == [np.dtype(dtype).type, np.int32] and outputs == [np.dtype(dtype).type]


@BACKENDS
@pytest.mark.parametrize("request_", ["write", "add", "null"])
def test_bind(request_, backend):
    with gops.backend(backend):
        graph = gops.ops.abs(mx.sym.var("data"), name="a")
    gradient = mx.nd.full((3,), 10)
    executor = graph.bind(mx.cpu(), {"data": mx.nd.array([-1, 0, 2])}, {"data": gradient}, request_)
    for _ in range(2):
        np.testing.assert_array_equal(executor.forward(is_train=True)[0].asnumpy(), [1, 0, 2])
        if request_ != "null":
            executor.backward([mx.nd.array([1, 2, 3])])
    expected = {"write": [-1, 0, 3], "add": [8, 10, 16], "null": [10, 10, 10]}[request_]
    np.testing.assert_array_equal(gradient.asnumpy(), expected)


@BACKENDS
def test_simple_bind(backend, rng):
    executor = softmax_mlp(backend).simple_bind(mx.cpu(), data=(4, 5))
    assert executor.arg_dict["softmax_label"].shape == (4,)
    for name, array in executor.arg_dict.items():
        array[:] = mx.nd.array([0, 1, 2, 1]) if name == "softmax_label" else mx.nd.array(rng.randn(*array.shape))
    p = executor.forward(is_train=True)[0].asnumpy()
    executor.backward()
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-6)
    expected = (p - np.eye(3)[[0, 1, 2, 1]]).sum(0)
    np.testing.assert_allclose(executor.grad_dict["fc2_bias"].asnumpy(), expected, rtol=1e-4, atol=1e-6)


@BACKENDS
def test_group_with_internals(backend, rng):
    graph = softmax_mlp(backend)
    group = mx.sym.Group([graph.get_internals()["fc1_output"], graph])
    assert group.list_outputs() == ["fc1_output", "softmax_output"]
    executor = group.simple_bind(mx.cpu(), data=(4, 5))
    for array in executor.arg_dict.values():
        array[:] = mx.nd.array(rng.rand(*array.shape))
    executor.arg_dict["softmax_label"][:] = 0
    hidden, p = executor.forward()
    assert hidden.shape == (4, 8) and p.shape == (4, 3)


@BACKENDS
def test_make_loss_and_block_grad(backend):
    """MakeLoss(mean(cross-entropy)) trains without a head gradient; BlockGrad shows the probabilities beside it."""
    data, label = mx.sym.var("data"), mx.sym.var("label")
    with gops.backend(backend):
        loss = mx.sym.MakeLoss(mx.sym.mean(gops.ops.softmax_cross_entropy(data, label, name="ce")), name="loss")
        shown = mx.sym.BlockGrad(gops.ops.softmax(data, name="p"), name="shown")
    executor = mx.sym.Group([loss, shown]).simple_bind(mx.cpu(), data=(2, 2), label=(2,))
    executor.arg_dict["data"][:] = mx.nd.array([[0, 0], [np.log(3), 0]])
    executor.arg_dict["label"][:] = mx.nd.array([0, 1])
    value, p = executor.forward(is_train=True)
    executor.backward()
    np.testing.assert_allclose(value.asnumpy(), [(np.log(2) + np.log(4)) / 2], rtol=1e-6)
    np.testing.assert_allclose(p.asnumpy(), [[0.5, 0.5], [0.75, 0.25]], rtol=1e-6)
    np.testing.assert_allclose(executor.grad_dict["data"].asnumpy(), [[-0.25, 0.25], [0.375, -0.375]], rtol=1e-6)


@BACKENDS
def test_module_gives_input_gradients(backend):
    with gops.backend(backend):
        graph = gops.ops.tile(mx.sym.var("data"), tiles=2, axis=1, name="tile")
    module = mx.mod.Module(graph, label_names=None)
    module.bind([("data", (2, 2))], inputs_need_grad=True)
    module.init_params()
    module.forward(mx.io.DataBatch([mx.nd.array([[1, 2], [3, 4]])]), is_train=True)
    np.testing.assert_array_equal(module.get_outputs()[0].asnumpy(), [[1, 2, 1, 2], [3, 4, 3, 4]])
    module.backward([mx.nd.array([[1, 2, 3, 4], [10, 20, 30, 40]])])
    np.testing.assert_array_equal(module.get_input_grads()[0].asnumpy(), [[4, 6], [40, 60]])


@BACKENDS
def test_module_takes_changing_shapes(backend, rng):
    """It takes another batch size, and another image size, after bind."""
    with gops.backend(backend):
        graph = gops.ops.reorg(mx.sym.var("data"), mode="CRD", name="reorg")
    module = mx.mod.Module(graph, label_names=None)
    module.bind([("data", (2, 3, 4, 4))])
    module.init_params()
    for shape in [(2, 3, 4, 4), (5, 3, 4, 4), (1, 3, 8, 6), (2, 3, 4, 4)]:
        data = rng.randn(*shape).astype("float32")
        module.forward(mx.io.DataBatch([mx.nd.array(data)]), is_train=False)
        b, c, h, w = shape
        blocks = data.reshape(b, c, h // 2, 2, w // 2, 2).transpose(0, 1, 3, 5, 2, 4)
        expected = blocks.reshape(b, c * 4, h // 2, w // 2)
        np.testing.assert_array_equal(module.get_outputs()[0].asnumpy(), expected)


@BACKENDS
def test_module_fit_is_the_same_as_by_hand(backend, rng):
    """Three steps of SGD go through Module, and through NumPy."""
    data, label = rng.randn(6, 4).astype("float32"), np.array([0, 1, 2, 2, 1, 0], "float32")
    with gops.backend(backend):
        logits = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
        graph = gops.ops.softmax_output(logits, name="softmax")
    weight, bias = rng.randn(3, 4).astype("float32"), rng.randn(3).astype("float32")
    module = mx.mod.Module(graph)
    module.fit(mx.io.NDArrayIter(data, label, 6), num_epoch=3, optimizer="sgd", eval_metric="acc",
               optimizer_params={"learning_rate": 0.5, "rescale_grad": 1 / 6},
               arg_params={"fc_weight": mx.nd.array(weight), "fc_bias": mx.nd.array(bias)})
    for _ in range(3):
        logits = data @ weight.T + bias
        p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        gradient = (p - np.eye(3)[label.astype(int)]) / 6
        weight, bias = weight - 0.5 * gradient.T @ data, bias - 0.5 * gradient.sum(0)
    arguments, _ = module.get_params()
    np.testing.assert_allclose(arguments["fc_weight"].asnumpy(), weight, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(arguments["fc_bias"].asnumpy(), bias, rtol=1e-5, atol=1e-6)
    scores = dict(module.score(mx.io.NDArrayIter(data, label, 6), "acc"))
    assert scores["accuracy"] == (module.predict(mx.io.NDArrayIter(data, label, 6)).asnumpy().argmax(1) == label).mean()


def test_a_custom_op_after_a_convolution(rng):
    """oneDNN's blocked layouts are on both sides. MXNet 1.9.1 gives a bare CustomOp freed memory here, imperatively."""
    for _ in range(20):
        before, after = nn.Conv2D(16, 3, padding=1), nn.Conv2D(16, 3, padding=1)
        results = []
        for block in (before, after):
            block.initialize(mx.init.Xavier())
        data = mx.nd.array(rng.randn(2, 3, 8, 8))
        data.attach_grad()
        for function in (mx.nd.abs, gops.ops.abs):
            with gops.backend("custom"), autograd.record():
                output = after(function(before(data)))
            output.backward()
            results.append((output.asnumpy(), data.grad.asnumpy()))
        for theirs, ours in zip(*results):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def reorg_net():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1), gops.nn.Abs(), gops.nn.Reorg(2), nn.Conv2D(4, 1), gops.nn.Tile((1, 2, 1, 1)),
            nn.GlobalAvgPool2D(), nn.Flatten(), gops.nn.Softmax())
    net.initialize(mx.init.Xavier())
    return net


@BACKENDS
@pytest.mark.parametrize("static", [{}, {"static_alloc": True}, {"static_alloc": True, "static_shape": True}])
def test_hybridized_net_takes_changing_shapes(static, backend, rng):
    net = reorg_net()
    shapes = [(2, 3, 8, 8), (1, 3, 8, 8), (4, 3, 12, 6), (2, 3, 8, 8)]
    batches = [mx.nd.array(rng.randn(*shape)) for shape in shapes]
    with gops.backend(backend):
        expected = [net(batch).asnumpy() for batch in batches]
        net.hybridize(**static)
        for batch, output in zip(batches, expected):
            np.testing.assert_allclose(net(batch).asnumpy(), output, rtol=1e-5, atol=1e-6)


@BACKENDS
def test_parameters_are_saved_and_loaded(backend, tmp_path, rng):
    data = mx.nd.array(rng.randn(2, 3, 8, 8))
    with gops.backend(backend):
        net, other = reorg_net(), reorg_net()
        expected = net(data).asnumpy()
        net.save_parameters(str(tmp_path / "net.params"))
        other.load_parameters(str(tmp_path / "net.params"))
        np.testing.assert_array_equal(other(data).asnumpy(), expected)


def test_hybridize_then_export(tmp_path, rng):
    """Gluon's own export and SymbolBlock.imports take Custom nodes."""
    net, data = reorg_net(), mx.nd.array(rng.randn(2, 3, 8, 8))
    net.hybridize()
    expected = net(data).asnumpy()
    net.export(str(tmp_path / "net"))
    block = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    np.testing.assert_allclose(block(data).asnumpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("block, text", [
    (gops.nn.Abs(), "Abs()"),
    (gops.nn.Reorg(2, reverse=True), "Reorg(stride=2, mode=darknet, reverse=True)"),
    (gops.nn.Tile((2, 3)), "Tile(tiles=(2, 3), axis=-1)"),
    (gops.nn.Softmax(axis=1), "Softmax(axis=1, temperature=1.0)"),
    (gops.nn.SoftmaxOutput(ignore_label=-1),
     "SoftmaxOutput(axis=-1, ignore_label=-1, normalization=null, grad_scale=1.0)"),
    (gops.loss.SoftmaxCELoss(weight=2), "SoftmaxCELoss(axis=-1, sparse_label=True, from_logits=False, weight=2, "
     "batch_axis=0, smoothing=0.0, ignore_label=None, class_weight=None, weighted_mean=False)"),
    (gops.loss.CenterLoss(10, 4), "CenterLoss(classes=10, features=4, alpha=0.5, weight=None, batch_axis=0, "
     "center_initializer=zeros)"),
    (gops.loss.FocalLoss(gamma=1), "FocalLoss(axis=-1, alpha=0.25, gamma=1.0, sparse_label=True, from_logits=False, "
     "batch_axis=0, weight=None, eps=1e-12, size_average=True)"),
    (gops.loss.RegionLoss((1, 2), 3), "RegionLoss(anchors=(1.0, 2.0), classes=3, object_scale=5.0, noobject_scale=1.0, "
     "coord_scale=1.0, class_scale=1.0, thresh=0.6, rescore=True, bias_match=True, softmax=True, warmup_images=12800, "
     "box_loss=mse)"),
    (gops.nn.RegionDecode((1, 2), 3), "RegionDecode(anchors=(1.0, 2.0), classes=3, softmax=True, layout=boxes)"),
])
def test_repr(block, text):
    assert repr(block) == text


@pytest.mark.parametrize("block", [getattr(space, name) for space in (gops.nn, gops.loss) for name in space.__all__
                                   if name not in ("for_numpy", "replace")])
def test_every_argument_is_printed(block):
    """A layer whose text leaves one out would print like another layer."""
    parameters = inspect.signature(block.__init__).parameters.values()
    named = {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}
    names = named - {"self", "prefix", "params"}
    required = {"anchors": (1, 2), "classes": 3, "features": 4, "tiles": 2, "channels": 32, "factor": 2,
                "masks": ((0,),), "strides": (32,), "loss": gops.loss.SoftmaxCELoss()}
    text = repr(block(**{name: required[name] for name in names if name in required}))
    assert {name for name in names if f"{name}=" not in text} == set()


@BACKENDS
@pytest.mark.parametrize("hybridize", [False, True])
def test_softmax_output_layer_trains(hybridize, backend, rng):
    """The head without a loss on top: output.backward()."""
    data, label = mx.nd.array(rng.randn(4, 3)), mx.nd.array([0, 1, 2, 0])
    data.attach_grad()
    with gops.backend(backend):
        head = gops.nn.SoftmaxOutput()
        if hybridize:
            head.hybridize()
        with autograd.record():
            p = head(data, label)
        p.backward()
    np.testing.assert_allclose(data.grad.asnumpy(), p.asnumpy() - np.eye(3)[[0, 1, 2, 0]], rtol=1e-5, atol=1e-6)
