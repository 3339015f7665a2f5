"""Which inputs are labels, whatever their names are; nets below a head; and what commands write, commands read."""
import json
import pathlib
import sys
import warnings

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.commands import cli
from gluonops.export import training_parts
from gluonops.export.cut import HeadError
from in_turn import in_turn

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from drawn_files import HEADS, KINDS, LABELS, dense, drawn, save, v, with_head  # noqa: E402

ONLY_LOSSES = ("ctc",)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys, *words):
    """The exit code of a command, and what it prints."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gops.export.ExportWarning)
        code = cli.main(list(words))
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def shape_options(shapes):
    return [word for name, shape in shapes.items() for word in ("--data-shape", f"{name}={','.join(map(str, shape))}")]


@pytest.mark.parametrize("kind", KINDS)
def test_labels(kind, folder, capsys):
    """The function, the model of the files, and the check without MXNet say the same."""
    drawn(folder, kind)
    model = gops.export.ExportedModel.from_files(kind)
    assert sorted(model.labels()) == LABELS[kind] and model.has_label() == bool(LABELS[kind])
    assert sorted(gops.files.describe(kind)["labels"]) == LABELS[kind]
    assert gops.files.check(kind) == []
    code, text = run(capsys, "files", "check", kind)
    assert code == 0 and ("these inputs are labels" in text) == bool(LABELS[kind])


@in_turn("symbol, expected", [
    (lambda: mx.sym.MakeLoss(mx.sym.square(dense() - v("wanted"))), {"wanted"}),
    (lambda: mx.sym.softmax_cross_entropy(dense(), v("label")), {"label"}),
    (lambda: mx.sym.MakeLoss(mx.sym.square(v("label"))), set()),
    (lambda: v("label") * 2, set()),
    (lambda: mx.sym.Group([mx.sym.BlockGrad(v("mask")), dense()]), set()),
    (lambda: mx.sym.softmax(dense()) * v("target"), set()),
    (lambda: mx.sym.pick(mx.sym.log_softmax(dense()), v("target")), {"target"}),
    (lambda: mx.sym.Group([mx.sym.SoftmaxOutput(dense(), v("a")), dense("g", 2, mx.sym.Embedding(
        v("a"), input_dim=3, output_dim=2, name="e"))]), set()),
])
def test_labels_of_other_graphs(symbol, expected):
    assert training_parts.labels(training_parts.Graph.of(symbol())) == expected


@pytest.mark.parametrize("make, sizes", [
    (mx.gluon.loss.L2Loss, (4, 3)), (mx.gluon.loss.SigmoidBCELoss, (4, 3)), (mx.gluon.loss.KLDivLoss, (4, 3)),
    (mx.gluon.loss.HuberLoss, (4, 3)), (mx.gluon.loss.SoftmaxCrossEntropyLoss, (4,)),
    (gops.loss.SoftmaxCELoss, (4,)), (gops.loss.FocalLoss, (4,))], ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("backend", ["builtin", "native"])
def test_a_net_with_a_loss_of_gluon(make, sizes, backend, folder):
    """What is written for training is read again, and its label is found under any name."""
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.dense, self.loss = mx.gluon.nn.Dense(3), make()

        def hybrid_forward(self, F, data, wanted):
            predicted = self.dense(data)
            return F.softmax(predicted), self.loss(predicted, wanted)

    net = Net()
    net.initialize()
    gops.export.symbol(net, "net", {"data": (4, 5), "wanted": sizes}, backend=backend, training=True)
    assert gops.export.ExportedModel.from_files("net").labels() == {"wanted"}
    with pytest.warns(gops.export.ExportWarning, match="a loss .*, the input 'wanted'"):
        gops.export.rewrite("net", "out", inference=True)
    assert len(mx.sym.load("out-symbol.json").list_outputs()) == 1


# What a command writes, as the word behind IN, and what it is then called.
WRITERS = {"repair": (lambda target: [target], lambda target: target),
           "native": (lambda target: [target, "--backend", "native"], lambda target: target),
           "inference": (lambda target: [target, "--inference"], lambda target: target)}
READERS = {"repair": ["export", "IN", "read"], "inference": ["export", "IN", "read", "--inference"],
           "onnx": ["export", "IN", "--onnx", "read.onnx"], "torch": ["export", "IN", "--torch", "read"],
           "viz": ["viz", "IN", "-o", "read.svg"], "check": ["files", "check", "IN"], "list": ["files", "list", "IN"],
           "convert": ["files", "convert", "IN", "read.params"]}


RENAMED = ("y", "output", "input_")   # They are the kind target with another name of the label; see test_labels.


# Every kind and every writer each day. These kinds, which differ most in what their labels do, have every pair.
OF_EVERY_WRITER = ("two_tasks", "ctc", "ssd")


@pytest.mark.parametrize("kind, writers", [
    *(pytest.param(kind, list(WRITERS) if kind in OF_EVERY_WRITER else ["repair"],
                   marks=[pytest.mark.slow] * (kind in RENAMED)) for kind in KINDS),
    *(pytest.param(kind, ["native", "inference"], marks=pytest.mark.slow) for kind in KINDS
      if kind not in OF_EVERY_WRITER)])
def test_what_a_command_writes_every_command_reads(kind, writers, folder, capsys):
    """With the shapes of the data alone, which are passed once."""
    shapes = shape_options(drawn(folder, kind))
    for writer in writers:
        words, name = WRITERS[writer]
        only_losses = kind in ONLY_LOSSES and writer == "inference"
        code, text = run(capsys, "export", kind, *words(writer), *shapes)
        assert code == only_losses, text
        if only_losses:
            assert f"gluonops export {kind} inference --inference" in text and "--output steps" in text
            continue
        for reader, command in READERS.items():
            code, text = run(capsys, *[name(writer) if word == "IN" else word for word in command])
            fails = kind in ONLY_LOSSES and reader in ("inference", "onnx", "torch")
            assert code == fails, (writer, reader, text)
            assert ("--output steps" in text) == (fails or (kind in ONLY_LOSSES and reader == "check")), text


@pytest.mark.parametrize("kind", ["y", "margin", "ssd", "generator"])
def test_files_of_8_bits_are_read(kind, folder, capsys):
    """Those that are made of repaired files for training, without their labels."""
    shapes = drawn(folder, kind)
    run(capsys, "export", kind, "repaired", *shape_options(shapes))
    draw = np.random.RandomState(0)
    data = {name: draw.rand(12, *shape[1:]).astype("float32") for name, shape in shapes.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gops.export.ExportWarning)
        gops.export.quantize("repaired", "small", data, layer_limit=9)
    for words in (["export", "small", "again"], ["viz", "small", "-o", "small.svg"], ["files", "check", "small"],
                  ["files", "list", "small"]):
        code, text = run(capsys, *words)
        assert code == 0, text


def test_a_trained_ssd_is_loaded(folder, capsys):
    """As it is, and as it was repaired."""
    shapes = drawn(folder, "ssd")
    run(capsys, "export", "ssd", "repaired", *shape_options(shapes))
    for name in ("ssd", "repaired"):
        loaded = gops.export.load(name, classes=["a"], preprocessing={"colours": "RGB"}, data_shape=shapes["data"])
        assert isinstance(loaded.detect(np.zeros((20, 30, 3), np.uint8)), list)


@pytest.mark.parametrize("kind", ["y", "margin", "weighted"])
def test_numbers_of_what_is_predicted(kind, folder):
    """ONNX of the training files computes what MXNet does where nobody has a label."""
    from gluonops.export.onnx.session import session
    shapes = drawn(folder, kind)
    with pytest.warns(gops.export.ExportWarning, match="exported for inference"):
        gops.export.onnx(kind, "net.onnx", shapes)
    data = np.random.RandomState(1).normal(size=shapes["data"]).astype("float32")
    values = mx.nd.load(f"{kind}-0000.params")
    weight, bias = (next(value.asnumpy() for name, value in values.items() if name.endswith(end))
                    for end in ("_weight", "_bias"))
    found, = session("net.onnx", "test").run(None, {"data": data})
    np.testing.assert_allclose(found, data @ weight.T + bias, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options, text", [
    (["--torch", "port", "--training", "--data-shape", "1,3,8,8"],
     "the shape of the label boxes does not follow from those of the inputs. Name it in data_shape, such as "
     "{'boxes': (1, 8, 5)}, or --data-shape boxes=1,8,5"),
    (["--onnx", "net.onnx"], "the shape of the input data is not known. Pass data_shape, or --data-shape"),
    (["out", "--data-shape", "words=1"], "data_shape names 'words'; expected 'data' or 'boxes'")])
def test_what_is_asked_for(options, text, folder, capsys):
    """The label's shape only where the label stays."""
    drawn(folder, "ssd")
    before = sorted(folder.iterdir())
    code, said = run(capsys, "export", "ssd", *options)
    assert code == 1 and text in said and len(said.splitlines()) == 1
    assert sorted(folder.iterdir()) == before


