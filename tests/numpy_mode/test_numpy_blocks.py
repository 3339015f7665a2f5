"""Layers, losses, heads and models in NumPy mode: the same numbers to the bit as in legacy mode."""
import importlib
import pkgutil

import fresh
import gluonops as gops
import mxnet as mx
import numpy as onp
import pytest
from gluonops.backends.layer import EitherModeBlock
from mxnet import autograd, gluon, np, npx

ANCHORS = [(10, 13), (16, 30)]
BOX = (0.5, 0.5, 0.2, 0.2, 1)
IMAGES = (2, 8, 6, 6)
LABELS = onp.array([1, 0])
NN = {
    "Abs": (gops.nn.Abs, IMAGES), "Tile": (lambda: gops.nn.Tile(2), IMAGES), "Softmax": (gops.nn.Softmax, (2, 5)),
    "Mish": (gops.nn.Mish, IMAGES), "Swish": (gops.nn.Swish, IMAGES), "HardSwish": (gops.nn.HardSwish, IMAGES),
    "GELU": (gops.nn.GELU, IMAGES), "SwiGLU": (gops.nn.SwiGLU, IMAGES), "RMSNorm": (gops.nn.RMSNorm, (2, 8)),
    "L2Normalize": (gops.nn.L2Normalize, (2, 8)), "GroupNorm": (lambda: gops.nn.GroupNorm(4), IMAGES),
    "BlurPool": (lambda: gops.nn.BlurPool(8, 3), IMAGES), "SPP": (lambda: gops.nn.SPP((3, 5)), IMAGES),
    "SqueezeExcite": (lambda: gops.nn.SqueezeExcite(8), IMAGES), "DropBlock": (lambda: gops.nn.DropBlock(0.0), IMAGES),
    "PixelShuffle": (lambda: gops.nn.PixelShuffle(2), IMAGES), "Reorg": (lambda: gops.nn.Reorg(2), IMAGES),
    "PixelUnshuffle": (lambda: gops.nn.PixelUnshuffle(2), IMAGES),
    "SoftmaxOutput": (gops.nn.SoftmaxOutput, (2, 5), LABELS),
    "ArcFaceHead": (lambda: gops.nn.ArcFaceHead(3, 5), (2, 5), LABELS),
    "ArcFaceHead, sampled": (lambda: gops.nn.ArcFaceHead(3, 5, sample_rate=0.7), (2, 5), LABELS),
}
TRUTH = onp.array([[BOX], [BOX]], "float32")
LOSSES = {
    "SoftmaxCELoss": (gops.loss.SoftmaxCELoss, (2, 5), LABELS),
    "FocalLoss": (gops.loss.FocalLoss, (2, 5), LABELS),
    "CenterLoss": (lambda: gops.loss.CenterLoss(3, 5), (2, 5), LABELS),
    "DistillationLoss": (gops.loss.DistillationLoss, (2, 5), onp.random.RandomState(1).randn(2, 5)),
    "RegionLoss": (lambda: gops.loss.RegionLoss([1.0, 1.0, 2.0, 2.0], 3), (2, 16, 3, 3), TRUTH),
    "YOLOLoss": (lambda: gops.loss.YOLOLoss(ANCHORS, [(0, 1)], [32], 3), (2, 16, 3, 3), TRUTH),
}
MODELS = {
    "mlp": {"classes": 3}, "lenet_reorg": {"classes": 3}, "darknet19": {"classes": 3}, "iresnet": {},
    "tiny_yolov2": {"classes": 3, "width": 1 / 8, "head_channels": 16}, "yolov2": {"classes": 3},
    "tiny_yolov3": {"classes": 3, "width": 1 / 8}, "yolov3": {"classes": 3},
    "tiny_yolov4": {"classes": 3, "width": 1 / 8}, "yolov4": {"classes": 3},
}


def run(net, arrays, parameters=None):
    """Outputs, and gradients of the first input and of all parameters, in NumPy. ``parameters`` are copied."""
    data = arrays[0]
    data.attach_grad()
    with autograd.pause():
        net(*arrays)   # deferred shapes
    for name, value in (parameters or {}).items():
        own = strip(net)[name]
        own.set_data(array_like(own.data(), value))
    values = {name: parameter.data().copy().asnumpy() for name, parameter in strip(net).items()}
    with autograd.record():
        outputs = net(*arrays)
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    autograd.backward(list(outputs))
    gradients = {name: parameter.grad().asnumpy() for name, parameter in strip(net).items()
                 if parameter.grad_req != "null"}
    assert all(type(output) is type(data) for output in outputs)
    return [output.asnumpy() for output in outputs], data.grad.asnumpy(), gradients, values


