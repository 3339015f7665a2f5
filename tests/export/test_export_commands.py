"""The commands gluonops export and gluonops viz."""
import json

import gluonops as gops
import mxnet as mx
import pytest
from gluonops.commands import cli
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


def written(capsys):
    """The paths that the command prints, without how far the outputs differ from MXNet's."""
    *paths, last = capsys.readouterr().out.splitlines()
    assert ", net_dense0_fwd_output: largest absolute difference " in last and "(good: at most " in last
    return [path for path in paths if "difference" not in path]


def test_export(folder, capsys):
    assert cli.main(["export", "net", "out", "--fold-batch-norm"]) == 0
    assert written(capsys) == ["out-symbol.json", "out-0000.params"]
    assert not {"Custom", "BatchNorm"} & ops(folder / "out-symbol.json")
    assert cli.main(["export", "net", "out", "--backend", "native", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["written"] == ["out-symbol.json", "out-0000.params"] and said["notes"] == []
    assert "gluonops_reorg" in ops(folder / "out-symbol.json")


def test_a_repair(folder, capsys):
    assert cli.main(["export", "net-symbol.json", "--out", "new/net"]) == 0
    assert written(capsys) == ["new/net-symbol.json", "new/net-0000.params"]
    with pytest.raises(SystemExit):
        cli.main(["export", "net", "out", "--out", "new/net"])


def test_inference_says_what_went(folder, capsys):
    assert cli.main(["export", "trained", "out", "--inference", "--epoch", "7"]) == 0
    *paths, _, note = capsys.readouterr().out.splitlines()
    assert paths == ["out-symbol.json", "out-0007.params"]
    assert note.startswith("note: the net is exported for inference, without the loss head 'softmax', the input "
                           "'softmax_label'")
    assert mx.sym.load("out-symbol.json").list_inputs()[0] == "data"


def test_onnx(folder, capsys):
    import onnx
    assert cli.main(["export", "net", "--onnx", "net.onnx"]) == 0
    assert written(capsys) == ["net.onnx"]
    assert onnx.load("net.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert onnx.load("net.onnx").opset_import[0].version == 17
    assert cli.main(["export", "net", "--onnx", "net.onnx", "--opset", "13"]) == 0
    assert onnx.load("net.onnx").opset_import[0].version == 13
    assert written(capsys) == ["net.onnx"]
    assert cli.main(["export", "net", "out", "--onnx", "net.onnx", "--data-shape", "5,3,8,8", "--fixed-batch"]) == 0
    assert onnx.load("net.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_value == 5
    assert written(capsys) == ["out-symbol.json", "out-0000.params", "net.onnx"]


@pytest.fixture
def foreign(folder):
    """Files of others, with no note of shapes: of an input that is not called data, and of two."""
    graph = mx.sym.FullyConnected(mx.sym.var("image"), num_hidden=3, name="fc")
    values = {"arg:fc_weight": mx.nd.ones((3, 4)), "arg:fc_bias": mx.nd.ones(3)}
    for name, symbol in (("one", graph), ("two", mx.sym.broadcast_mul(graph, mx.sym.var("scale")))):
        symbol.save(f"{name}-symbol.json")
        mx.nd.save(f"{name}-0000.params", values)
    gops.export.rewrite("one", "one")


def input_sizes(path):
    import onnx
    return {value.name: [size.dim_value for size in value.type.tensor_type.shape.dim][1:]
            for value in onnx.load(path).graph.input}


def test_shapes_of_inputs(foreign, capsys):
    """Inputs may have any names, and there may be several."""
    assert cli.main(["export", "one", "--onnx", "one.onnx", "--data-shape", "1,4"]) == 0
    assert input_sizes("one.onnx") == {"image": [4]}
    assert cli.main(["export", "two", "--onnx", "two.onnx", "--data-shape", "image=1,4",
                     "--data-shape", "scale=1,1"]) == 0
    assert input_sizes("two.onnx") == {"image": [4], "scale": [1]}
    assert cli.main(["viz", "two", "-o", "two.svg", "--data-shape", "image=7,4", "--data-shape", "scale=7,3"]) == 0


def test_another_shape_than_the_noted_one(foreign, capsys):
    """It counts, whatever the input is called; it was not looked at."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(2, 3), nn.GlobalAvgPool2D())
    net.initialize()
    gops.export.symbol(net, "named", {"image": (1, 3, 6, 6)})
    assert cli.main(["export", "named", "--onnx", "n.onnx", "--data-shape", "1,3,12,10"]) == 0
    assert input_sizes("n.onnx") == {"image": [3, 12, 10]}


@pytest.mark.parametrize("shape", ["1,5", "2,3,4"])
@pytest.mark.parametrize("options, where", [(["export", "--onnx", "out.onnx"], "export.onnx"), (["export", "--onnx",
                         "out.onnx", "--fixed-batch"], "export.onnx"), (["viz", "-o", "out.svg"], "export.picture")],
                         ids=["onnx", "fixed_batch", "viz"])
def test_a_refused_shape(options, where, shape, foreign, folder, capsys):
    """It is refused whatever the batch; the node is named, and the one who asks."""
    assert cli.main([*options, "one", "--data-shape", shape]) == 1
    printed, sizes = capsys.readouterr(), f"({shape.replace(',', ', ')})"
    assert printed.err.startswith(f"gluonops.{where}: the net refuses the shape of image {sizes}: ")
    assert printed.out == ""
    assert "operator fc:" in printed.err and "fixed-batch" not in printed.err


@pytest.mark.parametrize("words, text", [
    (["two", "--data-shape", "1,4"], "one shape, and the file has the inputs image, scale. Name each"),
    (["two", "--data-shape", "image=1,4"], "the shape of the input scale is not known. Pass data_shape, or --data-"),
    (["one", "--data-shape", "img=1,4"], "data_shape names 'img'; expected 'image'. Use the names that the file has"),
    (["one"], "the shape of the input image is not known"),
])
@pytest.mark.parametrize("command", [["export", "--onnx", "out.onnx"], ["viz", "-o", "out.svg"]], ids=["onnx", "viz"])
def test_wrong_shapes_of_inputs(command, words, text, foreign, folder, capsys):
    assert cli.main([*command, *words]) == 1
    assert text in capsys.readouterr().err and not list(folder.glob("out.*"))


def test_viz(folder, capsys):
    assert cli.main(["viz", "net", "-o", "net.svg"]) == 0
    assert capsys.readouterr().out == "net.svg\n" and "gluonops reorg" in (folder / "net.svg").read_text()


def test_folders_are_made(folder):
    assert cli.main(["export", "net", "new/er/net", "--onnx", "other/net.onnx"]) == 0
    assert (folder / "new" / "er" / "net-0000.params").is_file() and (folder / "other" / "net.onnx").is_file()


@pytest.mark.parametrize("arguments, text", [
    (["export", "net", "net-symbol.json/out"],
     "gluonops.export: the folder net-symbol.json cannot be made: File exists"),
    (["export", "net", "out"], "gluonops.export.rewrite: out-0000.params is a folder; expected the name of a file"),
    (["export", "net", "--onnx", "out-0000.params"], "gluonops.export.onnx: out-0000.params is a folder"),
    (["viz", "net", "-o", "viz.svg"], "gluonops.export.picture: viz.svg is a folder; expected the name of a file"),
    (["anchors", "-k", "2", "-o", "nowhere/a.png"], "gluonops.anchors: the folder nowhere does not exist"),
    (["export", "nothing", "out"], "gluonops.export.rewrite: there is no file nothing-symbol.json"),
    (["export", "net", "out", "--epoch", "3"], "gluonops.export.rewrite: there is no file net-0003.params"),
    (["export", "trained", "out", "--fold-batch-norm"], "gluonops.export.rewrite: trained-symbol.json has a label"),
    (["viz", "net", "-o", "net.gif"], "gluonops.export.picture: the picture is 'net.gif'; expected a name that ends"),
])
def test_errors(arguments, text, folder, capsys):
    (folder / "out-0000.params").mkdir()
    (folder / "viz.svg").mkdir()
    assert cli.main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith(text) and len(error.splitlines()) == 1


@pytest.mark.parametrize("given", ["best.params", "best"])
def test_parameters_without_a_graph(given, folder, capsys):
    """The three lines that the message names write the files of the net."""
    net = mx.gluon.nn.Dense(3, in_units=4)
    net.initialize()
    net.save_parameters("best.params")
    assert cli.main(["export", given, "out"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("gluonops.export.rewrite: there is no file best-symbol.json, and best.params has "
                            "parameters only: save_parameters stores no graph. Export in Python")
    assert len(error.splitlines()) == 1
    lines = error[error.index("net = ...; ") + len("net = ...; "):error.index(", with the shape")]
    exec(lines.replace("(1, 3, 224, 224)", "(1, 4)"), {"net": net, "gops": gops})
    assert cli.main(["export", "best", "out"]) == 0


def test_a_graph_without_parameters(folder, capsys):
    """The message names a file that a net without parameters may have."""
    (mx.sym.var("data") * 2).save("twice-symbol.json")
    assert cli.main(["export", "twice", "out", "--data-shape", "1,4"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("gluonops.export.rewrite: there is no file twice-NNNN.params, which has the parameters of "
                            "twice-symbol.json. Save them beside the symbol; for a graph that has none, ")
    exec(error[error.index("mx.nd.save"):error.index("{})") + 3], {"mx": mx})
    assert cli.main(["export", "twice", "out", "--data-shape", "1,4"]) == 0


@pytest.mark.parametrize("arguments, text", [
    (["export", "net"], "there is nothing to write: pass OUT, --onnx FILE, --torch DIR, or several of them"),
    (["export", "net", "out", "--fixed-batch"], "--fixed-batch and --opset can only be used with --onnx"),
    (["export", "net", "--onnx", "x.onnx", "--data-shape", "1,a"], "got '1,a'; expected sizes of at least 1, such as"),
    (["viz", "net", "-o", "x.svg", "--data-shape", "=1,3"], "got '=1,3'; expected the input's name before '='"),
    (["viz", "net", "-o", "x.svg", *["--data-shape", "1,3"] * 2], "name each input once"),
    (["viz", "net", "-o", "x.svg", *["--data-shape", "a=1,3"] * 2], "name each input once"),
    (["export", "net", "out", "--backend", "tensorrt"], "invalid choice: 'tensorrt'"),
    (["viz", "net"], "required: -o/--output"),
])
def test_misspelled(arguments, text, folder, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2 and text in capsys.readouterr().err
