"""gops.export.onnx: layers, models and nets of others in onnxruntime; what the file holds, and what is refused."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import onnx
import onnx_oracle
import pytest
from in_turn import in_turn
from mxnet import gluon
from mxnet.gluon import nn

QUIET = """
import sys
import onnxruntime
for path in sys.argv[1:]:
    onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
"""


def pixels(rng, shape):
    return rng.uniform(0, 1, shape).astype(np.float32)


LAYERS = [gops.nn.Abs(), gops.nn.Tile(3), gops.nn.Tile((2, 1, 3)), gops.nn.Tile(2, axis=1), gops.nn.Softmax(),
          gops.nn.Softmax(axis=1, temperature=0.7), gops.nn.Mish(), gops.nn.Swish(), gops.nn.Swish(2.5),
          gops.nn.HardSwish(), gops.nn.GELU(), gops.nn.GELU("tanh"), gops.nn.SwiGLU(), gops.nn.SwiGLU(axis=1),
          gops.nn.RMSNorm(), gops.nn.RMSNorm(axis=2), gops.nn.L2Normalize(), gops.nn.GroupNorm(4), gops.nn.DropBlock(),
          gops.nn.BlurPool(8, 3), gops.nn.SPP((3, 5)), gops.nn.SqueezeExcite(8), gops.nn.PixelShuffle(2),
          gops.nn.PixelUnshuffle(2)]
LAYERS += [gops.nn.Reorg(2, mode, reverse) for mode in ("darknet", "DCR", "CRD") for reverse in (False, True)]


@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_layers(layer, tmp_path, rng):
    layer.initialize(mx.init.Uniform())
    onnx_oracle.agree(layer, tmp_path / "layer.onnx", {"data": (8, 6, 4)}, rng=rng)


MOVED = ["Reshape", "Transpose", "Reshape"]


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("mode, reverse, operators", [
    ("darknet", False, MOVED), ("DCR", False, ["SpaceToDepth"]), ("CRD", False, MOVED),
    ("darknet", True, ["DepthToSpace"]), ("DCR", True, ["DepthToSpace"]), ("CRD", True, ["DepthToSpace"])])
def test_reorg_is_one_operator(mode, reverse, operators, dtype, tmp_path, rng):
    """It is where ONNX has it; onnxruntime has it for floating-point numbers only."""
    net = gops.nn.Reorg(2, mode, reverse)
    inputs = {"data": ((8, 6, 4), lambda rng, shape: rng.randint(-9, 9, shape).astype(dtype))}
    onnx_oracle.agree(net, tmp_path / "net.onnx", inputs, rng=rng, dtype=dtype)
    assert onnx_oracle.operators(tmp_path / "net.onnx") == (operators if dtype == "float32" else MOVED)


@pytest.mark.parametrize("make, operator, opset", [
    (lambda: gops.nn.Mish(), "Mish", 18), (lambda: gops.nn.GELU(), "Gelu", 20),
    (lambda: gops.nn.GELU("tanh"), "Gelu", 20), (lambda: gops.nn.GroupNorm(4), "GroupNormalization", 21),
    (lambda: nn.GELU(), "Gelu", 20), (lambda: nn.GroupNorm(4), "GroupNormalization", 21),
    (lambda: nn.LayerNorm(), "LayerNormalization", 17)],
    ids=["mish", "gelu", "gelu_tanh", "group_norm", "mxnets_gelu", "mxnets_group_norm", "mxnets_layer_norm"])
def test_one_operator(make, operator, opset, tmp_path, rng):
    """It is one from the opset on that has it."""
    net = make()
    net.initialize()
    net(mx.nd.zeros((1, 8, 6, 4)))
    for parameter in net.collect_params().values():
        parameter.set_data(mx.nd.array(rng.uniform(0.5, 2, parameter.shape)))
    for version, is_one in ((opset - 1, False), (opset, True), (21, True)):
        onnx_oracle.agree(net, tmp_path / "net.onnx", {"data": (8, 6, 4)}, rng=rng, opset=version)
        assert (onnx_oracle.operators(tmp_path / "net.onnx") == [operator]) == is_one


def corners(rng, shape):
    low = rng.uniform(0, 1, (*shape[:-1], 2))
    return np.concatenate([low, low + rng.uniform(0.1, 1, low.shape)], axis=-1).astype(np.float32)


@pytest.mark.parametrize("box_format, make", [("corner", corners), ("center", pixels)])
def test_box_iou(box_format, make, tmp_path, rng):
    inputs = {"lhs": ((3, 4), make), "rhs": ((5, 4), make)}
    onnx_oracle.agree(gops.nn.BoxIoU(box_format), tmp_path / "net.onnx", inputs, rng=rng)


MODELS = {"mlp": (1, 28, 28), "lenet_reorg": (1, 28, 28), "darknet19": (3, 64, 64), "tiny_yolov2": (3, 96, 96),
          "yolov2": (3, 64, 64), "yolov3": (3, 64, 64), "tiny_yolov3": (3, 64, 64), "yolov4": (3, 64, 64),
          "tiny_yolov4": (3, 64, 64)}
MULTISCALE = ("yolov3", "tiny_yolov3", "yolov4", "tiny_yolov4")


def model(name, **options):
    if "yolo" in name:
        options["classes"] = ["cat", "dog", "cow"]
    net = gops.models.get_model(name, **options)
    net.initialize(mx.init.Xavier())
    if "yolo" in name:   # scores differ, so the order of the boxes is fixed
        outputs = net(mx.nd.random.uniform(shape=(1, *MODELS[name])))
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        for (block, _), output in zip(net._outputs(), outputs):
            weight = block.output.conv.weight
            weight.set_data(weight.data() * (1.5 / output.asnumpy().std()))
    return net


def narrow(name):
    """The options of a net of fewer channels and the same layers, where there are such."""
    return {"width": 1 / 8, "head_channels": 32} if name == "tiny_yolov2" else {}


# test_detectors has the small detector every day.
@pytest.mark.parametrize("name", ["mlp", "lenet_reorg", *(pytest.param(name, marks=pytest.mark.slow) for name in (
    "darknet19", "tiny_yolov2", "yolov2"))])
def test_models(name, tmp_path, rng):
    net = model(name, **narrow(name))
    onnx_oracle.agree(net, tmp_path / "net.onnx", {"data": (MODELS[name], pixels)}, batches=(2, 1), rng=rng)


@pytest.mark.parametrize("name", ["tiny_yolov2", pytest.param("yolov2", marks=pytest.mark.slow)])
def test_detectors(name, tmp_path, rng):
    """Ids, scores and boxes behind non-maximum suppression agree, row for row."""
    detector = model(name, **narrow(name)).detector(threshold=0.1, topk=50)
    found = onnx_oracle.agree(detector, tmp_path / "net.onnx", {"data": (MODELS[name], pixels)}, batches=(2, 1),
                              rng=rng)
    noted = {prop.key: json.loads(prop.value) for prop in found.metadata_props if prop.key not in ("dtype", "task")}
    assert noted["classes"] == ["cat", "dog", "cow"] and np.shape(noted["anchors"]) == (5, 2)
    assert noted["inputs"] == {"data": [2, *MODELS[name]]} and noted["preprocessing"]["colours"] == "RGB"
    assert noted["anchors"][0][0] in (1.08, 1.3221)


# YOLOv4 has all layers of YOLOv3, and as many maps.
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "yolov3"))
                                  for name in MULTISCALE])
def test_detectors_of_several_maps(name, tmp_path, rng):
    """The nets are narrow, and their layers are those of the wide ones."""
    detector = model(name, width=1 / 16).detector(threshold=0.1, topk=20)
    found = onnx_oracle.agree(detector, tmp_path / "net.onnx", {"data": (MODELS[name], pixels)}, batches=(2,), rng=rng)
    noted = {prop.key: json.loads(prop.value) for prop in found.metadata_props if prop.key not in ("dtype", "task")}
    assert noted["preprocessing"]["resize"] == ("stretch" if "v4" in name else "letterbox")
    assert np.shape(noted["anchors"]) == (6 if "tiny" in name else 9, 2)


def test_a_classifier_carries_its_names(tmp_path):
    names = ["cat", "dog", "cow"]
    net = gops.models.darknet19(classes=names)
    net.initialize(mx.init.Zero())   # twenty million random numbers would not change the names
    gops.export.onnx(net, tmp_path / "net.onnx", (1, 3, 32, 32))
    noted = {prop.key: prop.value for prop in onnx.load(tmp_path / "net.onnx").metadata_props}
    assert json.loads(noted["classes"]) == names


def small_resnet(classes):
    """A unit of each stage of resnet18_v2, with fewer channels."""
    vision = gluon.model_zoo.vision
    return vision.ResNetV2(vision.BasicBlockV2, [1] * 4, [8, 8, 16, 24, 32], classes=classes)


@pytest.mark.parametrize("make", [small_resnet, gluon.model_zoo.vision.mobilenet_v2_0_25],
                         ids=["resnet", "mobilenetv2_0.25"])
def test_model_zoo(make, tmp_path, rng):
    net = make(classes=7)
    net.initialize(mx.init.Xavier())
    with mx.autograd.record():
        net(mx.nd.array(rng.randn(2, 3, 64, 64)))
    onnx_oracle.agree(net, tmp_path / "net.onnx", {"data": (3, 64, 64)}, batches=(2, 1), rng=rng, fold_batch_norm=True)


def test_a_net_that_mixes_gluoncv_with_ours(tmp_path, rng):
    gluoncv = onnx_oracle.gluoncv()
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(gluoncv.model_zoo.get_model("cifar_resnet20_v1").features[:4], gops.nn.Reorg(2), nn.Conv2D(8, 1),
                nn.GlobalAvgPool2D(), gops.nn.Abs(), nn.Dense(5), gops.nn.Softmax())
    net.initialize()
    onnx_oracle.agree(net, tmp_path / "net.onnx", {"data": (3, 16, 16)}, batches=(2, 3), rng=rng)


@pytest.mark.slow   # test_gluoncv_zoo.py has the same on a smaller backbone every day
def test_yolo3_of_gluoncv(tmp_path, rng):
    gluoncv = onnx_oracle.gluoncv()
    net = gluoncv.model_zoo.get_model("yolo3_mobilenet1.0_custom", classes=["a", "b"], pretrained_base=False)
    net.initialize()
    onnx_oracle.agree(net, tmp_path / "net.onnx", {"data": ((3, 64, 64), pixels)}, batches=(2, 1), rng=rng)


def test_onnxruntime_has_no_complaint(tmp_path):
    """It warns on stderr about unused and overridable initializers and wrong shapes."""
    detector = model("tiny_yolov2", **narrow("tiny_yolov2")).detector()
    nets = {"lenet_reorg": model("lenet_reorg"), "tiny_yolov2": detector}
    paths = [gops.export.onnx(net, tmp_path / f"{name}.onnx", (1, *MODELS[name])) for name, net in nets.items()]
    done = subprocess.run([sys.executable, "-c", QUIET, *paths], capture_output=True, text=True, check=True)
    assert done.stderr == "" and done.stdout == ""
    for path in paths:
        graph = onnx.load(path).graph
        assert not {value.name for value in graph.input} & {value.name for value in graph.initializer}
        read = {name for node in graph.node for name in node.input}
        assert {value.name for value in graph.initializer} <= read


@pytest.mark.parametrize("backend", ["builtin", "custom", "native"])
def test_from_files(backend, tmp_path, rng):
    """Parameters, shape and facts come from the files of any backend."""
    net = model("lenet_reorg")
    gops.export.symbol(net, tmp_path / "net", (2, 1, 28, 28), backend=backend)
    gops.export.onnx(tmp_path / "net", tmp_path / "files.onnx")
    gops.export.onnx(net, tmp_path / "net.onnx", (2, 1, 28, 28))
    files, direct = (onnx.load(str(tmp_path / name)) for name in ("files.onnx", "net.onnx"))
    if backend != "builtin":   # these files have MXNet's operators only
        assert files.SerializeToString() == direct.SerializeToString()
    images = rng.uniform(-1, 1, (3, 1, 28, 28)).astype(np.float32)
    expected, = onnx_oracle.outputs_of(net, images)
    found, = onnx_oracle.session(tmp_path / "files.onnx").run(None, {"data": images})
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


OLDER_NAMES = {"elemwise_add": "_Plus", "elemwise_sub": "_Minus", "elemwise_mul": "_Mul", "elemwise_div": "_Div",
               "_maximum": "_Maximum", "_minimum": "_Minimum", "_power": "_Power", "_plus_scalar": "_PlusScalar",
               "_minus_scalar": "_MinusScalar", "_rminus_scalar": "_RMinusScalar", "_mul_scalar": "_MulScalar",
               "_div_scalar": "_DivScalar", "_rdiv_scalar": "_RDivScalar", "_power_scalar": "_PowerScalar",
               "_rpower_scalar": "_RPowerScalar", "_maximum_scalar": "_MaximumScalar",
               "_minimum_scalar": "_MinimumScalar", "_greater": "_Greater", "add_n": "ElementWiseSum",
               "_copy": "identity", "Flatten": "flatten"}


def test_from_files_with_older_names(tmp_path, rng):
    """Aliases, as other versions of MXNet have written them, are converted like their operators."""
    x = mx.sym.Flatten(mx.sym.exp(mx.sym.var("data")))
    y = mx.sym.maximum(1 - (x + 2) * 3, mx.sym.minimum(x / 2 - 1, 1 / x))
    y = mx.sym.maximum(mx.sym.minimum(y, 5), 0.25)
    z = mx.sym.identity((x + y) * x - y / x)
    z = mx.sym.add_n(z, x ** y, x ** 0.5, mx.sym.pow(2, y), x > y)
    net = gluon.SymbolBlock(z, mx.sym.var("data"))
    path, _ = gops.export.symbol(net, tmp_path / "net", (2, 3, 4))
    text = pathlib.Path(path).read_text()
    for name, alias in OLDER_NAMES.items():
        assert f'"op": "{name}"' in text
        text = text.replace(f'"op": "{name}"', f'"op": "{alias}"')
    (tmp_path / "older-symbol.json").write_text(text)
    shutil.copy(tmp_path / "net-0000.params", tmp_path / "older-0000.params")
    gops.export.onnx(tmp_path / "older", tmp_path / "older.onnx")
    onnx_oracle.agree(net, tmp_path / "net.onnx", {"data": (3, 4)}, rng=rng)
    assert (tmp_path / "older.onnx").read_bytes() == (tmp_path / "net.onnx").read_bytes()


class TwoInputs(gluon.HybridBlock):
    def hybrid_forward(self, F, image, scale):
        return F.broadcast_mul(image, F.reshape(scale, (-1, 1, 1, 1))), (image + 1, image)


class Assorted(gluon.HybridBlock):
    """Layers whose operators differ between the opsets."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.conv, self.norm = nn.Conv2D(6, 3), nn.BatchNorm()
            self.groups, self.layers = nn.GroupNorm(3), nn.LayerNorm()

    def hybrid_forward(self, F, data):
        data = self.groups(self.norm(self.conv(data)))
        left, right = F.split(data, num_outputs=2, axis=1)
        right = right.slice_axis(axis=2, begin=0, end=4).slice_axis(axis=3, begin=0, end=4)
        data = F.concat(F.pad(left, mode="edge", pad_width=(0, 0, 0, 0, 1, 1, 1, 1)),
                        F.UpSampling(right, scale=2, sample_type="nearest"))
        return self.layers(data).clip(-1, 1), F.max(data, axis=1), F.sum(data), F.mean(data, axis=(2, 3)), F.norm(
            data, axis=1)


