"""gluonops.models: shapes, sizes, heads, and that the nets learn, export and refuse bad input."""
import json

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.models.weights import BACKBONE
from mxnet import autograd, gluon

BACKENDS = pytest.mark.parametrize("backend", ["custom", "builtin"])


def make(name, **kwargs):
    net = gops.models.get_model(name, **kwargs)
    net.initialize(mx.init.Xavier())
    return net


def images(rng, size=28, batch=3, channels=1):
    return mx.nd.array(rng.uniform(0, 1, (batch, channels, size, size)))


def learn(forward, net, data, label, steps=30):
    """The first and the last loss of a training on one batch."""
    loss, seen = gops.loss.SoftmaxCELoss(), []
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.003})
    for _ in range(steps):
        with autograd.record():
            losses = loss(forward(data), label)
        losses.backward()
        trainer.step(len(data))
        seen.append(losses.mean().asscalar())
    return seen[0], seen[-1]


def test_get_model_makes_each_by_name():
    assert isinstance(gops.models.get_model("mlp"), gops.models.MLP)
    net = gops.models.get_model("lenet_reorg", classes=3, prefix="lenet_")
    assert isinstance(net, gops.models.LeNetReorg)
    assert net.output._units == 3 and net.prefix == "lenet_"


@pytest.mark.parametrize("name, source", [
    ("yolov2", "Load Darknet's file with net.load_darknet('yolov2-voc.weights')"),
    ("tiny_yolov2", "Load Darknet's file with net.load_darknet('yolov2-tiny-voc.weights')"),
    ("yolov3", "Load Darknet's file with net.load_darknet('yolov3.weights')"),
    ("tiny_yolov3", "Load Darknet's file with net.load_darknet('yolov3-tiny.weights')"),
    ("yolov4", "Load Darknet's file with net.load_darknet('yolov4.weights')"),
    ("tiny_yolov4", "Load Darknet's file with net.load_darknet('yolov4-tiny.weights')"),
    ("darknet19", "Load Darknet's file with net.load_darknet('darknet19.weights')"),
    ("lenet_reorg", "Train the network with examples/train_digits.py"),
    ("iresnet", "Train the network with examples/finetune_classifier.py"),
    ("mlp", "Train the network with examples/module_mlp.py"),
])
def test_pretrained_says_where_weights_come_from(name, source):
    with pytest.raises(gops.OpError) as caught:
        gops.models.get_model(name, pretrained=True)
    reason = "pretrained is True; expected False, because gluonops downloads no weights"
    assert str(caught.value).startswith(f"gluonops.models.{name}: {reason}. {source}")
    gops.models.get_model(name, pretrained=False)


class TestIResNet:
    def test_learns_embeddings(self, rng):
        """With a margin, cosines of the right classes rise. Another size and more blocks have the same output."""
        net, head = make("iresnet", embedding=16, channels=(8, 16)), gops.nn.ArcFaceHead(3, 16, scale=16)
        head.initialize()
        data, label = images(rng, 12, 6), mx.nd.array([0, 1, 2, 0, 1, 2])
        net.hybridize()
        trainer = gluon.Trainer({**net.collect_params(), **head.collect_params()}, "adam", {"learning_rate": 0.01})
        for _ in range(12):
            with autograd.record():
                vectors = net(data)
                losses = head(vectors, label)
            losses.backward()
            trainer.step(6)
        assert vectors.shape == (6, 16)
        assert (head.cosines(vectors).argmax(1).asnumpy() == label.asnumpy()).all()
        assert make("iresnet", blocks=2)(images(rng, 32, 2, 3)).shape == (2, 128)

    def test_exports(self, rng, tmp_path):
        net, data = make("iresnet", embedding=4, channels=(4,)), images(rng, 8)
        expected = net(data).asnumpy()
        gops.export.symbol(net, tmp_path / "net", (1, 1, 8, 8), fold_batch_norm=True)
        loaded = gluon.SymbolBlock.imports(f"{tmp_path}/net-symbol.json", ["data"], f"{tmp_path}/net-0000.params")
        np.testing.assert_allclose(loaded(data).asnumpy(), expected, rtol=1e-4, atol=1e-5)

    def test_refused(self):
        with pytest.raises(gops.OpError, match=r"channels is \(8, 0\); expected a number of at least 1 for each"):
            gops.models.iresnet(channels=(8, 0))
        with pytest.raises(gops.OpError, match="embedding is 0"):
            gops.models.iresnet(embedding=0)


