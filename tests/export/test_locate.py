"""A net is found by prefix, by name, in a folder and in an archive; hostile archives are refused."""
import io
import json
import os
import tarfile
import zipfile

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet.gluon import nn

SHAPE = (1, 3, 6, 6)


@pytest.fixture
def net(tmp_path, monkeypatch):
    """A net of MXNet alone in folder/net, with two epochs; the working directory is above it."""
    monkeypatch.chdir(tmp_path)
    made = nn.HybridSequential(prefix="net_")
    with made.name_scope():
        made.add(nn.Conv2D(4, 3), nn.Dense(2))
    made.initialize()
    made.hybridize()
    made(mx.nd.ones(SHAPE))
    os.mkdir("folder")
    made.export("folder/net", epoch=3)
    for parameter in made.collect_params().values():
        parameter.set_data(parameter.data() * 2)
    made.export("folder/net", epoch=7)
    return made


def weight(path, epoch=None):
    model = gops.export.ExportedModel.from_files(path, epoch)
    return model.parameters["net_dense0_bias"].asnumpy() + model.parameters["net_conv0_weight"].asnumpy().sum(), model


def pack(name, members):
    """An archive of names and contents. A None is a link to /etc/passwd."""
    if name.endswith(".zip"):
        with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in members:
                archive.writestr(member, content)
        return
    with tarfile.open(name, "w:gz" if name.endswith("gz") else "w") as archive:
        for member, content in members:
            info = tarfile.TarInfo(member)
            if content is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))


def members(tmp_path, *more):
    files = [("model/net-symbol.json", "net-symbol.json"), ("model/net-0007.params", "net-0007.params")]
    return [(name, (tmp_path / "folder" / path).read_bytes()) for name, path in files] + [*more]


def test_names(net):
    expected, model = weight("folder/net")
    assert model.epoch == 7 and model.inputs == {}
    for path in ("folder/net-symbol.json", "folder/net-0007.params", "folder"):
        np.testing.assert_array_equal(weight(path)[0], expected)
    for path, epoch in (("folder/net-0003.params", None), ("folder", 3), ("folder/net-0007.params", 3)):
        found, model = weight(path, epoch)
        assert model.epoch == 3 and (found != expected).all()
    assert gops.export.rewrite("folder/net-0003.params", "out") == ("out-symbol.json", "out-0003.params")


def test_a_folder_with_none_or_several(net, tmp_path):
    (tmp_path / "empty").mkdir()
    gops.export.rewrite("folder", "folder/other")
    for path, text in (("empty", "empty has no file that ends in -symbol.json"),
                       ("folder", "folder has the files net-symbol.json, other-symbol.json; expected one")):
        with pytest.raises(gops.OpError, match=text):
            gops.export.ExportedModel.from_files(path)


@pytest.mark.parametrize("name", ["model.tar.gz", "model.tar", "model.zip", "model.mar"])
def test_archives(name, net, tmp_path):
    """SageMaker writes them, and MXNet's model server, whose .mar is a zip."""
    synset = "model/synset.txt", b"n01 cat, small\nn02 dog\n"
    pack("model.zip" if name == "model.mar" else name, members(tmp_path, synset))
    if name == "model.mar":
        os.rename("model.zip", name)
    found, model = weight(name)
    np.testing.assert_array_equal(found, weight("folder/net")[0])
    assert model.metadata["classes"] == ["n01 cat, small", "n02 dog"]
    gops.export.onnx(name, "net.onnx", SHAPE)
    assert set(os.listdir()) == {"folder", name, "net.onnx"}


@pytest.mark.parametrize("files, shape", [
    ({"hyperparams.json": {"num_classes": "2", "image_shape": "6"}}, SHAPE),
    ({"hyperparams.json": {"num_classes": 2, "image_shape": "3,6,6"}}, SHAPE),
    ({"hyperparams.json": {"num_classes": "2"}, "model-shapes.json": [{"name": "data", "shape": list(SHAPE)}]}, SHAPE),
    ({"hyperparams.json": {"num_classes": "2"}, "signature.json":
      {"inputs": [{"data_name": "data", "data_shape": [0, 3, 6, 6]}], "input_type": "image/jpeg"}}, SHAPE)])