@pytest.mark.parametrize("opset", range(13, 22))
def test_opsets(opset, tmp_path, rng):
    net = Assorted()
    net.initialize()
    model = onnx_oracle.agree(net, tmp_path / "net.onnx", {"data": (3, 8, 8)}, rng=rng, batches=(2,), opset=opset)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", opset)]


@pytest.mark.parametrize("opset", [13, 21])
def test_opsets_of_a_detector(opset, tmp_path, rng):
    net = gops.models.tiny_yolov2(classes=2, head_channels=4, width=1 / 8)
    net.initialize(mx.init.Xavier(magnitude=3))
    model = onnx_oracle.agree(net.detector(0.1, topk=20), tmp_path / "net.onnx", {"data": ((3, 64, 64), pixels)},
                              rng=rng, opset=opset)
    assert "GatherND" not in {node.op_type for node in model.graph.node}   # few programs read batch_dims


@pytest.mark.parametrize("opset", [12, 22, "17", 17.0, True])
def test_an_opset_that_there_is_not(opset, tmp_path):
    with pytest.raises(gops.OpError, match=f"opset is {opset!r}; expected 13 to 21. Choose the newest that"):
        gops.export.onnx(gops.nn.Abs(), tmp_path / "net.onnx", (1, 4), opset=opset)