@pytest.fixture
def weights():
    """The tensors of the file in the package."""
    return mx.nd.load(str(BACKBONE))


def test_the_pretrained_backbone(weights):
    """It is small, and a net that has it can load it: the detector, and the classifier of the same name."""
    assert BACKBONE.stat().st_size <= 2 * 10**6
    assert all(value.dtype == np.float16 and np.isfinite(value.asnumpy()).all() for value in weights.values())
    detector = gops.models.tiny_yolov2(classes=2, width=0.5)
    detector.initialize()
    classifier = gops.models.classifier("tiny_yolov2", ["a", "b"], (3, 64, 64))
    for net, backbone in ((detector, detector.backbone), (classifier, classifier.features)):
        assert net.has_pretrained_backbone
        net.load_pretrained_backbone()
        for name, parameter in backbone._collect_params_with_prefix().items():
            assert parameter.dtype == np.float32
            np.testing.assert_array_equal(parameter.data().copy().asnumpy(), weights[name].asnumpy().astype("float32"))


@pytest.mark.parametrize("name, options", [("tiny_yolov2", {}), ("tiny_yolov2", {"width": 0.25}), ("yolov2", {})])
def test_other_backbones_have_no_weights(name, options):
    net = gops.models.get_model(name, **options)
    assert not net.has_pretrained_backbone
    with pytest.raises(gops.OpError, match="the net has another backbone than that in the package; expected "
                       "tiny_yolov2's with width=0.5. Make such a net, or start from a file of weights"):
        net.load_pretrained_backbone()


@pytest.mark.parametrize("name", ["alexnet", "MLP", "", None])
def test_get_model_lists_the_names(name):
    with pytest.raises(gops.OpError) as caught:
        gops.models.get_model(name)
    assert str(caught.value) == (f"gluonops.models.get_model: name is {name!r}; expected 'darknet19' or 'iresnet' or "
                                 "'lenet_reorg' or 'mlp' or 'tiny_yolov2' or 'tiny_yolov3' or 'tiny_yolov4' or "
                                 "'yolov2' or 'yolov3' or 'yolov4'. Choose one of them.")