def array_like(existing, value):
    return np.array(value, dtype=value.dtype) if type(existing) is np.ndarray else mx.nd.array(value, dtype=value.dtype)


def strip(net):
    """Return the parameters by their names without the net's prefix."""
    return {name.removeprefix(net.prefix): parameter for name, parameter in net.collect_params().items()}


def compare(make, drawn, hybridized):
    """Run a block in both modes, with the same parameters, and compare everything bit for bit."""
    def made():
        mx.random.seed(3)
        net = make()
        net.initialize(mx.init.Normal(0.1))
        if hybridized:
            net.hybridize()
        return net

    mx.random.seed(5)
    legacy = run(made(), [mx.nd.array(a, dtype=a.dtype) for a in drawn])
    npx.set_np()
    try:
        mx.random.seed(5)
        ours = run(made(), [np.array(a, dtype=a.dtype) for a in drawn], legacy[3])
    finally:
        npx.reset_np()
    for got, expected in zip(ours[0], legacy[0]):
        onp.testing.assert_array_equal(got, expected)
    onp.testing.assert_array_equal(ours[1], legacy[1])
    assert list(ours[2]) == list(legacy[2])
    for name, gradient in legacy[2].items():
        onp.testing.assert_array_equal(ours[2][name], gradient, err_msg=name)


def inputs_of(shape, labels, rng):
    return [rng.randn(*shape).astype("float32"), *(label.astype("float32") for label in labels)]


@pytest.mark.parametrize("hybridized", [False, True], ids=["imperative", "hybridized"])
@pytest.mark.parametrize("name", [*NN, *LOSSES])
def test_layers_and_losses(name, hybridized, rng):
    make, shape, *labels = {**NN, **LOSSES}[name]
    compare(make, inputs_of(shape, labels, rng), hybridized)


@pytest.mark.parametrize("backend", ["custom", "builtin"])
@pytest.mark.parametrize("name", ["GroupNorm", "SqueezeExcite", "SoftmaxCELoss", "CenterLoss"])
def test_layers_in_other_backends(name, backend, rng):
    make, shape, *labels = {**NN, **LOSSES}[name]
    with gops.backend(backend):
        compare(make, inputs_of(shape, labels, rng), hybridized=True)


# Nets of tens of millions of parameters are made of the layers of the small detectors.
LARGE = ("darknet19", "yolov2", "yolov3", "yolov4")


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name
                                  for name in MODELS])
def test_models(name, rng):
    shape = (1, 3, 64, 64) if name not in ("mlp", "lenet_reorg") else (2, 1, 28, 28)
    compare(lambda: gops.models.get_model(name, **MODELS[name]), inputs_of(shape, (), rng), hybridized=True)


def subclasses(cls):
    for other in cls.__subclasses__():
        yield other
        yield from subclasses(other)


def test_every_body_of_ours_runs_in_both_modes():
    """A class that defines ``hybrid_forward`` derives from the class that converts."""
    for module in pkgutil.walk_packages(gops.__path__, "gluonops."):
        if not module.name.endswith(("__main__", ".libgluonops")) and ".export.torch" not in module.name:
            importlib.import_module(module.name)   # those of torch's room may need torch, and have no layer
    ours = {cls for cls in subclasses(gluon.HybridBlock) if cls.__module__.startswith("gluonops.")
            and not cls.__module__.startswith("gluonops.examples.")}   # a script is a user's program
    assert len(ours) > 60
    assert not {cls for cls in ours if "hybrid_forward" in vars(cls) and not issubclass(cls, EitherModeBlock)}


def test_the_centres_of_center_loss_move(numpy_mode):
    loss = gops.loss.CenterLoss(2, 3)
    loss.initialize()
    data = np.ones((4, 3))
    with autograd.record():
        values = loss(data, np.array([0, 0, 0, 1]))
    values.backward()
    loss.update()
    onp.testing.assert_allclose(loss.centers.data().copy().asnumpy(), [[0.375] * 3, [0.25] * 3], rtol=1e-6)


