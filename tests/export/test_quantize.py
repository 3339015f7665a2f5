"""gluonops.export.quantize: what the files hold, that they run elsewhere, how well, and what is refused."""
import json
import pathlib
import subprocess
import sys

import fresh
import gluonops as gops
import mxnet as mx
import numpy as np
import onnx
import pytest
from gluonops.commands import cli
from gluonops.export import ExportedModel
from in_turn import in_turn
from mxnet.gluon import nn
from onnx import numpy_helper

SHAPE = (3, 16, 16)
CLOSE = 0.02   # the error of Net in 8 bits is 0.015 in MXNet and 0.014 in ONNX; with one wrong layer it is above 0.05
FILES = ("net-symbol.json", "net-0000.params")


class Net(nn.HybridBlock):
    """Every kind of layer, two outputs, and a channel without weights."""

    def __init__(self):
        super().__init__(prefix="net_")
        with self.name_scope():
            self.first, self.norm = nn.Conv2D(8, 3, padding=1, use_bias=False), nn.BatchNorm()
            self.same, self.groups = nn.Conv2D(8, 3, padding=1), nn.Conv2D(8, 3, padding=1, groups=8)
            self.reorg, self.wide = gops.nn.Reorg(2), nn.Conv2D(64, 1)
            self.hidden, self.output = nn.Dense(12, activation="relu"), nn.Dense(5)

    def hybrid_forward(self, F, data):
        first = F.LeakyReLU(self.norm(self.first(data)), slope=0.1)
        second = F.Activation(self.same(first) + first, act_type="relu")
        pooled = F.Pooling(self.groups(second), kernel=(2, 2), stride=(2, 2), pool_type="max")
        merged = F.concat(pooled, self.reorg(second), dim=1)
        maps = F.relu(self.wide(merged))
        return self.output(self.hidden(maps)), maps


@pytest.fixture(scope="module")
def net():
    mx.random.seed(1)
    made = Net()
    made.initialize(mx.init.Xavier(magnitude=3))
    with mx.autograd.record():
        made(images(8))
    weight = made.wide.weight.data()
    weight[3] = 0
    made.wide.bias.set_data(mx.nd.array(np.linspace(0, 1, 64)))
    return made


def images(count, seed=0):
    return mx.nd.array(np.random.RandomState(seed).uniform(size=(count, *SHAPE)))


@pytest.fixture(scope="module")
def quantized(net, tmp_path_factory):
    """(folder with the files, the result), of both formats."""
    folder = tmp_path_factory.mktemp("int8")
    result = gops.export.quantize(net, folder / "net", images(24), onnx=folder / "net.onnx", limit=CLOSE)
    return folder, result


def outputs_of(net, data):
    return [output.asnumpy() for output in net(data)]


def error(ours, theirs):
    return max(np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(ours, theirs))


def module_outputs(prefix, data):
    module = mx.mod.Module.load(str(prefix), 0, label_names=None)
    module.bind([("data", data.shape)], for_training=False)
    module.forward(mx.io.DataBatch([data]), is_train=False)
    return [output.asnumpy() for output in module.get_outputs()]


def test_every_layer_is_int8_and_close(net, quantized):
    folder, result = quantized
    assert [layer.is_quantized for layer in result.layers] == [True] * 6
    assert all(0 < layer.error < 0.02 for layer in result.layers)
    assert result.paths == (*(str(folder / name) for name in FILES), str(folder / "net.onnx"))
    data = images(5, seed=9)
    assert error(module_outputs(folder / "net", data), outputs_of(net, data)) < CLOSE
    operators = [node["op"] for node in json.loads((folder / FILES[0]).read_text())["nodes"]]
    assert operators.count("_sg_mkldnn_conv") == 6
    assert not {"Convolution", "FullyConnected", "Custom"}.intersection(operators)


def test_outputs_keep_their_names(net, quantized, tmp_path):
    folder, _ = quantized
    gops.export.symbol(net, tmp_path / "net", (1, *SHAPE))
    assert mx.sym.load(str(folder / FILES[0])).list_outputs() == mx.sym.load(
        str(tmp_path / FILES[0])).list_outputs()


