"""Files are listed, checked, read and converted without MXNet, and it reads the same."""
import csv
import io
import json
import tarfile

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.commands import cli
from mxnet.gluon import nn
from safetensors import safe_open


@pytest.fixture
def net(tmp_path, monkeypatch):
    """net-symbol.json and net-0003.params, of MXNet alone, in the working directory. Returns the arrays."""
    monkeypatch.chdir(tmp_path)
    made = nn.HybridSequential(prefix="net_")
    with made.name_scope():
        made.add(nn.Conv2D(4, 3), nn.BatchNorm(), nn.Dense(3))
    made.initialize()
    made.hybridize()
    made(mx.nd.ones((1, 3, 6, 6)))
    made.export("net", epoch=3)
    return {name: value.asnumpy() for name, value in mx.nd.load("net-0003.params").items()}


def changed(change):
    """Change the arrays of the net."""
    values = gops.files.read("net")
    change(values)
    gops.files.write("net-0003.params", values)


def test_a_net(net):
    found = gops.files.describe("net")
    assert found["kind"] == "net" and found["mxnet"] == "1.9.1" and found["inputs"] == ["data"]
    assert found["outputs"] == ["net_dense0_fwd"]
    assert found["operators"] == {"Convolution": 1, "BatchNorm": 1, "FullyConnected": 1}
    assert found["values"] == sum(value.size for value in net.values())
    assert {item["name"]: tuple(item["shape"]) for item in found["arrays"]} == {
        name: value.shape for name, value in net.items()}
    assert json.loads(json.dumps(found)) == found
    for path in ("net", "net-symbol.json", "net-0003.params", "."):
        read = gops.files.read(path)
        assert list(read) == list(net) and all((read[name] == net[name]).all() for name in net)
        assert gops.files.check(path) == []


@pytest.mark.parametrize("change, text", [
    (lambda values: values.pop("arg:net_conv0_bias"), "no value for net_conv0_bias"),
    (lambda values: values.update({"arg:more": np.ones(2), "arg:most": np.ones(2)}), "no node reads more, most"),
    (lambda values: values.update({"aux:net_batchnorm0_moving_var": values.pop("aux:net_batchnorm0_running_var")}),
     "net_batchnorm0_running_var is called net_batchnorm0_moving_var in the file"),
    (lambda values: values.update({"arg:net_dense0_bias": np.array([1, np.nan, 2])}),
     "net_dense0_bias has values that are not finite"),
    (lambda values: values.update({"arg:net_conv0_weight": np.ones((5, 3, 3, 3))}),
     "net_conv0_weight has the shape (5, 3, 3, 3), and net_conv0_fwd has num_filter 4"),
    (lambda values: values.update({"arg:net_conv0_weight": np.ones((4, 3, 3, 1))}),
     "net_conv0_weight has the shape (4, 3, 3, 1), and net_conv0_fwd has the kernel (3, 3)"),
    (lambda values: values.update({"arg:net_dense0_weight": np.ones(())}),
     "net_dense0_weight has the shape (), and net_dense0_fwd has num_hidden 3")])
def test_what_is_wrong_with_a_net(change, text, net):
    changed(change)
    assert gops.files.check("net") == [text]


@pytest.mark.parametrize("path, text", [
    ("nowhere", "there is no file nowhere-symbol.json"), ("net-0009.params", "net-0009.params cannot be read: No such"),
    ("short.params", "short.params is not a file of arrays, or it is damaged: byte"),
    ("short.rec", "short.rec has no record at byte 0"),
    ("bad", "bad-symbol.json is not a symbol in JSON")])
@pytest.mark.parametrize("run", [gops.files.describe, gops.files.check, lambda path: gops.files.convert(path, "out")],
                         ids=["describe", "check", "convert"])
def test_what_cannot_be_read(run, path, text, net, tmp_path):
    for name in ("short.params", "short.rec", "bad-symbol.json", "bad-0000.params"):
        (tmp_path / name).write_bytes((tmp_path / "net-0003.params").read_bytes()[:-3])
    with pytest.raises(gops.OpError, match=text):
        run(path)
    assert not (tmp_path / "out").exists()


def test_safetensors(net):
    assert gops.files.convert("net", "net.safetensors") == "net.safetensors"
    with safe_open("net.safetensors", "numpy") as file:
        assert json.loads(file.metadata()["auxiliary_states"]) == ["net_batchnorm0_running_mean",
                                                                   "net_batchnorm0_running_var"]
        assert set(file.keys()) == {name[4:] for name in net}
        for name, value in net.items():
            np.testing.assert_array_equal(file.get_tensor(name[4:]), value)
    changed(lambda values: values.update({"aux:net_dense0_bias": np.ones(3)}))
    with pytest.raises(gops.OpError, match="has two values for net_dense0_bias"):
        gops.files.convert("net", "net.safetensors")