def test_darknet_and_torch_weights_are_loaded(numpy_mode, tmp_path):
    net = gops.models.get_model("tiny_yolov2", classes=3, width=1 / 8, head_channels=16)
    net.initialize()
    net(np.ones((1, 3, 64, 64)))
    gops.darknet.save_weights(net, tmp_path / "net.weights")
    other = gops.models.get_model("tiny_yolov2", classes=3, width=1 / 8, head_channels=16)
    gops.darknet.load_weights(other, tmp_path / "net.weights")
    onp.testing.assert_array_equal(other(np.ones((1, 3, 64, 64))).asnumpy(), net(np.ones((1, 3, 64, 64))).asnumpy())
    dense = gluon.nn.Dense(2, in_units=3)
    dense.initialize()
    gops.convert.from_torch({"weight": onp.ones((2, 3), "float32"), "bias": onp.zeros(2, "float32")}, dense)
    onp.testing.assert_array_equal(dense(np.ones((1, 3))).asnumpy(), [[3, 3]])


def test_the_parts_of_a_detectors_loss(numpy_mode):
    loss = gops.loss.RegionLoss([1.0, 1.0, 2.0, 2.0], 3)
    loss.initialize()
    loss.set_seen(5)
    loss(np.zeros((2, 16, 3, 3)), np.array(TRUTH))
    assert float(loss.report()["truths"].asnumpy()[0]) == 2


def test_a_detector_takes_a_numpy_image(numpy_mode):
    net = gops.models.get_model("tiny_yolov2", classes=3, width=1 / 8, head_channels=16)
    net.initialize()
    ids, scores, boxes = net.detect(np.ones((1, 3, 64, 64)), threshold=0.01)
    assert {type(ids), type(scores), type(boxes)} == {np.ndarray} and boxes.shape[2] == 4


def test_the_cosines_of_arcface(numpy_mode):
    head = gops.nn.ArcFaceHead(3, 5)
    head.initialize()
    cosines = head.cosines(np.ones((2, 5)))
    assert type(cosines) is np.ndarray and cosines.shape == (2, 3)


def test_numpy_mode_may_be_set_before_the_import():
    code = f"""{fresh.WITHOUT_GLUONOPS}
from mxnet import np, npx
npx.set_np()
import gluonops as gops
with gops.backend("custom"):
    print(gops.ops.mish(np.ones((0, 3))).shape, float(gops.ops.abs(np.array(-2.0))))
"""
    done = fresh.python("-c", code)
    assert done.stdout == "(0, 3) 2.0\n", done.stderr


def test_a_loss_of_integer_labels(numpy_mode):
    loss = gops.loss.SoftmaxCELoss()
    values = loss(np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]), np.array([2, 0], dtype="int32"))
    onp.testing.assert_allclose(values.asnumpy(), [0.407606, 1.098612], rtol=1e-5)


def test_a_legacy_array_given_to_a_numpy_net_is_named(numpy_mode):
    net = gops.nn.SqueezeExcite(8)
    net.initialize()
    with pytest.raises(gops.OpError, match=r"input 0 is a legacy array .*Convert it with .as_np_ndarray\(\)"):
        net(mx.nd.ones(IMAGES))


def test_a_users_net_of_both_kinds_of_layers_learns(numpy_mode):
    """A net of MXNet's layers and ours, written for NumPy mode, trains with a Trainer."""
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(8, 3, padding=1), gops.nn.GroupNorm(4), gops.nn.Mish(), gops.nn.SqueezeExcite(8),
            gluon.nn.GlobalAvgPool2D(), gluon.nn.Dense(2))
    mx.random.seed(1)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    loss = gops.loss.SoftmaxCELoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02})
    rng = onp.random.RandomState(0)
    images = rng.randn(16, 3, 8, 8).astype("float32")
    labels = rng.randint(0, 2, 16)
    images[labels == 1, 0] += 2
    data, label = np.array(images), np.array(labels)
    losses = []
    for _ in range(15):
        with autograd.record():
            value = loss(net(data), label)
        value.backward()
        trainer.step(16)
        losses.append(float(value.mean()))
    assert losses[-1] < losses[0] / 2
