"""Losses as torch code: the export compares outputs, gradients and training with MXNet's, in float64."""
import pathlib
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.commands import cli
from mxnet import gluon
from mxnet.gluon import nn

sys.path.append(str(pathlib.Path(__file__).parent))
torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
import scripted  # noqa: E402
import steps  # noqa: E402

ops = gops.ops


ANCHORS, BOXES = (1, 1, 2, 3), (2, 3, 5)


class Net(nn.HybridBlock):
    """A dense layer, or a convolution of images, and a loss."""

    def __init__(self, loss, shape, outputs):
        super().__init__()
        with self.name_scope():
            self.layer = nn.Dense(outputs) if len(shape) == 2 else nn.Conv2D(outputs, 1)
            self.loss = loss

    def hybrid_forward(self, F, data, label):
        return self.loss(F, self.layer(data), label)


class Centers(nn.HybridBlock):
    def __init__(self):
        super().__init__()
        self.centers = self.params.get("centers", shape=(3, 4), init=mx.init.Normal(1))

    def hybrid_forward(self, F, data, label, centers):
        return ops.center_loss(data, label, centers)


def rows(function, outputs=4, label=(5,)):
    """A case: the loss, the outputs of the layer in front of it, the shapes of the data and the label."""
    return function, outputs, (5, 3), label


def maps(function, outputs=4, label=(2, 6, 6)):
    return function, outputs, (2, 3, 6, 6), label