def test_several_inputs_and_nested_outputs(tmp_path, rng):
    found = onnx_oracle.agree(TwoInputs(), tmp_path / "net.onnx", {"image": (3, 4, 4), "scale": (1,)}, rng=rng)
    assert len(found.graph.output) == 3
    assert found.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_a_fixed_batch(tmp_path, rng):
    """A reshape that holds the batch size exports for that one, and says so."""
    net = nn.HybridLambda(lambda F, x: F.reshape(x, (2, -1)) * 2)
    onnx_oracle.agree(net, tmp_path / "net.onnx", {"data": (3, 4)}, batches=(2,), rng=rng)
    os.remove(tmp_path / "net.onnx")
    net = nn.HybridLambda(lambda F, x: F.reshape(x, (2, -1)) + F.reshape(x, (-1, 12)))
    with pytest.raises(gops.OpError, match="the net does not take any batch size: .* dynamic_batch=False"):
        gops.export.onnx(net, tmp_path / "net.onnx", (2, 3, 4), dynamic_batch=True)
    assert os.listdir(tmp_path) == []
    with pytest.warns(gops.export.ExportWarning, match="the file takes a batch of 2 only: the net does not take any"):
        path = gops.export.onnx(net, tmp_path / "net.onnx", (2, 3, 4))
    assert onnx.load(path).graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2