BELOW = {"rewrite": ["export", "IN", "out"], "onnx": ["export", "IN", "--onnx", "out.onnx"],
         "torch": ["export", "IN", "--torch", "out"], "viz": ["viz", "IN", "-o", "out.svg"]}


@pytest.mark.parametrize("kind", HEADS)
def test_a_head_that_cannot_be_loaded(kind, folder, capsys):
    """Each command names the node, why, and the command that works, which does."""
    with_head(folder, kind)
    before = sorted(folder.iterdir())
    for command in BELOW.values():
        words = [*(kind if word == "IN" else word for word in command), "--data-shape", "2,5"]
        code, text = run(capsys, *words)
        assert code == 1 and len(text.splitlines()) == 1 and sorted(folder.iterdir()) == before
        assert "the node 'q' is the " in text and text.rstrip().endswith(f"gluonops {' '.join(words)} --output top")
    code, text = run(capsys, "files", "check", kind)
    assert code == 1 and "the node 'q' is the " in text and "--output top" in text
    for command in BELOW.values():
        words = [*(kind if word == "IN" else word for word in command), "--data-shape", "2,5", "--output", "top"]
        code, text = run(capsys, *words)
        assert code == 0, text


def test_what_else_the_net_returns_stays(folder):
    with_head(folder, "class", first="also")
    with pytest.raises(HeadError, match="the node 'q' is the Custom operator ValueHead") as caught:
        gops.export.rewrite("class", "out")
    assert caught.value.outputs == ("also", "top")
    symbol, _ = gops.export.rewrite("class", "out", outputs=caught.value.outputs)
    assert mx.sym.load(symbol).list_outputs() == ["also_output", "top_output"]
    assert gops.files.describe("class")["cut_at"] == ["also", "top", "f"]