def test_older_arrays_become_todays(net, tmp_path):
    mx.nd.save("theirs.params", mx.nd.load("net-0003.params"))
    gops.files.convert("net", "ours.params")
    assert (tmp_path / "ours.params").read_bytes() == (tmp_path / "theirs.params").read_bytes()


def test_a_folder_of_arrays(net, tmp_path):
    """No name of an array leads out of it."""
    changed(lambda values: values.update({"../../up": np.ones(2, "float16")}))
    gops.files.convert("net", "folder")
    assert np.load("folder/..%2F..%2Fup.npy").dtype == "float16"
    for name, value in net.items():
        np.testing.assert_array_equal(np.load(f"folder/{name.replace(':', '%3A')}.npy"), value)
    assert mx.sym.load("folder/symbol.json").list_inputs() == mx.sym.load("net-symbol.json").list_inputs()
    with pytest.raises(gops.OpError, match="folder exists; expected the name of a new folder"):
        gops.files.convert("net", "folder")
    assert {path.name for path in tmp_path.iterdir()} == {"net-symbol.json", "net-0003.params", "folder"}


def test_records(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    picture = mx.image.imresize(mx.nd.ones((2, 2, 3), dtype="uint8"), 4, 4).asnumpy()
    file = mx.recordio.MXRecordIO("a.rec", "w")
    contents = [mx.recordio.pack_img(mx.recordio.IRHeader(0, 3.0, 7, 0), picture, img_fmt=".png"),
                mx.recordio.pack(mx.recordio.IRHeader(0, [1.0, 0.5], 8, 0), b"something")]
    for content in contents:
        file.write(content)
    file.close()
    assert gops.files.describe("a.rec") == {"kind": "records", "records": 2, "labels": {1: 1, 2: 1},
                                            "formats": {"png": 1, "bin": 1}}
    assert gops.files.check("a.rec") == []
    assert [item.number for item in gops.files.records("a.rec")] == [7, 8]
    gops.files.convert("a.rec", "pictures")
    rows = list(csv.reader((tmp_path / "pictures" / "records.csv").read_text().splitlines()))
    assert rows == [["00000000.png", "7", "3.0"], ["00000001.bin", "8", "1.0", "0.5"]]
    assert (mx.image.imread("pictures/00000000.png").asnumpy() == picture).all()
    assert (tmp_path / "pictures" / "00000001.bin").read_bytes() == b"something"
    with pytest.raises(gops.OpError, match="a.params is a file of arrays, and a.rec has records; expected a folder. "
                       "Pass"):
        gops.files.convert("a.rec", "a.params")


def test_the_command(net, capsys):
    assert cli.main(["files", "list", "net"]) == 0
    printed = capsys.readouterr().out
    assert "operators       Convolution 1, BatchNorm 1, FullyConnected 1\n" in printed
    assert "\n  arg:net_conv0_weight             float32  (4, 3, 3, 3)\n" in printed
    assert cli.main(["files", "list", "net", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == gops.files.describe("net")
    assert cli.main(["files", "check", "net"]) == 0
    assert capsys.readouterr().out.startswith("nothing is wrong\nnote: an export needs --data-shape for data\n")
    changed(lambda values: values.pop("arg:net_conv0_bias"))
    assert cli.main(["files", "check", "net", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "problems": ["no value for net_conv0_bias"], "labels": [], "shapes_needed": ["data"], "outputs_needed": [],
        "cut_at": ["net_dense0_fwd", "net_batchnorm0_fwd", "net_conv0_fwd"]}
    assert cli.main(["files", "convert", "net", "new/folder"]) == 0
    assert capsys.readouterr().out == "new/folder\n"
    with pytest.raises(SystemExit):
        cli.main(["files", "check", "net", "folder"])


def test_an_archive(net, capsys):
    """A hosted service keeps a net so."""
    with tarfile.open("model.tar.gz", "w:gz") as archive:
        for name in ("net-symbol.json", "net-0003.params"):
            archive.add(name, f"model/{name}")
        content = json.dumps({"num_classes": "3", "image_shape": "3,6,6"}).encode()
        member = tarfile.TarInfo("hyperparams.json")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    found = gops.files.describe("model.tar.gz")
    assert found["symbol"] == "net-symbol.json" and found["classes"] == 3
    assert found["hyperparameters"] == {"num_classes": "3", "image_shape": "3,6,6"}
    assert gops.files.check("model.tar.gz") == []
    assert list(gops.files.read("model.tar.gz")) == list(net)