CASES = {
    "cross_entropy": rows(lambda F, x, label: ops.softmax_cross_entropy(x, label)),
    "cross_entropy_of_maps": maps(lambda F, x, label: ops.softmax_cross_entropy(
        x, label, axis=1, ignore_label=1, smoothing=0.1, class_weight=(1, 2, 3, 0.5))),
    "cross_entropy_with_axis": rows(lambda F, x, label: ops.softmax_cross_entropy(x, label), label=(5, 1)),
    "cross_entropy_dense": rows(lambda F, x, label: ops.softmax_cross_entropy(
        x, label, sparse_label=False, smoothing=0.2, class_weight=(2,)), label=(5, 4)),
    "focal": maps(lambda F, x, label: ops.softmax_focal_loss(
        x, label, axis=1, gamma=1.5, alpha=(1, 2, 3, 4), ignore_label=1)),
    "focal_of_rows": rows(lambda F, x, label: ops.softmax_focal_loss(x, label, gamma=0.5)),
    "sigmoid": maps(lambda F, x, label: ops.sigmoid_cross_entropy(
        x, label, axis=1, pos_weight=(1, 2, 3, 4), ignore_label=1), label=(2, 4, 6, 6)),
    "sigmoid_focal": rows(lambda F, x, label: ops.sigmoid_focal_loss(x, label), label=(5, 4)),
    "sigmoid_focal_without_weights": rows(lambda F, x, label: ops.sigmoid_focal_loss(
        x, label, alpha=-1, gamma=0.5, ignore_label=0), label=(5, 4)),
    "sigmoid_focal_of_large_labels": rows(lambda F, x, label: ops.sigmoid_focal_loss(
        x, label * 255, gamma=1.5, ignore_label=255), label=(5, 4)),
    "arcface": rows(lambda F, x, label: ops.margin_softmax_cross_entropy(F.tanh(x), label, scale=8)),
    "cosface": rows(lambda F, x, label: ops.margin_softmax_cross_entropy(
        F.tanh(x), label, scale=8, m2=0, m3=0.3, ignore_label=1, class_weight=(1, 2, 3, 4))),
    "sphereface": rows(lambda F, x, label: ops.margin_softmax_cross_entropy(F.tanh(x), label, scale=8, m1=2.5, m2=0.1)),
    "easy_margin": rows(lambda F, x, label: ops.margin_softmax_cross_entropy(
        F.tanh(x), label, scale=8, easy_margin=True)),
    "distillation": rows(lambda F, x, label: ops.distillation_loss(x, label, temperature=3), label=(5, 4)),
    "dice": maps(lambda F, x, label: ops.dice_loss(x, label)),
    "dice_of_rows": rows(lambda F, x, label: ops.dice_loss(x, label, ignore_label=1, squared=False, smooth=0.5)),
    "lovasz": maps(lambda F, x, label: ops.lovasz_softmax(x, label)),
    "lovasz_per_sample": maps(lambda F, x, label: ops.lovasz_softmax(
        x, label, per_sample=True, present_only=False, ignore_label=1, class_weight=(1, 2, 3, 4))),
    "ohem": maps(lambda F, x, label: ops.ohem(ops.softmax_cross_entropy(x, label, axis=1))),
    "ohem_per_sample": maps(lambda F, x, label: ops.ohem(
        ops.softmax_cross_entropy(x, label, axis=1), keep=3, per_sample=True)),
    "ohem_with_threshold": maps(lambda F, x, label: ops.ohem(
        ops.softmax_cross_entropy(x, label, axis=1), keep=1, threshold=1.5)),
    **{f"{kind}_loss": rows(lambda F, x, label, kind=kind: ops.iou_loss(
        F.concat(x, x + F.exp(x), dim=1), F.concat(label, label + 0.7, dim=1), kind=kind), 2, (5, 2))
       for kind in ("iou", "giou", "diou", "ciou")},
    "iou_of_centres": rows(lambda F, x, label: ops.iou_loss(
        F.exp(x), label + 0.4, kind="ciou", format="center"), label=(5, 4)),
    "ciou_of_exchanged_corners": rows(lambda F, x, label: ops.iou_loss(
        x, F.concat(label, label + 0.7, dim=1), kind="ciou"), label=(5, 2)),
    "softmax_output": maps(lambda F, x, label: ops.softmax_output(x, label, axis=1, normalization="batch")),
    "softmax_output_valid": maps(lambda F, x, label: ops.softmax_output(
        x, label, axis=1, normalization="valid", ignore_label=1, grad_scale=0.3)),
    "SoftmaxOutput": rows(lambda F, x, label: F.SoftmaxOutput(x, label, grad_scale=0.3)),
    "SoftmaxOutput_batch": rows(lambda F, x, label: F.SoftmaxOutput(x, label, normalization="batch")),
    "SoftmaxOutput_valid": maps(lambda F, x, label: F.SoftmaxOutput(
        x, label, normalization="valid", use_ignore=True, ignore_label=1, multi_output=True)),
    "SoftmaxOutput_of_maps": maps(lambda F, x, label: F.SoftmaxOutput(x, label, multi_output=True)),
    "SoftmaxOutput_dense": rows(lambda F, x, label: F.SoftmaxOutput(x, label), label=(5, 4)),
    "LinearRegressionOutput": rows(lambda F, x, label: F.LinearRegressionOutput(x, label), 3, (5, 3)),
    "LogisticRegressionOutput": rows(lambda F, x, label: F.LogisticRegressionOutput(x, label, grad_scale=2),
                                     3, (5, 3)),
    "MAERegressionOutput": rows(lambda F, x, label: F.MAERegressionOutput(x, label), 1, (5,)),
    "SVMOutput": rows(lambda F, x, label: F.SVMOutput(x, label, margin=0.5)),
    "SVMOutput_linear": rows(lambda F, x, label: F.SVMOutput(
        x, label, use_linear=True, regularization_coefficient=0.7)),
    "MakeLoss": rows(lambda F, x, label: F.MakeLoss(
        F.square(x - label), grad_scale=0.5, normalization="batch"), label=(5, 4)),
    "MakeLoss_valid": rows(lambda F, x, label: F.MakeLoss(
        F.square(x - label), normalization="valid", valid_thresh=0.3), label=(5, 4)),
    "two_heads": rows(lambda F, x, label: [F.BlockGrad(x), F.make_loss(F.abs(x)), F.softmax_cross_entropy(x, label)]),
    "region_loss": maps(lambda F, x, label: ops.region_loss(x, label, anchors=ANCHORS, classes=3), 16, BOXES),
    "region_loss_in_warmup": maps(lambda F, x, label: ops.region_loss(
        x, label, F.ones((1,)), anchors=ANCHORS, classes=3, rescore=False, thresh=0.1, object_scale=2, noobject_scale=3,
        coord_scale=0.5, class_scale=4), 16, BOXES),
    "region_loss_of_sigmoids": maps(lambda F, x, label: ops.region_loss(
        x, label, anchors=ANCHORS, classes=3, softmax=False, bias_match=False), 16, BOXES),
    "region_loss_of_one_class": maps(lambda F, x, label: ops.region_loss(
        x, label, anchors=ANCHORS, classes=1, rescore=False, bias_match=False), 12, BOXES),
    "yolo_loss": maps(lambda F, x, label: ops.yolo_loss(
        x, label, anchors=ANCHORS, classes=3, ignore_thresh=0.1), 16, BOXES),
    "yolo_loss_of_several_heads": maps(lambda F, x, label: ops.yolo_loss(
        x, label, anchors=ANCHORS, other_anchors=(3, 3, 4, 2), classes=3), 16, (2, 30, 5)),
    "yolo_loss_ciou": maps(lambda F, x, label: ops.yolo_loss(
        x, label, anchors=ANCHORS, classes=3, dialect="alexeyab", box_loss="ciou", iou_thresh=0.2), 16, BOXES),
    "gaussian": maps(lambda F, x, label: ops.gaussian_yolo_loss(
        x, label, anchors=ANCHORS, classes=3), 24, BOXES),
    "Focal": rows(lambda F, x, label: gops.loss.FocalLoss()(x, label)),
    "OHEM": maps(lambda F, x, label: gops.loss.OHEM(gops.loss.SoftmaxCELoss(axis=1))(x, label)),
    **{type(loss).__name__: rows(lambda F, x, label, loss=loss: loss(x, label), label=label) for loss, label in (
        (gluon.loss.SoftmaxCELoss(), (5,)), (gluon.loss.SigmoidBCELoss(), (5, 4)), (gluon.loss.L2Loss(), (5, 4)),
        (gluon.loss.L1Loss(), (5, 4)), (gluon.loss.HuberLoss(), (5, 4)), (gluon.loss.HingeLoss(), (5, 4)),
        (gluon.loss.KLDivLoss(from_logits=False), (5, 4)))},
}