def test_weights_are_int8_per_channel(net, quantized):
    folder, _ = quantized
    values = mx.nd.load(str(folder / FILES[1]))
    for block in (net.same, net.wide, net.groups, net.hidden, net.output):
        weight = block.weight.data().copy().asnumpy()
        name = block.weight.name
        integers = values[f"arg:{name}"].asnumpy()
        assert integers.dtype == np.int8 and integers.min() >= -127
        scale = values[f"arg:{name.replace('_weight', '_fwd_scale')}"].asnumpy()
        channels = weight.reshape(len(weight), -1)
        scale = scale * 127 / 127.5   # MXNet's convolution takes the largest weight for 127.5
        expected = np.abs(channels).max(1) / 128   # 7 bits: it is a step of two
        np.testing.assert_allclose(scale, np.where(expected > 0, expected, 0.5), rtol=1e-5)
        restored = as_mxnet_rounds(integers).reshape(channels.shape) * scale[:, None]
        assert (np.abs(restored - channels) <= 1.0001 * scale[:, None]).all()


def as_mxnet_rounds(integers):
    """MXNet's convolution rounds integers * 127.5 / 127: a tie, for -127, goes to -128."""
    return np.where(integers == -127, -128, integers.astype(int))


@pytest.mark.parametrize("layer", ["net_conv1", "net_conv2", "net_dense0"])
def test_mxnet_finds_these_integers(layer, quantized):
    """Which weights oneDNN quantizes again: integers times scale, through a batch norm whose variance is exactly 1."""
    folder, _ = quantized
    values = mx.nd.load(str(folder / FILES[1]))
    integers = values[f"arg:{layer}_weight"].asnumpy()
    scale = values[f"arg:{layer}_fwd_scale"].asnumpy()
    variance = values[f"aux:{layer}_fwd_variance"].asnumpy() + np.float32(2.0 ** -10)
    assert (variance == 1).all()
    folded = integers.reshape(len(integers), -1) * (scale / np.sqrt(variance))[:, None]
    again = np.float32(127.5) / np.abs(folded).max(1)
    found = np.rint(folded * again[:, None]).clip(-128, 127)
    np.testing.assert_array_equal(found, as_mxnet_rounds(integers).reshape(found.shape))


def test_size_of_the_files(tmp_path):
    """It is a fourth, but for names and biases."""
    wide = nn.HybridSequential()
    wide.add(nn.Conv2D(64, 3, in_channels=64), nn.Flatten(), nn.Dense(100))
    wide.initialize()
    data = np.random.RandomState(0).uniform(size=(8, 64, 8, 8)).astype(np.float32)
    gops.export.symbol(wide, tmp_path / "float", (1, 64, 8, 8))
    gops.export.onnx(wide, tmp_path / "float.onnx", (1, 64, 8, 8))
    gops.export.quantize(wide, tmp_path / "net", data, onnx=tmp_path / "net.onnx", limit=1)
    for ours, theirs in (("net-0000.params", "float-0000.params"), ("net.onnx", "float.onnx")):
        assert (tmp_path / ours).stat().st_size < 0.28 * (tmp_path / theirs).stat().st_size


LOADERS = fresh.WITHOUT_GLUONOPS + """
import sys
import numpy as np
import mxnet as mx
data = mx.nd.array(np.load("data.npy"))
module = mx.mod.Module.load("net", 0, label_names=None)
module.bind([("data", data.shape)], for_training=False)
module.forward(mx.io.DataBatch([data]), is_train=False)
block = mx.gluon.SymbolBlock.imports("net-symbol.json", ["data"])
block.load_parameters("net-0000.params", cast_dtype=True)
found = [output.asnumpy() for output in module.get_outputs()]
block.hybridize(static_alloc=True, static_shape=True)
found += [output.asnumpy() for output in block(data)]
found += [output.asnumpy() for output in block(data)]
np.savez("outputs.npz", *found)
assert not any(name.startswith("gluonops") for name in sys.modules)
"""