class TestLeNetReorg:
    def test_is_the_tutorials_network(self, rng):
        net = make("lenet_reorg")
        net(images(rng))
        shapes = [tuple(p.shape) for p in net.collect_params(".*weight").values()]
        assert shapes == [(20, 1, 5, 5), (20, 80, 5, 5), (50, 20, 5, 5), (500, 800), (10, 500)]
        activations = [layer.act._act_type for layer in net.features if hasattr(layer, "act")]
        assert activations == ["tanh"] * 4

    @BACKENDS
    def test_stage_by_stage(self, backend, rng):
        net, data = make("lenet_reorg"), images(rng)
        with gops.backend(backend):
            seen = []
            for layer in net.features:
                data = layer(data)
                seen.append(data.shape[1:])
        assert seen == [(20, 24, 24), (80, 12, 12), (20, 8, 8), (50, 4, 4), (500,)]

    def test_computes_what_mxnet_computes(self, rng):
        """MXNet's functions agree; its space_to_depth is reorg's DCR."""
        net, data = make("lenet_reorg", mode="DCR"), images(rng)
        got = net(data)
        w = [p.data() for p in net.collect_params().values()]
        x = mx.nd.tanh(mx.nd.Convolution(data, w[0], w[1], kernel=(5, 5), num_filter=20))
        x = mx.nd.space_to_depth(x, 2)
        x = mx.nd.tanh(mx.nd.Convolution(x, w[2], w[3], kernel=(5, 5), num_filter=20))
        x = mx.nd.tanh(mx.nd.Convolution(x, w[4], w[5], kernel=(5, 5), num_filter=50))
        x = mx.nd.tanh(mx.nd.FullyConnected(x, w[6], w[7], num_hidden=500))
        x = mx.nd.FullyConnected(x, w[8], w[9], num_hidden=10)
        np.testing.assert_allclose(got.asnumpy(), x.asnumpy(), rtol=1e-5, atol=1e-6)

    def test_modes_differ(self, rng):
        data, outputs = images(rng), []
        values = None
        for mode in ("darknet", "DCR", "CRD"):
            net = make("lenet_reorg", mode=mode)
            net(data)
            values = values or [p.data() for p in net.collect_params().values()]
            for parameter, value in zip(net.collect_params().values(), values):
                parameter.set_data(value)
            outputs.append(net(data).asnumpy())
        assert all(np.abs(a - b).max() > 1e-3 for a, b in zip(outputs, outputs[1:] + outputs[:1]))

    @pytest.mark.parametrize("size", [22, 24, 40])
    @pytest.mark.parametrize("static", [False, True])
    def test_sizes_and_batches(self, size, static, rng):
        net = make("lenet_reorg", size=size, classes=4)
        imperative = [net(images(np.random.RandomState(batch), size, batch, 3)).asnumpy() for batch in (2, 1, 5)]
        net.hybridize(static_alloc=static, static_shape=static)
        for batch, expected in zip((2, 1, 5), imperative):
            assert expected.shape == (batch, 4)
            got = net(images(np.random.RandomState(batch), size, batch, 3)).asnumpy()
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("size, text", [
        (27, "size is 27; the first convolution leaves 23 pixels a side, which must be even, for reorg, and at least "
             "18, for the convolutions after it. Choose an even size of at least 22."),
        (20, "size is 20; the first convolution leaves 16 pixels"),
        (0, "size is 0; expected an integer of at least 1"),
        (28.0, "size is 28.0; expected an integer"),
        ("big", "size is 'big'; expected an integer")])
    def test_refuses_sizes(self, size, text):
        with pytest.raises(gops.OpError) as caught:
            gops.models.lenet_reorg(size=size)
        assert str(caught.value).startswith("gluonops.models.lenet_reorg: " + text)

    @pytest.mark.parametrize("kwargs, text", [({"classes": 0}, "classes is 0; expected an integer of at least 1"),
                                              ({"mode": "NCHW"}, "mode is 'NCHW'; expected 'darknet', 'DCR' or 'CRD'")])
    def test_refuses_attributes(self, kwargs, text):
        with pytest.raises(gops.OpError, match=text):
            gops.models.lenet_reorg(**kwargs)

    @pytest.mark.parametrize("hybridize", [False, True])
    @pytest.mark.parametrize("shape", [(2, 1, 30, 30), (2, 1, 28, 30), (2, 784), (1, 28, 28)])
    def test_refuses_other_images(self, shape, hybridize):
        net = make("lenet_reorg")
        if hybridize:
            net.hybridize()
        with pytest.raises(gops.OpError) as caught:
            net(mx.nd.zeros(shape))
        assert f"data has shape {shape}; expected (batch, channels, 28, 28)" in str(caught.value)

    @BACKENDS
    def test_learns(self, backend, rng):
        net = make("lenet_reorg", size=22)
        net.hybridize(static_alloc=True, static_shape=True)
        with gops.backend(backend):
            first, last = learn(net, net, images(rng, 22, 10), mx.nd.arange(10))
        assert 1.5 < first < 4 and last < 0.1

    def test_new_head(self, rng):
        """Fine-tuning: the backbone keeps its values, and only the head learns."""
        net, data = make("lenet_reorg", size=22), images(rng, 22, 4)
        net.hybridize()
        net(data)
        before = [p.data().copy().asnumpy() for p in net.features.collect_params().values()]
        with net.name_scope():
            net.output = gluon.nn.Dense(2, in_units=500)
        net.output.initialize()
        net.features.collect_params().setattr("grad_req", "null")
        head = net.output.weight.data().copy().asnumpy()
        assert net(data).shape == (4, 2)
        learn(net, net.output, data, mx.nd.array([0, 1, 0, 1]), steps=3)
        for parameter, value in zip(net.features.collect_params().values(), before):
            np.testing.assert_array_equal(parameter.data().copy().asnumpy(), value)
        assert np.abs(net.output.weight.data().copy().asnumpy() - head).max() > 1e-3