def export(net, folder, data, label):
    mx.random.seed(3)
    net.initialize(mx.init.Normal(0.5))
    shapes = {"data": data, "label": label}
    gops.export.torch(net, folder, shapes, training=True)
    steps.check(net, shapes, training=True)
    return (pathlib.Path(folder) / "net.py").read_text()


@pytest.mark.parametrize("name", CASES)
def test_losses(name, tmp_path):
    function, outputs, data, label = CASES[name]
    source = export(Net(function, data, outputs), tmp_path, data, label)
    assert "def forward(self, data, label)" in source
    assert max(map(len, source.splitlines())) <= 100
    scripted.check(tmp_path, torch.rand(data), torch.ones(label))


@pytest.mark.parametrize("name", ["cross_entropy", "ciou_loss", *(
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("lovasz", "ohem", "SoftmaxOutput_valid", "gaussian", "region_loss_in_warmup"))])
def test_torch_export_and_autocast_take_losses(name, tmp_path):
    from gluonops.export.torch.verify import load
    function, outputs, data, label = CASES[name]
    export(Net(function, data, outputs), tmp_path, data, label)
    net, given = load(tmp_path).load(), (torch.rand(data), torch.ones(label))
    expected = net(*given)
    free = {0: torch.export.Dim("batch", min=2)}
    exported = torch.export.export(net, given, dynamic_shapes=(free, free)).module()
    assert torch.equal(exported(*given), expected)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(net(*given).float(), expected, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("name", ["region_loss", "cross_entropy_of_maps"])
def test_labels_may_have_any_name(name, tmp_path):
    loss, outputs, data, label = CASES[name]

    class Other(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.layer = nn.Conv2D(outputs, 1)

        def hybrid_forward(self, F, data, truth):
            return loss(F, self.layer(data), truth)

    net = Other()
    net.initialize()
    gops.export.torch(net, tmp_path, {"data": data, "truth": label}, training=True)
    assert "def forward(self, data, truth):" in (tmp_path / "net.py").read_text()


def check_other_sizes(net, folder, images, labels):
    """Compare a written net with MXNet for images and labels of other sizes than the exported ones."""
    from gluonops.export.torch.verify import load
    found = load(folder).load()(torch.from_numpy(images), torch.from_numpy(labels))
    np.testing.assert_allclose(found.detach(), net(mx.nd.array(images), mx.nd.array(labels)).asnumpy(), rtol=1e-4)


def test_other_numbers_of_boxes(tmp_path, rng):
    """The loss has no function in net.py: it is that of MXNet's own operators."""
    loss, outputs, data, label = CASES["yolo_loss_ciou"]
    net = Net(loss, data, outputs)
    export(net, tmp_path, data, label)
    boxes = rng.uniform(0.1, 0.6, (2, 9, 5)).astype("float32")
    boxes[..., 4] = 1
    check_other_sizes(net, tmp_path, rng.uniform(size=(2, 3, 8, 6)).astype("float32"), boxes)


def test_other_sizes_of_labelled_pixels(tmp_path, rng):
    net = Net(lambda F, x, label: ops.softmax_cross_entropy(
        F.reshape(x, (0, 0, -1)), F.reshape(label, (0, -1)), axis=1), (2, 3, 6, 6), 4)
    export(net, tmp_path, (2, 3, 6, 6), (2, 6, 6))
    check_other_sizes(net, tmp_path, rng.uniform(size=(3, 3, 8, 7)).astype("float32"), np.ones((3, 8, 7), "float32"))


def test_center_loss_trains_the_centres(tmp_path):
    assert "center_loss(data, label, self.centers)" in export(Centers(), tmp_path, (5, 4), (5,))


@pytest.mark.parametrize("options", [{}, {"softmax": False}], ids=str)
def test_region_loss_counts_images(options, tmp_path):
    from gluonops.export.torch.verify import load

    class Detector(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.layer, self.loss = nn.Conv2D(16, 1), gops.loss.RegionLoss(ANCHORS, 3, **options)

        def hybrid_forward(self, F, data, label):
            return self.loss(self.layer(data), label)

    source = export(Detector(), tmp_path, (2, 3, 6, 6), BOXES)
    assert "FROZEN" not in source
    net = load(tmp_path).load()
    counters = [module for module in net.modules() if type(module).__name__ == "Counter"]
    for trains in (True, False, True):
        net.train(trains)(torch.rand(4, 3, 6, 6), torch.zeros(4, 3, 5))
    assert [counter.count.tolist() for counter in counters] == [[8]]


def test_training_from_files_and_the_command(tmp_path, monkeypatch):
    """A file of Module's: the shape of its label follows from that of its data."""
    monkeypatch.chdir(tmp_path)
    net = nn.Dense(4)
    net.initialize()
    gops.export.symbol(net, "net", (2, 3), "native", head="softmax_output")
    assert cli.main(["export", "net", "--torch", "port", "--training", "--data-shape", "2,3"]) == 0
    source = pathlib.Path("port/net.py").read_text()
    assert "def forward(self, data, softmax_label)" in source and "return softmax_output(" in source
    assert cli.main(["export", "net", "--torch", "port", "--data-shape", "2,3"]) == 0
    assert "label" not in pathlib.Path("port/net.py").read_text()


def test_dense_labels_with_a_normalization_are_refused(tmp_path):
    function, outputs, data, _ = rows(lambda F, x, label: F.SoftmaxOutput(x, label, normalization="batch"))
    with pytest.raises(gops.OpError, match="has dense labels with multi_output or a normalization"):
        export(Net(function, data, outputs), tmp_path, data, (5, 4))


class WithLoss(nn.HybridBlock):
    """A net of a cfg with its loss."""

    def __init__(self, loss):
        super().__init__()
        with self.name_scope():
            self.inputs, self.loss = loss.inputs, loss.loss

    def hybrid_forward(self, F, data, label):
        return self.loss(self.inputs(data), label)


CFG = """[net]
width=64
height=64
channels=3
[convolutional]
batch_normalize=1
filters=8
size=3
stride=8
pad=1
activation=leaky
[convolutional]
filters=16
size=1
stride=1
activation=linear
[yolo]
mask=0,1
anchors=5,7, 12,20, 30,30
classes=3
num=3
ignore_thresh=.5
truth_thresh=1
"""


def test_a_cfg_trains_on_with_its_loss(tmp_path):
    (tmp_path / "net.cfg").write_text(CFG)
    net = gops.darknet.load(tmp_path / "net.cfg")
    net.initialize(mx.init.Normal(0.3))
    gops.export.torch(WithLoss(net.loss()), tmp_path, {"data": (2, 3, 64, 64), "label": (2, 4, 5)}, training=True)
    source = (tmp_path / "net.py").read_text()
    assert "DarknetBatchNorm(8)" in source


@pytest.mark.filterwarnings("ignore:the net is exported for inference")
@pytest.mark.parametrize("head, target", [("SoftmaxOutput", "(2,)"), ("LinearRegressionOutput", "(2, 4)")])
def test_labels_of_loss_heads_under_any_name(head, target, tmp_path):
    """Their shapes follow from those of the data."""
    x = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="fc")
    getattr(mx.sym, head)(x, mx.sym.var("target")).save(str(tmp_path / "net-symbol.json"))
    mx.nd.save(str(tmp_path / "net-0000.params"), {"fc_weight": mx.nd.random.normal(shape=(4, 3)),
                                                   "fc_bias": mx.nd.random.normal(shape=(4,))})
    gops.export.torch(tmp_path / "net", tmp_path, (2, 3))
    assert "def forward(self, x):" in (tmp_path / "net.py").read_text()
    gops.export.torch(tmp_path / "net", tmp_path, (2, 3), training=True)
    source = (tmp_path / "net.py").read_text()
    assert "def forward(self, data, target):" in source and f"target {target}" in source


def test_data_that_are_their_own_label(tmp_path):
    data = mx.sym.var("data")
    x = mx.sym.FullyConnected(data, num_hidden=3, name="fc")
    mx.sym.LinearRegressionOutput(x, data).save(str(tmp_path / "net-symbol.json"))
    mx.nd.save(str(tmp_path / "net-0000.params"), {"fc_weight": mx.nd.random.normal(shape=(3, 3)),
                                                   "fc_bias": mx.nd.random.normal(shape=(3,))})
    gops.export.torch(tmp_path / "net", tmp_path, (2, 3), training=True)
    assert "def forward(self, x):" in (tmp_path / "net.py").read_text()


@pytest.mark.parametrize("shape", [(2, 36), (2, 1, 6, 6)])
def test_labels_of_maps_in_other_shapes(shape, tmp_path):
    x = mx.sym.Convolution(mx.sym.var("data"), num_filter=4, kernel=(1, 1), name="conv")
    loss = mx.sym.SoftmaxOutput(x, mx.sym.var("label"), multi_output=True, use_ignore=True, normalization="valid")
    loss.save(str(tmp_path / "net-symbol.json"))
    mx.nd.save(str(tmp_path / "net-0000.params"), {"conv_weight": mx.nd.random.normal(shape=(4, 3, 1, 1)),
                                                   "conv_bias": mx.nd.random.normal(shape=(4,))})
    gops.export.torch(tmp_path / "net", tmp_path, {"data": (2, 3, 6, 6), "label": shape}, training=True)
    assert ".reshape(" in (tmp_path / "net.py").read_text()
