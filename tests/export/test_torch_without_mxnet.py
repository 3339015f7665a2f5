"""gops.export.torch where MXNet is not installed: the same bytes as with MXNet, or what is lacking."""
import json
import pathlib
import re
import subprocess
import sys

import files_of_others as others
import gluonops as gops
import mxnet as mx
import no_mxnet
import numpy as np
import pytest
import test_legacy_files as legacy
from mxnet import gluon
from mxnet.gluon import nn

pytest.importorskip("torch")
pytest.importorskip("safetensors")

FILES = ("net.py", "net.safetensors", "names.json", "origin-symbol.json")
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
PROGRAM = """
import json, sys, warnings
import gluonops as gops

for prefix, shapes, training in json.loads(sys.argv[1]):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            said = gops.export.torch(prefix, "without/" + prefix, shapes, training=training)
        except gops.OpError as error:
            said = str(error)
    print(json.dumps([said, [str(one.message) for one in caught if one.category is gops.export.ExportWarning]]))
assert "mxnet" not in sys.modules
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that runs Python in a folder of files, in a process that does not find MXNet."""
    monkeypatch.chdir(tmp_path)
    environment = no_mxnet.environment(tmp_path)

    def run(*words, code=0):
        done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, encoding="utf-8")
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr
    return run


class Grid(nn.HybridBlock):
    """Data and the number of each of their columns, from an arange."""

    def hybrid_forward(self, F, x):
        columns = F.tile(F.reshape(F.arange(8, repeat=2), (1, 1, 2, 8)), (1, 1, 4, 1)) * 0.1
        return F.broadcast_add(x, columns)


def of_layers(prefix):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1), nn.BatchNorm(), nn.LeakyReLU(0.1), Grid(), gops.nn.Reorg(2), gops.nn.Mish(),
            nn.GlobalAvgPool2D(), nn.Dense(3))
    net[0].weight.lr_mult = 0.5
    net.classes, net.preprocessing = ["a", "b", "c"], {"colours": "BGR", "resize": "crop"}
    net.initialize(mx.init.Normal(0.3))
    gops.export.symbol(net, prefix, (1, 3, 8, 8), backend="custom")
    return None, False


def of_time(prefix):
    net = nn.HybridSequential()
    net.add(gluon.rnn.LSTM(5, layout="NTC"), nn.Dense(2))
    net.initialize(mx.init.Normal(0.3))
    gops.export.symbol(net, prefix, (4, 6, 3))
    return None, False


def of_cells(prefix):
    class Cells(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.first, self.second = gluon.rnn.LSTMCell(4, input_size=3), gluon.rnn.GRUCell(4, input_size=4)

        def hybrid_forward(self, F, x):
            for cell in (self.first, self.second):
                x = cell.unroll(3, x, layout="NTC", merge_outputs=True)[0]
            return F.softmax(x)   # has a mean without a gradient

    net = Cells()
    net.initialize(mx.init.Normal(0.3))
    gops.export.symbol(net, prefix, (4, 3, 3))
    return None, False


def of_training(prefix):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3), nn.BatchNorm(), nn.Dense(5))
    net.initialize(mx.init.Normal(0.3))
    gops.export.symbol(net, prefix, (4, 3, 8, 8), head="softmax_output", backend="custom")
    return None, True


def of_others(name):
    def write(prefix):
        symbol, shapes = mx.sym.load_json(legacy.text_of(name)), legacy.FILES[name]
        arrays = others.arrays_of(symbol, shapes, np.random.RandomState(0))
        others.save(prefix, legacy.text_of(name), arrays, symbol.list_auxiliary_states(), shapes)
        return {name: shape for name, shape in shapes.items() if not name.endswith("label")}, False
    return write


NETS = {"layers": of_layers, "time": of_time, "cells": of_cells, "training": of_training,
        **{name: of_others(name) for name in ("save000800", "gotest", "det1")}}


def check_bytes(name, folder):
    for file in FILES:
        assert pathlib.Path("with", name, file).read_bytes() == pathlib.Path(folder, file).read_bytes(), (name, file)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the net is exported for inference")
def test_the_same_bytes(run):
    wanted = [(name, *write(name)) for name, write in NETS.items()]
    for (name, shapes, training), line in zip(wanted, run("-c", PROGRAM, json.dumps(wanted)).splitlines()):
        written, notes = json.loads(line)
        assert notes[-1] == "net.py is not compared with MXNet, because MXNet is not installed"
        assert [pathlib.Path(path).name for path in written] == [*FILES, "test_net.py"]
        gops.export.torch(name, f"with/{name}", shapes, training=training)
        check_bytes(name, f"without/{name}")
        assert "3 passed" in run(*PYTEST, f"without/{name}/test_net.py")