def test_files_of_gluonops_are_cut(folder):
    """Their digest and their stored shapes count as before; what they say of their outputs is gone."""
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(mx.gluon.nn.Conv2D(4, 3), mx.gluon.nn.GlobalAvgPool2D(), mx.gluon.nn.Dense(3), gops.nn.Softmax())
    net.initialize()
    gops.export.symbol(net, "net", (1, 3, 8, 8), backend="custom")
    assert gops.export.ExportedModel.from_files("net").metadata["output"] == "probabilities"
    gops.export.rewrite("net", "logits", outputs=["net_dense0_fwd"])
    assert gops.export.ExportedModel.from_files("logits").metadata["output"] == "logits"
    gops.export.rewrite("net", "maps", outputs=["net_conv0_fwd", "net_dense0_fwd_output"])
    model = gops.export.ExportedModel.from_files("maps")
    assert "task" not in model.metadata and len(model.graph.outputs) == 2
    loaded = gops.export.load("net", outputs=["net_dense0_fwd"], classes=["a", "b", "c"],
                              preprocessing={"colours": "RGB", "range": [0, 1]})
    data = mx.nd.random.uniform(shape=(1, 3, 8, 8))
    np.testing.assert_allclose(mx.nd.softmax(loaded.net(data)).asnumpy(), net(data).asnumpy(), rtol=1e-5)
    gops.export.onnx(net, "net.onnx", (1, 3, 8, 8), outputs=["net_dense0_fwd"])
    found = gops.export.quantize(net, "small", np.random.RandomState(0).rand(12, 3, 8, 8).astype("float32"),
                                 outputs=["net_conv0_fwd"], layer_limit=9)
    assert [layer.name for layer in found.layers] == ["net_conv0_fwd"]


@pytest.mark.parametrize("outputs, text", [
    (["topp"], "the net has no node 'topp', which is asked for as an output. Perhaps you mean 'top'"),
    (["data"], "'data' is an input or a parameter; expected a node that computes something"),
    (["top_output7"], "output 7 of the node 'top'"), ("top", "outputs is 'top'; expected the names of nodes"),
    ([3], r"outputs is \[3\]; expected the names of nodes")], ids=str)
