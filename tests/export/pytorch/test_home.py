"""gluonops import and gops.export.from_port: weights that were trained in PyTorch come home, compared on both sides."""
import json
import pathlib
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.commands import cli
from mxnet import gluon
from mxnet.gluon import nn

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:Please import `csr_matrix`")   # mx.nd.array, with today's SciPy
SHAPE = (2, 3, 8, 8)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Columns(nn.HybridBlock):
    """Adds the number of each column, a constant, which does not come home."""

    def hybrid_forward(self, F, x):
        return F.broadcast_add(x, F.reshape(F.arange(8), (1, 1, 1, 8)) * 0.1)


def of_layers():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(8, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), Columns(), gops.nn.Reorg(2),
                nn.Conv2D(4, 1), nn.BatchNorm(scale=False), nn.PReLU(), nn.GlobalAvgPool2D(), nn.Dense(3))
    return net, SHAPE, False


def of_sequences():
    net = nn.HybridSequential(prefix="seq_")
    with net.name_scope():
        net.add(gluon.rnn.LSTM(5, num_layers=2, bidirectional=True, layout="NTC"), nn.Dense(2))
    return net, (4, 6, 3), False


def of_one_vector():
    """A recurrent layer of Module's, whose parameters are one vector."""
    data = mx.sym.var("data")
    cell = mx.rnn.FusedRNNCell(5, 2, mode="gru", bidirectional=True, prefix="cell_")
    output, _ = cell.unroll(6, data, layout="NTC", merge_outputs=True)
    return gluon.SymbolBlock(output, data), (4, 6, 3), False


class WithLoss(nn.HybridBlock):
    """A net for training, whose loss has parameters of its own."""

    def __init__(self):
        super().__init__(prefix="loss_")
        with self.name_scope():
            self.body = nn.Dense(4, in_units=5)
            self.head = gops.nn.ArcFaceHead(classes=3, features=4, scale=8)

    def hybrid_forward(self, F, data, label):
        return self.head(F.tanh(self.body(data)), label)


NETS = {"layers": of_layers, "sequences": of_sequences, "vector": of_one_vector,
        "losses": lambda: (WithLoss(), {"data": (4, 5), "label": (4,)}, True)}


def export(name, folder="port"):
    """Write a net to a folder of PyTorch. Returns it."""
    net, shape, training = NETS[name]()
    mx.random.seed(1)
    net.initialize(mx.init.Normal(0.3))
    gops.export.torch(net, folder, shape, training=training)
    return net


def loaded(folder="port"):
    from gluonops.export.torch.verify import load
    return load(pathlib.Path(folder)).load()


def inputs_of(name):
    drawing = np.random.RandomState(0)
    if name == "losses":
        return drawing.normal(size=(4, 5)).astype("float32"), np.array([0, 1, 2, 0], "float32")
    return drawing.uniform(-1, 1, NETS[name]()[1]).astype("float32"),