def test_a_fresh_process_without_gluonops(net, quantized):
    folder, _ = quantized
    data = images(2, seed=5)
    np.save(folder / "data.npy", data.asnumpy())
    done = fresh.python("-c", LOADERS, cwd=folder)
    assert done.returncode == 0, done.stderr
    found = list(np.load(folder / "outputs.npz").values())
    expected = outputs_of(net, data)
    assert len(found) == 6
    for first in (0, 2, 4):
        assert error(found[first:first + 2], expected) < CLOSE


def test_onnx_is_qdq_per_channel_and_runs(net, quantized):
    folder, result = quantized
    model = onnx.load(folder / "net.onnx")
    stored = {value.name: numpy_helper.to_array(value) for value in model.graph.initializer}
    weights = {name: value for name, value in stored.items() if value.dtype == np.int8 and value.ndim > 1}
    assert len(weights) == 6
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in weights:
            assert stored[node.input[1]].shape == (len(weights[node.input[0]]),)
            assert next(item.i for item in node.attribute if item.name == "axis") == 0
    assert not any(value.dtype == np.float32 and value.ndim > 1 for value in stored.values())
    data = images(5, seed=9)
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(folder / "net.onnx"), providers=["CPUExecutionProvider"])
    assert error(session.run(None, {"data": data.asnumpy()}), outputs_of(net, data)) < CLOSE
    assert 0 < result.errors["ONNX"] < CLOSE


def test_onnxruntime_computes_it_in_integers(quantized, tmp_path):
    """Not one convolution or dense layer is left in float after its fusion."""
    folder, _ = quantized
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(str(folder / "net.onnx"), options, providers=["CPUExecutionProvider"])
    operators = [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node]
    assert operators.count("QLinearConv") == 4
    assert operators.count("QGemm") == 2
    assert not {"Conv", "Gemm", "FusedConv", "FusedGemm"}.intersection(operators)


def test_the_file_is_read_again(quantized):
    folder, _ = quantized
    model = ExportedModel.from_files(folder / "net")
    assert model.inputs == {"data": (1, *SHAPE)}
    assert model.metadata["quantized"] == sorted(layer for layer in model.metadata["quantized"])
    with pytest.raises(gops.OpError, match="the net is quantized already"):
        gops.export.quantize(folder / "net", folder / "again", images(8))


def test_from_files_it_is_the_same(net, quantized, tmp_path):
    folder, result = quantized
    gops.export.symbol(net, tmp_path / "float", (1, *SHAPE), backend="custom")
    again = gops.export.quantize(tmp_path / "float", tmp_path / "net", images(24), limit=1)
    assert [layer.name for layer in again.layers] == [layer.name for layer in result.layers]
    ours, theirs = (mx.nd.load(str(place / FILES[1])) for place in (tmp_path, folder))
    assert ours.keys() == theirs.keys()
    assert all((ours[name].asnumpy() == theirs[name].asnumpy()).all() for name in ours)


def test_layers_above_the_limit_stay_in_float(net, quantized, tmp_path):
    _, result = quantized
    errors = sorted(layer.error for layer in result.layers)
    limit = (errors[3] + errors[4]) / 2
    mixed = gops.export.quantize(net, tmp_path / "net", images(24), onnx=tmp_path / "net.onnx", layer_limit=limit)
    assert [layer.is_quantized for layer in mixed.layers] == [layer.error <= limit for layer in result.layers]
    assert str(mixed).count(f"float: its error is above {limit:g}") == 2
    weights = [value for name, value in mx.nd.load(str(tmp_path / FILES[1])).items() if name.endswith("weight")]
    assert sorted(value.dtype.__name__ for value in weights) == ["float32"] * 2 + ["int8"] * 4
    data = images(5, seed=9)
    assert error(module_outputs(tmp_path / "net", data), outputs_of(net, data)) < CLOSE