class TestMLP:
    @pytest.mark.parametrize("hidden, shapes", [((128, 64), [(128, 784), (64, 128), (10, 64)]),
                                                (7, [(7, 784), (10, 7)]), ((), [(10, 784)])])
    def test_layers(self, hidden, shapes, rng):
        net = make("mlp", hidden=hidden)
        net(images(rng))
        assert [tuple(p.shape) for p in net.collect_params(".*weight").values()] == shapes

    @BACKENDS
    @pytest.mark.parametrize("hybridize", [False, True])
    def test_probabilities_of_its_logits(self, backend, hybridize, rng):
        net, data = make("mlp"), images(rng)
        if hybridize:
            net.hybridize()
        with gops.backend(backend):
            got = net(data).asnumpy()
        logits = net.body(data).asnumpy().astype("float64")
        expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7)
        assert np.abs(logits).max() > 0.1

    def test_learns(self, rng):
        net = make("mlp")
        net.hybridize()
        first, last = learn(net.body, net, images(rng, 8, 10), mx.nd.arange(10), steps=100)
        assert 1.5 < first < 4 and last < 0.2

    @pytest.mark.parametrize("kwargs, text", [
        ({"classes": -1}, "gluonops.models.mlp: classes is -1; expected an integer of at least 1"),
        ({"hidden": (5, 0)}, r"gluonops.models.mlp: hidden is \(5, 0\); expected an integer of at least 1, or a tuple"),
        ({"hidden": "wide"}, "gluonops.models.mlp: hidden is 'wide'")])
    def test_refuses(self, kwargs, text):
        with pytest.raises(gops.OpError, match=text):
            gops.models.mlp(**kwargs)


@BACKENDS
@pytest.mark.parametrize("name", ["lenet_reorg", "mlp"])
def test_export(name, backend, tmp_path, rng):
    net, data = make(name), images(rng)
    expected = net(data).asnumpy()
    symbol, parameters = gops.export.symbol(net, tmp_path / name, data.shape, backend=backend)
    with open(symbol) as file:
        operators = {node["op"] for node in json.load(file)["nodes"]}
    assert ("Custom" in operators) == (backend == "custom")
    reloaded = gluon.SymbolBlock.imports(symbol, ["data"], parameters)
    np.testing.assert_allclose(reloaded(data).asnumpy(), expected, rtol=1e-5, atol=1e-6)


# Each net and each backend has its turn. `make test-all` has the other pairs.
@pytest.mark.parametrize("name, backend", [
    ("lenet_reorg", "custom"), ("mlp", "builtin"),
    *(pytest.param(*pair, marks=pytest.mark.slow) for pair in (("lenet_reorg", "builtin"), ("mlp", "custom")))])
def test_module_fine_tunes_the_export(name, backend, tmp_path, rng):
    net, data = make(name), images(rng, batch=10)
    logits = getattr(net, "body", net)
    gops.export.symbol(logits, tmp_path / name, data.shape, backend=backend, head="softmax_output")
    symbol, arguments, states = mx.model.load_checkpoint(str(tmp_path / name), 0)
    batches = mx.io.NDArrayIter(data, mx.nd.arange(10), batch_size=10)
    module = mx.mod.Module(symbol)
    module.fit(batches, num_epoch=40, arg_params=arguments, aux_params=states, optimizer="adam",
               optimizer_params={"learning_rate": 0.003})
    assert dict(module.score(batches, "acc"))["accuracy"] == 1
    for key, value in module.get_params()[0].items():
        assert np.abs(value.asnumpy() - arguments[key].asnumpy()).max() > 1e-4, key


def test_save_and_load_parameters(tmp_path, rng):
    data = images(rng)
    for name in ("lenet_reorg", "mlp"):
        net, other = make(name), make(name)
        expected = net(data).asnumpy()
        assert np.abs(other(data).asnumpy() - expected).max() > 1e-4
        net.save_parameters(str(tmp_path / name))
        other.load_parameters(str(tmp_path / name))
        np.testing.assert_array_equal(other(data).asnumpy(), expected)