def trained(name, folder="port"):
    """The net of a folder after three steps of SGD."""
    net = loaded(folder).train()
    optimizer = torch.optim.SGD([value for value in net.parameters() if value.requires_grad], 0.01, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        outputs = net(*map(torch.from_numpy, inputs_of(name)))
        (outputs if name == "losses" else outputs.square()).mean().backward()
        optimizer.step()
    return net.eval()


def run_in_mxnet(prefix, arrays):
    symbol, arguments, states = mx.model.load_checkpoint(prefix, 0)
    names = sorted(each for each in symbol.list_arguments() if each not in arguments)   # data, and perhaps label
    values = {**arguments, **dict(zip(names, map(mx.nd.array, arrays)))}
    return symbol.bind(mx.cpu(), values, grad_req="null", aux_states=states).forward()[0].asnumpy()


@pytest.mark.parametrize("name", NETS)
def test_a_trained_net_comes_home(name):
    """Module's files compute what PyTorch does with the trained weights; they have the net's names."""
    net = export(name)
    port = trained(name)
    torch.save(port.state_dict(), "trained.pt")
    assert gops.export.from_port("port", "trained.pt", "home") == ["home-symbol.json", "home-0000.params"]
    with torch.no_grad():
        expected = port(*map(torch.from_numpy, inputs_of(name))).numpy()
    np.testing.assert_allclose(run_in_mxnet("home", inputs_of(name)), expected, rtol=1e-4, atol=1e-5)
    before = {key: value.data().copy().asnumpy() for key, value in net.collect_params().items()}
    net.collect_params().load("home-0000.params")   # into the Gluon net itself
    after = {key: value.data().copy().asnumpy() for key, value in net.collect_params().items()}
    assert any((before[key] != after[key]).any() for key in before)
    assert {key.partition(":")[2] for key in mx.nd.load("home-0000.params")} == set(net.collect_params())


def test_files_with_a_head_come_home():
    """The head of the files stays, though the port was written without it; so do their metadata."""
    net, _, _ = of_layers()
    net.classes, net.preprocessing = ["a", "b", "c"], {"colours": "RGB"}
    net.initialize(mx.init.Normal(0.3))
    gops.export.symbol(net, "old", SHAPE, head="softmax_output", epoch=7)
    with pytest.warns(gops.export.ExportWarning, match="exported for inference"):
        gops.export.torch("old", "port")
    torch.save(loaded().state_dict(), "same.pt")
    gops.export.from_port("port", "same.pt", "home")
    old, home = (json.loads(pathlib.Path(name).read_text()) for name in ("old-symbol.json", "home-symbol.json"))
    assert [(node["op"], node["name"]) for node in home["nodes"]] == [(n["op"], n["name"]) for n in old["nodes"]]
    assert json.loads(home["attrs"]["gluonops"][1])["classes"] == ["a", "b", "c"]
    old, home = (mx.nd.load(name) for name in ("old-0007.params", "home-0000.params"))
    assert old.keys() == home.keys()
    assert all((old[key] == home[key]).min().asscalar() for key in old)


def test_half_precision_comes_home():
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=4))
    net.initialize()
    net.cast("float16")
    gops.export.torch(net, "port", (2, 4))
    torch.save(loaded().float().state_dict(), "trained.pt")
    gops.export.from_port("port", "trained.pt", "home")
    assert {value.dtype for value in mx.nd.load("home-0000.params").values()} == {np.float16}


# What people save, from a net of torch.
def as_safetensors(net):
    from safetensors.torch import save_file
    save_file({key: value.contiguous() for key, value in net.state_dict().items()}, "w.safetensors")
    return "w.safetensors"


def saved(content):
    torch.save(content, "w.pt")
    return "w.pt"