def test_layers_that_are_kept(net, tmp_path):
    kept = gops.export.quantize(net, None, images(24), onnx=tmp_path / "net.onnx", keep=["net_conv0_fwd"])
    assert [(layer.name, layer.reason) for layer in kept.layers if not layer.is_quantized] == [
        ("net_conv0_fwd", "asked for")]
    with pytest.raises(gops.OpError, match="keep names 'conv9', which is not a layer of the net; it has net_conv0_fwd"):
        gops.export.quantize(net, None, images(8), onnx=tmp_path / "net.onnx", keep=["conv9"])


def test_a_score(net, tmp_path):
    """It is called for the float net and for each result; what it may lose is the limit."""
    data = images(16, seed=4)
    labels = net(data)[0].asnumpy().argmax(1)
    calls = []

    def accuracy(predict):
        logits, maps = predict(data)
        assert maps.shape == (16, 64, 8, 8)
        calls.append(float((logits.argmax(1) == labels).mean()))
        return calls[-1]

    result = gops.export.quantize(net, tmp_path / "net", images(8), images(8, seed=1), onnx=tmp_path / "net.onnx",
                                  score=accuracy, limit=0.1)
    assert list(result.scores) == ["float", "MXNet", "ONNX"]
    assert list(result.scores.values()) == calls
    assert calls[0] == 1
    assert "score on held-out data, float: 1.00000" in str(result)
    falling = iter([0.9, 0.7])
    with pytest.raises(gops.OpError, match="the score for MXNet is 0.7 on the held-out data, 0.2 below the float "
                                           "net's; expected at most 0.1"):
        gops.export.quantize(net, tmp_path / "bad", images(8), score=lambda predict: next(falling), limit=0.1)
    assert not list(tmp_path.glob("bad*"))


def test_a_result_above_the_limit_is_refused(net, tmp_path):
    with pytest.raises(gops.OpError, match="the result for MXNet has an error of 0.0.* on the held-out data; expected "
                                           "at most 0.0001. The layers that cost most are 'net_"):
        gops.export.quantize(net, tmp_path / "net", images(8), onnx=tmp_path / "net.onnx", limit=1e-4)
    assert not list(tmp_path.iterdir())


def test_a_net_without_a_layer_to_quantize_is_refused(net, tmp_path):
    with pytest.raises(gops.OpError, match="no layer can be quantized:\nlayer(.|\n)*above 1e-09"):
        gops.export.quantize(net, tmp_path / "net", images(8), layer_limit=1e-9)


BAD = [
    ({"calibration": "images"}, "calibration is str; expected an array or batches"),
    ({"calibration": []}, "calibration has no examples"),
    ({"calibration": [object()]}, "calibration has a batch that is object; expected an array"),
    ({"calibration": np.zeros((3, *SHAPE), "f")}, "calibration has 3 examples; expected more than 4"),
    ({"method": "best"}, "method is 'best'; expected entropy, percentile, naive"),
    ({"method": "percentile", "percentile": 0}, "percentile is 0; expected more than 0"),
    ({"limit": -1}, "limit is -1; expected a number of at least 0"),
    ({"storage": "int4"}, "storage is 'int4'; expected int8 or float32"),
    ({"prefix": None}, "prefix and onnx are both None"),
    ({"calibration": np.full((8, *SHAPE), np.nan, "f")}, "the tensor 'data' is not finite"),
]


@in_turn("change, message", BAD)
def test_bad_input(change, message, net, quantized, tmp_path):
    folder, _ = quantized
    options = {"prefix": tmp_path / "net", "calibration": images(8), **change}
    with pytest.raises(gops.OpError, match=message):
        gops.export.quantize(net, **options)


def test_float16_is_refused(tmp_path):
    half = nn.Dense(3, in_units=4)
    half.initialize()
    half.cast("float16")
    with pytest.raises(gops.OpError, match="the net computes in float16; expected float32"):
        gops.export.quantize(half, tmp_path / "net", np.zeros((8, 4), "float16"))