def test_a_loss_head_becomes_its_prediction(tmp_path, rng):
    data, weight = mx.sym.var("data"), mx.sym.var("w", shape=(3, 5))
    net = gluon.SymbolBlock(gops.ops.softmax_output(mx.sym.FullyConnected(data, weight, num_hidden=3, no_bias=True),
                                                    mx.sym.var("label"), name="head"), [data, mx.sym.var("label")])
    net.initialize()
    with pytest.warns(gops.export.ExportWarning, match="without the loss head 'head', the input 'label'"):
        path = gops.export.onnx(net, tmp_path / "net.onnx", {"data": (2, 5), "label": (2,)})
    assert [value.name for value in onnx.load(path).graph.input] == ["data"]
    assert onnx_oracle.operators(path)[:2] == ["Gemm", "Softmax"]


def test_the_shape_of_a_label_need_not_be_known(tmp_path, rng):
    """MXNet refuses to infer shapes without it, in a symbol that trains an SSD."""
    scores = mx.sym.Reshape(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="fc"), shape=(0, 2, 2))
    target = mx.sym.contrib.MultiBoxTarget(mx.sym.var("anchors"), mx.sym.var("label"), scores)
    mx.sym.Group([mx.sym.softmax(scores, axis=1, name="prob"), mx.sym.MakeLoss(target[0])]).save(
        str(tmp_path / "net-symbol.json"))
    shapes = {"fc_weight": (4, 3), "fc_bias": (4,), "anchors": (1, 2, 4)}
    mx.nd.save(str(tmp_path / "net-0000.params"), {f"arg:{name}": mx.nd.ones(shape) for name, shape in shapes.items()})
    with pytest.warns(gops.export.ExportWarning, match="without the output .* a loss .* the input 'label'"):
        path = gops.export.onnx(tmp_path / "net", tmp_path / "net.onnx", (2, 3))
    assert [value.name for value in onnx.load(path).graph.output] == ["prob_output"]