FORMATS = {
    "safetensors": as_safetensors,
    "state_dict": lambda net: saved(net.state_dict()),
    "lightning": lambda net: saved({"epoch": 3, "state_dict": {f"net.{k}": v for k, v in net.state_dict().items()}}),
    "checkpoint": lambda net: saved({"model": net.state_dict(), "optimizer": {"state": {}, "param_groups": []}}),
    "parallel": lambda net: saved(torch.nn.DataParallel(net).state_dict()),
    "compiled": lambda net: saved({f"_orig_mod.{key}": value for key, value in net.state_dict().items()}),
    "parameters": lambda net: saved({key: torch.nn.Parameter(value) if value.is_floating_point() else value
                                     for key, value in net.state_dict().items()}),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_of_weights(name):
    export("layers")
    net = trained("layers")
    gops.export.from_port("port", FORMATS[name](net), "home")
    values = mx.nd.load("home-0000.params")
    keys = json.loads(pathlib.Path("port/names.json").read_text())
    weight, = (key for key, ours in keys.items() if ours.endswith("dense0_weight"))
    np.testing.assert_array_equal(values["arg:net_dense0_weight"].asnumpy(), net.state_dict()[weight].numpy())


def test_brain_floats():
    """They become float32; the net's constants are computed anew."""
    export("layers")
    net = loaded().bfloat16()
    gops.export.from_port("port", FORMATS["safetensors"](net), "home")
    assert {value.dtype for value in mx.nd.load("home-0000.params").values()} == {np.float32}


def misfits(net):
    """Weights with three faults."""
    weights = net.state_dict()
    ours = json.loads(pathlib.Path("port/names.json").read_text())
    names = [key for key, value in weights.items() if ours.get(key, "").endswith("_weight") and value.dim() > 1]
    del weights[names[0]]
    weights[names[-1]] = torch.zeros(5, 4)
    weights["further.weight"] = torch.zeros(2)
    return weights, names


def test_what_does_not_fit_is_listed_and_nothing_is_written(folder, capsys):
    export("layers")
    weights, names = misfits(loaded())
    torch.save(weights, "w.pt")
    pathlib.Path("home-0000.params").write_text("old")
    before = sorted(folder.rglob("*"))
    assert cli.main(["import", "port", "w.pt", "--into", "home"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("gluonops.export.from_port: w.pt does not fit port: it lacks ") and error.count("\n") == 1
    assert f"it lacks {names[0]} (8, 3, 3, 3); it has other shapes: {names[-1]} (5, 4) where (3, 4) is expected; " \
        "the net does not have its further.weight. Nothing was written." in error
    assert sorted(folder.rglob("*")) == before and pathlib.Path("home-0000.params").read_text() == "old"


def test_a_net_that_was_changed_is_refused(folder, capsys):
    """The weights fit, and net.py computes something else: MXNet would, too."""
    export("layers")
    path = pathlib.Path("port/net.py")
    torch.save(loaded().state_dict(), "w.pt")
    changed = path.read_text().replace("nn.ReLU()", "nn.ELU()").replace("F.relu(", "F.elu(")
    assert changed != path.read_text()
    path.write_text(changed)
    before = sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts)
    assert cli.main(["import", "port", "w.pt", "--into", "new/home"]) == 1
    error = capsys.readouterr().err
    assert "net.py does not compute what MXNet does" in error and "begin to differ" in error
    assert sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts) == before
    assert cli.main(["import", "port", "w.pt", "--into", "new/home", "--force"]) == 0
    printed = capsys.readouterr().out
    assert "note: net.py does not compute what MXNet does" in printed and "(too large: at most" in printed
    assert pathlib.Path("new/home-symbol.json").is_file()


def test_the_command(capsys):
    export("layers")
    torch.save(trained("layers").state_dict(), "w.pt")
    assert cli.main(["import", "port", "w.pt", "--into", "new/home", "--backend", "native"]) == 0
    first, second, *differences = capsys.readouterr().out.splitlines()
    assert (first, second) == ("new/home-symbol.json", "new/home-0000.params")
    assert len(differences) == 2 and all("(good: at most " in line for line in differences)
    assert differences[0].startswith("home, net_dense0_fwd_output: largest absolute difference ")
    assert "relative to the largest gradient" in differences[1]
    assert "gluonops_reorg" in pathlib.Path("new/home-symbol.json").read_text()
    assert cli.main(["import", "port", "w.pt", "--into", "home", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["written"] == ["home-symbol.json", "home-0000.params"] and len(said["differences"]) == 2


class Ran:
    """Code that a file could run."""

    def __reduce__(self):
        return pathlib.Path("ran").write_text, ("",)


def damage(what):
    """A function that damages the port or the weights."""
    def write(path, content):
        return lambda: pathlib.Path(path).write_bytes(content)

    def remove(path):
        return lambda: pathlib.Path(path).unlink()
    return {
        "code": lambda: torch.save({"a": Ran()}, "w.pt"),
        "text": write("w.pt", b"hello"), "nothing": write("w.pt", b""),
        "safetensors": write("w.pt", b"\x10" + bytes(7) + b"{}"),
        "lfs": write("w.pt", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
        "no weights": lambda: torch.save({"epoch": 3, "lr": 0.1}, "w.pt"),
        "missing": remove("w.pt"), "no names": remove("port/names.json"), "older": remove("port/origin-symbol.json"),
        "no source": remove("port/net.py"), "names": write("port/names.json", b"[]"),
        "not JSON": write("port/names.json", b"{"), "other names": write("port/names.json", b"{}"),
        "not finite": lambda: torch.save({key: value * np.nan for key, value in loaded().state_dict().items()}, "w.pt"),
        "graph": write("port/origin-symbol.json", b"{}"),
    }[what]


@pytest.mark.parametrize("what, text", [
    ("code", "w.pt cannot be read as weights: Weights only load failed"),
    ("text", "w.pt cannot be read as weights: "), ("nothing", "w.pt cannot be read as weights: "),
    ("safetensors", "w.pt cannot be read: "), ("lfs", "w.pt is a Git LFS pointer"),
    ("no weights", "w.pt has the entries epoch, lr; expected a state_dict, or one under 'state_dict' or 'model'"),
    ("missing", "the file of weights w.pt cannot be read: No such file"),
    ("no names", "there is no file port/names.json; expected a folder that gluonops export --torch"),
    ("older", "there is no file port/origin-symbol.json, which has the net of MXNet: an older gluonops wrote port. "
     "Export the net to this folder again"),
    ("no source", "there is no file port/net.py"), ("names", "port/names.json is damaged"),
    ("not JSON", "port/names.json is not JSON"), ("other names", "port has no value for the parameter "),
    ("not finite", "w.pt has numbers that are not finite in "), ("graph", "port/origin-symbol.json"),
])
def test_bad_input(what, text, capsys):
    export("sequences")
    torch.save(loaded().state_dict(), "w.pt")
    damage(what)()
    assert cli.main(["import", "port", "w.pt", "--into", "home"]) == 1
    error = capsys.readouterr().err
    assert text in error and error.count("\n") == 1, error
    assert not list(pathlib.Path().glob("home*")) and not pathlib.Path("ran").exists()


def test_without_torch(monkeypatch, capsys):
    """A safetensors file comes home without a comparison, which a note says; torch's own file does not."""
    export("layers")
    as_safetensors(loaded())
    torch.save(loaded().state_dict(), "w.pt")
    for name in ("torch", "safetensors.torch"):
        monkeypatch.setitem(sys.modules, name, None)
    assert cli.main(["import", "port", "w.safetensors", "--into", "home"]) == 0
    assert "note: the files are not compared with PyTorch, because torch is not installed" in capsys.readouterr().out
    assert cli.main(["import", "port", "w.pt", "--into", "other"]) == 1
    assert "w.pt is not a safetensors file, and the package torch" in capsys.readouterr().err


def test_the_folder_has_what_the_port_does_not():
    """A parameter of the loss, which the port leaves out, is in a file of its own; its value comes home unchanged."""
    net = WithLoss()
    net.initialize(mx.init.Normal(0.3))
    data, label = mx.sym.var("data"), mx.sym.var("label")
    centers = mx.sym.var("centers")
    features = mx.sym.FullyConnected(data, num_hidden=4, name="fc")
    loss = mx.sym.MakeLoss(mx.sym.mean(mx.sym.square(features - mx.sym.take(centers, label))), name="loss")
    values = {"fc_weight": mx.nd.ones((4, 3)), "fc_bias": mx.nd.zeros(4), "centers": mx.nd.ones((5, 4)) * 3}
    mx.sym.Group([mx.sym.BlockGrad(features), loss]).save("old-symbol.json")
    mx.nd.save("old-0000.params", {f"arg:{name}": value for name, value in values.items()})
    with pytest.warns(gops.export.ExportWarning, match="exported for inference"):
        gops.export.torch("old", "port", (2, 3))
    assert pathlib.Path("port/origin.safetensors").is_file()
    assert "centers" not in pathlib.Path("port/names.json").read_text()
    torch.save({key: value + 1 for key, value in loaded().state_dict().items()}, "w.pt")
    gops.export.from_port("port", "w.pt", "home")
    home = mx.nd.load("home-0000.params")
    assert home["arg:centers"].asnumpy().tolist() == values["centers"].asnumpy().tolist()
    assert home["arg:fc_weight"].asnumpy().tolist() == (values["fc_weight"] + 1).asnumpy().tolist()