def test_layers_without_int8_say_why(tmp_path):
    mixed = nn.HybridSequential(prefix="net_")
    with mixed.name_scope():
        mixed.add(nn.Conv2D(4, 3), nn.Conv2DTranspose(4, 2), nn.Dense(3, flatten=False))
    mixed.initialize()
    result = gops.export.quantize(mixed, tmp_path / "net", images(8), onnx=tmp_path / "net.onnx", limit=1)
    assert [layer.reason for layer in result.layers] == [
        "", "oneDNN has no int8 deconvolution in MXNet", "it keeps the axes of its input"]
    data = images(2)
    assert error(module_outputs(tmp_path / "net", data), [mixed(data).asnumpy()]) < CLOSE


def test_a_detector_is_measured_before_its_suppression(tmp_path):
    made = gops.models.get_model("tiny_yolov2", classes=2, head_channels=16)
    made.initialize(mx.init.MSRAPrelu())
    data = np.random.RandomState(0).uniform(size=(8, 3, 32, 32)).astype(np.float32)
    detector = made.detector(topk=5)
    result = gops.export.quantize(detector, tmp_path / "net", data, method="naive", limit=0.1)
    alone = np.linalg.norm([layer.error for layer in result.layers])   # errors of rounding add up like this
    assert 0.2 * alone < result.errors["MXNet"] < 1.5 * alone
    expected = module_outputs(tmp_path / "net", mx.nd.array(data))
    loaded = gops.train.load_net(tmp_path / "net").detector(mx.nd.array(data))
    assert len(expected) == 3
    for ours, theirs in zip(loaded, expected):
        np.testing.assert_allclose(ours.asnumpy(), theirs, rtol=1e-5, atol=1e-5)