def test_metadata(tmp_path):
    """It is whatever JSON can store; what it says of the type is not taken for the type."""
    path = gops.export.onnx(gops.nn.Abs(), tmp_path / "net.onnx", (2, 3), metadata={"dtype": "fp32", "mean": [0.5, 1]})
    noted = {prop.key: prop.value for prop in onnx.load(path).metadata_props}
    assert (noted["dtype"], noted["mean"]) == ("fp32", "[0.5, 1]")


@in_turn("options, text", [
    ({"metadata": {"x": np.float32(1)}}, "metadata is {'x': .*}; expected a dict of what JSON can store"),
    ({"metadata": {1: "x"}}, "metadata is {1: 'x'}; expected a dict"),
    ({"metadata": ["x"]}, r"metadata is \['x'\]; expected a dict"),
    ({"dtype": "float33"}, "dtype is 'float33'; expected a type such as 'float32'"),
])
@in_turn("files", [True, False])
def test_options(files, options, text, tmp_path):
    net = gops.nn.Abs()
    if files:
        gops.export.symbol(net, tmp_path / "net", (2, 3))
    with pytest.raises(gops.OpError, match=text):
        gops.export.onnx(tmp_path / "net" if files else net, tmp_path / "net.onnx", (2, 3), **options)
    assert not (tmp_path / "net.onnx").exists()