def test_the_command(run):
    of_layers("layers")
    text = run("-m", "gluonops", "export", "layers", "--torch", "port", "--data-shape", "2,3,8,8")
    assert "note: net.py is not compared with MXNet, because MXNet is not installed" in text
    gops.export.torch("layers", "with/layers", (2, 3, 8, 8))
    check_bytes("layers", "port")
    source = pathlib.Path("port", "net.py")
    assert "def classify(" in source.read_text()
    source.write_text(source.read_text().replace("nn.Linear(32, 3)", "nn.Linear(32, 4)"))
    assert "3 failed" in run(*PYTEST, "port/test_net.py", code=1)
    text = run("-m", "gluonops", "export", "layers", "out", code=1)
    assert text.startswith("gluonops: MXNet is not installed.") and "gluonops.export.rewrite needs MXNet" in text


@pytest.mark.parametrize("make, what", [
    (lambda x: gops.ops.region_decode(x, (1, 1), 1, name="decoded"),
     r"'decoded' \(gluonops_region_decode\) has no converter to torch itself, and MXNet, .* is not installed"),
    (lambda x: mx.sym.im2col(x, kernel=(3, 3), name="special"),
     "'special' is the operator im2col, which gluonops"),
    (lambda x: mx.sym.broadcast_add(x, mx.sym.eye(8, name="eye")), "the node 'eye' is the operator _eye"),
    (lambda x: mx.sym.Convolution(x, kernel=(3, 3), num_filter=2, name="conv"), "has no value for conv_weight"),
    (lambda x: mx.sym.Reshape(x, shape=(7, -1), name="rows"), r"refuses the shape of data .*: 'rows' \(Reshape\)"),
    (lambda x: mx.sym.Activation(x, act_type="softsign", name="act"),   # becomes celu
     r"'act' \(Activation\) has act_type 'celu'; expected relu, sigmoid, softrelu, softsign, tanh")])
def test_what_it_lacks(make, what, run):
    pathlib.Path("net-symbol.json").write_text(make(mx.sym.var("data")).tojson().replace("softsign", "celu"))
    mx.nd.save("net-0000.params", {})
    said, _ = json.loads(run("-c", PROGRAM, json.dumps([("net", (1, 6, 8, 8), False)])))
    assert re.search(what, said), said
    assert not pathlib.Path("without/net").exists() or not list(pathlib.Path("without/net").iterdir())


def broken(op, attrs=None, inputs=((0, 0, 0),), head=0):
    """Symbol JSON that MXNet would refuse."""
    nodes = [{"op": "null", "name": "data", "inputs": []},
             {"op": op, "name": "node", "attrs": attrs or {}, "inputs": list(map(list, inputs))}]
    return json.dumps({"nodes": nodes, "arg_nodes": [0], "heads": [[1, head, 0]],
                       "attrs": {"mxnet_version": ["int", 10901]}})


BROKEN = {
    "no_number": (broken("Dropout", {"p": "{}"}), r"'node' \(Dropout\) has p '{}'; expected a number"),
    "word": (broken("_plus_scalar", {"scalar": "abc"}), r"'node' \(_plus_scalar\) has scalar 'abc'; expected a number"),
    "output": (broken("sin", head=1), "output 1 of 'node' does not follow"),
    "read_output": (broken("sin", inputs=[(0, 1, 0)]), "reads output 1 of the node 'data', which has no such output"),
    "no_inputs": (broken("SoftmaxOutput", inputs=[]), r"'node' \(SoftmaxOutput\) has 0 inputs; expected 1"),
    "few_inputs": (broken("elemwise_mul"), r"'node' \(elemwise_mul\) cannot be exported to PyTorch: it has 1 input; "
                   r"expected more"),
    "no_op_type": (broken("Custom"), "'node' is the operator Custom, which gluonops does not know"),
    "huge": (broken("tile", {"reps": "99999999999"}), "net.py fails: RuntimeError"),
}


def test_files_that_mxnet_would_refuse(run):
    for name, (text, _) in BROKEN.items():
        pathlib.Path(f"{name}-symbol.json").write_text(text)
        mx.nd.save(f"{name}-0000.params", {})
    lines = run("-c", PROGRAM, json.dumps([(name, (1, 6, 8, 8), False) for name in BROKEN])).splitlines()
    for (_, what), line in zip(BROKEN.values(), lines):
        assert re.search(what, json.loads(line)[0]), line
    assert len(lines) == len(BROKEN) and not pathlib.Path("without").exists()