def test_storage_for_the_c_predict_api(net, tmp_path):
    from test_loaders import LOADERS as PROGRAMS
    from test_loaders import PREAMBLE
    gops.export.quantize(net, tmp_path / "net", images(8), method="naive", storage="float32", limit=1)
    values = mx.nd.load(str(tmp_path / FILES[1]))
    assert {value.dtype for value in values.values()} == {np.float32}
    data = images(2, seed=5)
    np.save(tmp_path / "data.npy", data.asnumpy())
    program = PREAMBLE + PROGRAMS["c_predict"] + "np.savez('outputs.npz', *outputs)"
    done = subprocess.run([sys.executable, "-c", program, "net"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = list(np.load(tmp_path / "outputs.npz").values())
    assert error(found, module_outputs(tmp_path / "net", data)) < 1e-6


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder of pictures, and an exported net that notes its preprocessing, in the working directory."""
    from PIL import Image
    monkeypatch.chdir(tmp_path)
    rng = np.random.RandomState(0)
    for number in range(6):
        Image.fromarray(rng.randint(0, 256, (12, 20, 3), np.uint8)).save(f"{number}.png")
    small = nn.HybridSequential()
    small.add(nn.Conv2D(4, 3), nn.Dense(3))
    small.initialize()
    small.preprocessing = {"resize": "letterbox", "colours": "RGB", "range": [0, 1]}
    gops.export.symbol(small, "net", (1, *SHAPE))
    return tmp_path


def test_the_command(photos, capsys):
    command = ["export", "net", "out", "--int8", "--calibrate", ".", "--onnx", "out.onnx", "--method", "naive",
               "--limit", "1"]   # The error of drawn weights depends on the seed.
    assert cli.main(command) == 0
    text = capsys.readouterr().out
    assert text.startswith("layer ")
    assert "error on held-out data, ONNX: 0." in text
    assert text.splitlines()[-3:] == ["out-symbol.json", "out-0000.params", "out.onnx"]
    assert cli.main([*command, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert ExportedModel.from_files("out").metadata["processor"] == "any"
    assert [layer["int8"] for layer in content["layers"]] == [True, True]
    assert content["errors"].keys() == {"MXNet", "ONNX"}
    for path in pathlib.Path().glob("out*"):
        path.unlink()
    assert cli.main([*command, "--limit", "1e-6"]) == 1
    assert "expected at most 1e-06" in capsys.readouterr().err
    assert not list(pathlib.Path().glob("out*"))
    assert cli.main([*command, "--vnni-only"]) == 0
    assert ExportedModel.from_files("out").metadata["processor"] == "VNNI"
    capsys.readouterr()


def test_the_command_on_files_of_others(photos, capsys):
    """They say neither shape nor preprocessing; what is passed counts before what a file notes."""
    options = "--int8", "--calibrate", ".", "--data-shape", "1,3,16,16", "--method", "naive", "--limit", "1"

    def largest_value(source, *preprocessing):
        assert cli.main(["export", source, "out", *options, *preprocessing]) == 0
        return float(mx.sym.load("out-symbol.json").attr_dict()["data_quantize"]["max_calib_range"])

    mx.model.save_checkpoint("foreign", 0, *mx.model.load_checkpoint("net", 0))
    assert cli.main(["export", "foreign", "out", *options]) == 1
    assert "prepared for the net. Pass that, such as --preprocessing '{" in capsys.readouterr().err
    assert cli.main(["export", "foreign", "out", *options[:3]]) == 1
    text = capsys.readouterr().err
    assert "the shape of the input data is not known, and the file does not say how images are prepared" in text
    assert "Pass both, such as --data-shape 1,3,224,224 --preprocessing '{" in text
    of_bytes = "--preprocessing", '{"range": [0, 255]}'
    assert largest_value("foreign", "--preprocessing", "{}") == largest_value("net") <= 1
    assert largest_value("foreign", *of_bytes) == largest_value("net", *of_bytes) > 250
    assert cli.main(["export", "foreign", "out", *options, "--preprocessing", '{"colour": "RGB"}']) == 1
    assert "preprocessing has 'colour'; expected colours, range, mean" in capsys.readouterr().err


@pytest.mark.parametrize("options, message", [
    (["--int8"], "--int8 needs --calibrate DIR"),
    (["--calibrate", "."], "--calibrate can only be used with --int8"),
    (["--vnni-only"], "--vnni-only can only be used with --int8"),
    (["--preprocessing", "{}"], "--preprocessing can only be used with --int8"),
    (["--int8", "--preprocessing", "RGB"], "got 'RGB'; expected a JSON object, such as '{\"range\": [0, 255]}'"),
    (["--int8", "--preprocessing", "[1]"], "got '[1]'; expected a JSON object"),
    (["--int8", "--calibrate", ".", "--pad-channels"], "cannot be used with --int8"),
])
def test_options_that_do_not_fit(options, message, photos, capsys):
    with pytest.raises(SystemExit):
        cli.main(["export", "net", "out", *options])
    assert message in capsys.readouterr().err


def test_images_are_preprocessed_as_noted(photos):
    from gluonops.commands.export import calibration_images
    from gluonops.data.images import read_image
    noted = {"resize": "stretch", "colours": "BGR", "range": [0, 255], "mean": [1, 2, 3], "std": [4, 5, 6]}
    found = calibration_images(".", (1, 3, 12, 20), noted)
    assert found.shape == (6, 3, 12, 20) and found.dtype == np.float32
    pixels = read_image("4.png", "test").astype(np.float64).transpose(2, 0, 1)[::-1]
    expected = (pixels - np.reshape([1, 2, 3], (3, 1, 1))) / np.reshape([4, 5, 6], (3, 1, 1))
    np.testing.assert_allclose(found[4], expected, rtol=1e-4, atol=1e-4)
    for wrong, message in ((None, "does not say how images are prepared for the net"),
                           ({"resize": "squash"}, "has resize 'squash'; expected letterbox, stretch or crop")):
        with pytest.raises(gops.OpError, match=message):
            calibration_images(".", (1, 3, 12, 20), wrong)
    pathlib.Path("none").mkdir()
    with pytest.raises(gops.OpError, match="none has no images"):
        calibration_images("none", (1, 3, 12, 20), noted)