@in_turn("make, shapes, text", [
    (gops.loss.SoftmaxCELoss, (2, 3), "SoftmaxCELoss is a loss; expected a net that predicts"),
    (lambda: nn.HybridLambda(lambda F, x, label: gops.ops.softmax_cross_entropy(x, label)),
     {"data": (2, 3), "label": (2,)}, "every output is a loss (softmax_cross_entropy)"),
    (lambda: nn.HybridLambda(lambda F, x, truth: gops.ops.iou_loss(x, truth)), {"data": (2, 4), "truth": (2, 4)},
     "every output is a loss (iou_loss)"),
    (lambda: nn.HybridLambda(lambda F, x, truth: gops.ops.yolo_loss(x, truth, anchors=(1, 2), classes=1)),
     {"data": (2, 6, 3, 3), "truth": (2, 4, 5)}, "every output is a loss (yolo_loss)"),
    (lambda: nn.HybridLambda(lambda F, x: F.make_loss(x)), (2, 3), "every output is a loss (make_loss)"),
    (lambda: nn.HybridLambda(lambda F, x: F.gammaln(x)), (2, 3),
     "is the operator gammaln, which has no converter to ONNX. Replace it in the net, or export symbol JSON"),
    (lambda: nn.HybridLambda(lambda F, x: F.topk(x, ret_typ="mask")), (2, 3),
     "(topk) cannot be exported to ONNX: it has ret_typ mask"),
    (lambda: nn.HybridLambda(lambda F, x: F.Dropout(x, mode="always")), (2, 3), "drops numbers at inference, too"),
    (lambda: nn.HybridLambda(lambda F, x: F.random.shuffle(x)), (2, 3), "operator _shuffle, which has no converter"),
    (gops.nn.SoftmaxOutput, (2, 3), "takes the inputs data, label, and data_shape has 1 shape"),
    (gops.nn.Abs, None, "data_shape is missing"),
    (gops.nn.Abs, (2, "3"), "the shape of data is (2, '3'); expected a tuple of sizes"),
])
def test_refusals(make, shapes, text, tmp_path):
    with pytest.raises(gops.OpError) as caught:
        gops.export.onnx(make(), tmp_path / "net.onnx", shapes)
    assert text in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_without_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(gops.OpError, match=r"onnx is not installed. Run: pip install 'gluonops\[onnx\]'"):
        gops.export.onnx(gops.nn.Abs(), tmp_path / "net.onnx", (1, 2))


def unit(data, channels, stride, name):
    """A unit of insightface's ResNet for faces: batch norms around the convolutions, and PReLU."""
    def norm(x, part):
        return mx.sym.BatchNorm(x, fix_gamma=False, eps=2e-5, momentum=0.9, name=f"{name}_{part}")

    def convolution(x, part, kernel, stride=1):
        return mx.sym.Convolution(x, num_filter=channels, kernel=(kernel, kernel), stride=(stride, stride),
                                  pad=(kernel // 2, kernel // 2), no_bias=True, name=f"{name}_{part}")

    x = norm(convolution(norm(data, "bn1"), "conv1", 3), "bn2")
    x = mx.sym.LeakyReLU(x, act_type="prelu", name=f"{name}_relu1")
    x = norm(convolution(x, "conv2", 3, stride), "bn3")
    return x + norm(convolution(data, "conv1sc", 1, stride), "sc")


@pytest.mark.parametrize("fold", [False, True])
def test_a_net_for_faces(fold, tmp_path, rng):
    """In insightface's LResNet-IR, pixels are scaled in the graph, and fc1 is a batch norm of fixed gamma."""
    data = mx.sym.var("data")
    x = (mx.sym.identity(data) - 127.5) * 0.0078125
    x = mx.sym.Convolution(x, num_filter=8, kernel=(3, 3), pad=(1, 1), no_bias=True, name="conv0")
    x = mx.sym.LeakyReLU(mx.sym.BatchNorm(x, fix_gamma=False, eps=2e-5, name="bn0"), act_type="prelu", name="relu0")
    x = unit(unit(x, 8, 2, "stage1"), 16, 2, "stage2")
    x = mx.sym.Dropout(mx.sym.BatchNorm(x, fix_gamma=False, eps=2e-5, name="bn1"), p=0.4)
    x = mx.sym.FullyConnected(x, num_hidden=12, name="pre_fc1")
    x = mx.sym.L2Normalization(mx.sym.BatchNorm(x, fix_gamma=True, eps=2e-5, name="fc1"))
    net = gluon.SymbolBlock(x, data)
    net.initialize(mx.init.Uniform(0.5))
    net(mx.nd.zeros((1, 3, 16, 16)))
    for parameter in net.collect_params().values():
        parameter.set_data(mx.nd.array(rng.uniform(0.1, 1, parameter.shape)))
    onnx_oracle.agree(net, tmp_path / "net.onnx", {"data": ((3, 16, 16), lambda rng, shape: 255 * pixels(rng, shape))},
                      batches=(2, 1, 3), rng=rng, fold_batch_norm=fold)