def test_wrong_outputs(outputs, text, folder):
    with_head(folder, "class")
    before = sorted(folder.iterdir())
    for export in (lambda: gops.export.rewrite("class", "out", outputs=outputs),
                   lambda: gops.export.onnx("class", "out.onnx", (2, 5), outputs=outputs)):
        with pytest.raises(gops.OpError, match=text):
            export()
    assert sorted(folder.iterdir()) == before


def test_a_later_output_of_a_node(folder):
    parts = mx.sym.SliceChannel(dense("f", 4), num_outputs=2, name="parts")
    save(folder / "net", mx.sym.Group([parts[0] + parts[1]]), {"data": (2, 5)})
    symbol, _ = gops.export.rewrite("net", "out", outputs=["parts_output1"])
    assert mx.sym.load(symbol).list_outputs() == ["parts_output1"]


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"
PAGE = b"\n<!DOCTYPE html>\n<html><head><title>Not found</title></head></html>\n"


@pytest.mark.parametrize("content, text", [(POINTER, "is a Git LFS pointer"), (PAGE, "is a web page that was saved")],
                         ids=["pointer", "page"])
@pytest.mark.parametrize("ending", ["-symbol.json", "-0000.params"])
def test_what_is_no_download(ending, content, text, folder, capsys):
    save(folder / "net", dense(), {"data": (2, 5)})
    pathlib.Path(f"net{ending}").write_bytes(content)
    for words in (["files", "check", "net"], ["files", "list", "net"], ["export", "net", "out"],
                  ["export", "net", "--onnx", "out.onnx", "--data-shape", "2,5"]):
        code, said = run(capsys, *words)
        assert code == 1 and f"net{ending} {text}" in said and len(said.splitlines()) == 1, said
    assert not list(folder.glob("out*"))


@pytest.mark.parametrize("path, read", [
    ("net.onnx", lambda path: gops.export.load(path)), ("a.rec", lambda path: gops.files.check(path)),
    ("a.params", lambda path: gops.files.describe(path)),
    ("yolo.weights", lambda path: gops.darknet.load_weights(gops.models.get_model("darknet19"), path))],
    ids=["onnx", "rec", "params", "weights"])
def test_other_files_that_are_no_download(path, read, folder):
    for content, text in ((POINTER, "is a Git LFS pointer"), (PAGE, "is a web page that was saved")):
        pathlib.Path(path).write_bytes(content)
        with pytest.raises(gops.OpError, match=f"{path} {text}"):
            read(path)


def test_the_command_replaces_outputs_that_do_not_help(folder, capsys):
    """An output behind the head is not part of the command that works."""
    with_head(folder, "class")
    for words in (["export", "class", "out", "--output", "q"], ["export", "class", "out", "--output=q"],
                  ["viz", "class", "-o", "out.svg", "--output", "q"]):
        code, text = run(capsys, *words)
        kept = [word for word in words if not word.endswith("q")]
        kept = kept[:-1] if kept[-1] == "--output" else kept
        assert code == 1 and text.rstrip().endswith(f"gluonops {' '.join(kept)} --output top"), text


@pytest.mark.parametrize("op", ["_contrib_quantize_v2", "_sg_mkldnn_fully_connected"])
def test_files_of_8_bits(op, folder, capsys):
    """MXNet's quantize_net writes such operators; the check and the exports ask for the float files."""
    save(folder / "net", mx.sym.relu(dense("f", 4), name="top"), {"data": (2, 5)})
    path = folder / "net-symbol.json"
    graph = json.loads(path.read_text())
    attrs = {"out_type": "int8", "min_calib_range": "-1", "max_calib_range": "1"} if "quantize" in op else {}
    graph["nodes"].append({"op": op, "name": "q", "attrs": attrs, "inputs": [[len(graph["nodes"]) - 1, 0, 0]]})
    graph["heads"] = [[len(graph["nodes"]) - 1, 0, 0]]
    path.write_text(json.dumps(graph))
    for words in (["files", "check", "net"], ["export", "net", "--onnx", "out.onnx", "--data-shape", "2,5"],
                  ["export", "net", "--torch", "out", "--data-shape", "2,5"]):
        code, text = run(capsys, *words)
        assert code == 1 and f"the node 'q' is the operator {op}, which computes with 8 bits" in text
        assert "Pass the float files that it was quantized from" in text


def test_no_code_asks_for_the_name_of_a_label():
    sources = pathlib.Path(gops.__file__).parent.rglob("*.py")
    assert not [path for path in sources if 'endswith("label")' in path.read_text(encoding="utf-8")]