def test_what_the_files_beside_a_net_say(files, shape, net, tmp_path):
    pack("model.tar.gz", members(tmp_path, *((name, json.dumps(content).encode()) for name, content in files.items())))
    model = gops.export.ExportedModel.from_files("model.tar.gz")
    assert model.inputs == {"data": shape} and model.metadata["classes"] == 2
    assert model.metadata["hyperparameters"] == files["hyperparams.json"]
    gops.export.rewrite("model.tar.gz", "out")   # the files say it from now on
    model = gops.export.ExportedModel.from_files("out")
    assert model.inputs == {"data": shape} and model.metadata["classes"] == 2
    preprocessing = {"colours": "RGB", "range": [0, 1]}
    loaded = gops.export.load("model.tar.gz", preprocessing=preprocessing)
    assert {found.name for found in loaded.classify(mx.nd.zeros((6, 6, 3), dtype="uint8"))} == {"0", "1"}


@pytest.mark.parametrize("name, content, text", [
    ("model-shapes.json", b"{}", "model-shapes.json cannot be read: it is not the list"),
    ("model-shapes.json", b"[3]", "model-shapes.json cannot be read: it is not the list"),
    ("model-shapes.json", b'[{"name": "data", "shape": [1, -3]}]', r"the input 'data' .* has the shape \[1, -3\]"),
    ("model-shapes.json", b'[{"name": "data", "shape": 4}]', "has the shape 4; expected sizes"),
    ("signature.json", b"[" * 100_000, "signature.json cannot be read: "),
    ("hyperparams.json", b'{"image_shape": "3,99999999999999999999,4"}', "the input 'data' .* has the shape"),
    ("hyperparams.json", b"\xff\xfe", "hyperparams.json cannot be read: "),
    ("synset.txt", b"\xff\xff", "synset.txt cannot be read: it is not a text file")])
def test_damaged_files_beside_a_net(name, content, text, net, tmp_path):
    pack("model.tar.gz", members(tmp_path, (name, content)))
    with pytest.raises(gops.OpError, match=f"model.tar.gz: {text}" if name != "model-shapes.json" else text):
        gops.export.ExportedModel.from_files("model.tar.gz")


@pytest.mark.parametrize("name", ["model.tar.gz", "model.zip"])
def test_nothing_leaves_the_folder(name, net, tmp_path):
    """Absolute names and those with .. are files of the net like others; links and other files are left out."""
    own = members(tmp_path)
    pack(name, [("../../../../net-symbol.json", own[0][1]), ("/net-0007.params", own[1][1]), ("../evil.py", b"1")]
         + ([("labels.txt", None), ("model", None)] if name != "model.zip" else []))
    model = weight(name)[1]
    assert "classes" not in model.metadata
    assert set(os.listdir()) == {"folder", name} and not (tmp_path.parent / "evil.py").exists()


def test_hostile_archives(net, tmp_path, monkeypatch):
    own = members(tmp_path)
    pack("twice.tar.gz", [*own, ("other/net-symbol.json", own[0][1])])
    pack("bomb.zip", [*own, ("a.json", b"0" * 2 ** 20)])
    pack("many.tar.gz", [*own, *((f"{number}.txt", b"") for number in range(20))])
    (tmp_path / "cut.tar.gz").write_bytes((tmp_path / "twice.tar.gz").read_bytes()[:300])
    (tmp_path / "text.tar.gz").write_bytes(b"no archive")
    (tmp_path / "cut.zip").write_bytes((tmp_path / "bomb.zip").read_bytes()[:-30])
    monkeypatch.setattr("gluonops.export.locate.MOST_BYTES", 2 ** 18)
    monkeypatch.setattr("gluonops.export.locate.MOST_MEMBERS", 20)
    for name, text in (("twice.tar.gz", "it has 'other/net-symbol.json' a second time"),
                       ("bomb.zip", "its files are 100 times as large as the archive"),
                       ("many.tar.gz", "or more than 20 files"), ("cut.tar.gz", "it is not an archive of files"),
                       ("text.tar.gz", "it is not an archive of files"), ("cut.zip", "it is not an archive of files"),
                       ("nowhere.tar.gz", "there is no file nowhere.tar.gz-symbol.json")):
        with pytest.raises(gops.OpError, match=text):
            gops.export.ExportedModel.from_files(name)


def test_no_mutation_of_an_archive_gets_further(net, tmp_path, rng):
    for name in ("model.tar.gz", "model.tar", "model.zip"):
        pack(name, members(tmp_path))
        content = (tmp_path / name).read_bytes()
        for _ in range(40):
            damaged = bytearray(content)
            for place in rng.randint(len(damaged), size=3):
                damaged[place] = rng.randint(256)
            (tmp_path / name).write_bytes(damaged[:rng.randint(len(damaged))] if rng.rand() < 0.3 else damaged)
            try:
                gops.files.read(name)
            except gops.OpError:
                pass
    assert len(os.listdir()) == 4
