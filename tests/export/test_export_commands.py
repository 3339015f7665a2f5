"""The commands gluonops export and gluonops viz."""
import json

import gluonops as gops
import mxnet as mx
import pytest
from gluonops import cli
from mxnet.gluon import nn

SHAPE = (2, 3, 8, 8)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Exported files for training, with a loss head, in the working directory."""
    monkeypatch.chdir(tmp_path)
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), gops.nn.Reorg(2), nn.Dense(3))
    net.initialize()
    gops.export.symbol(net, "net", SHAPE, backend="custom")
    gops.export.symbol(net, "trained", SHAPE, backend="custom", head="softmax_output", epoch=7)
    return tmp_path


def ops(path):
    return {node["op"] for node in json.loads(path.read_text())["nodes"]}


def test_export(folder, capsys):
    assert cli.main(["export", "net", "out", "--fold-batch-norm"]) == 0
    assert capsys.readouterr().out.splitlines() == ["out-symbol.json", "out-0000.params"]
    assert not {"Custom", "BatchNorm"} & ops(folder / "out-symbol.json")
    assert cli.main(["export", "net", "out", "--backend", "native", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"written": ["out-symbol.json", "out-0000.params"], "notes": []}
    assert "gluonops_reorg" in ops(folder / "out-symbol.json")


def test_inference_says_what_went(folder, capsys):
    assert cli.main(["export", "trained", "out", "--inference", "--epoch", "7"]) == 0
    *paths, note = capsys.readouterr().out.splitlines()
    assert paths == ["out-symbol.json", "out-0007.params"]
    assert note.startswith("note: exported for inference, without the loss head 'softmax', the input 'softmax_label'")
    assert mx.sym.load("out-symbol.json").list_inputs()[0] == "data"


def test_onnx(folder, capsys):
    import onnx
    assert cli.main(["export", "net", "--onnx", "net.onnx"]) == 0
    assert capsys.readouterr().out == "net.onnx\n"
    assert onnx.load("net.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert cli.main(["export", "net", "out", "--onnx", "net.onnx", "--data-shape", "5,3,8,8", "--fixed-batch"]) == 0
    assert onnx.load("net.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_value == 5
    assert capsys.readouterr().out.splitlines() == ["out-symbol.json", "out-0000.params", "net.onnx"]


def test_viz(folder, capsys):
    assert cli.main(["viz", "net", "-o", "net.svg"]) == 0
    assert capsys.readouterr().out == "net.svg\n" and "gluonops reorg" in (folder / "net.svg").read_text()


@pytest.mark.parametrize("arguments, text", [
    (["export", "nothing", "out"], "gluonops.export.rewrite: there is no file nothing-symbol.json"),
    (["export", "net", "out", "--epoch", "3"], "gluonops.export.rewrite: there is no file net-0003.params"),
    (["export", "trained", "out", "--fold-batch-norm"], "gluonops.export.rewrite: trained-symbol.json has a label"),
    (["viz", "net", "-o", "net.gif"], "gluonops.export.picture: the picture is 'net.gif'; expected a name that ends"),
])
def test_errors(arguments, text, folder, capsys):
    assert cli.main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith(text) and len(error.splitlines()) == 1


@pytest.mark.parametrize("arguments, text", [
    (["export", "net"], "nothing to write: give OUT, --onnx FILE, or both"),
    (["export", "net", "out", "--fixed-batch"], "--data-shape and --fixed-batch go with --onnx"),
    (["export", "net", "--onnx", "x.onnx", "--data-shape", "1,a"], "got '1,a'; expected sizes of at least 1, such as"),
    (["export", "net", "out", "--backend", "tensorrt"], "invalid choice: 'tensorrt'"),
    (["viz", "net"], "required: -o/--output"),
])
def test_misspelled(arguments, text, folder, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2 and text in capsys.readouterr().err
