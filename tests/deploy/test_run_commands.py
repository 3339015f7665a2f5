"""gluonops detect and gluonops classify on exported files."""
import json
import pathlib
import runpy

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.commands import cli
from PIL import Image


@pytest.mark.parametrize("form", ["symbol", "onnx"])
def test_detect(form, detector, export, picture, tmp_path, capsys, monkeypatch):
    """It shows results on the screen, as pictures and as JSON, of one picture and of several."""
    net = export(detector, form, (1, 3, 96, 96))
    monkeypatch.chdir(tmp_path)
    one, two = (pathlib.Path(picture(96, 64, name)[0]).name for name in ("one.png", "two.jpg"))
    assert cli.main(["detect", net, one, "-o", "found.png"]) == 0
    assert capsys.readouterr().out == f"{one}: 1 found\n  dog  0.80  at 10 0 40 24\ndrawn into found.png\n"
    with Image.open("found.png") as drawn:
        assert drawn.size == (96, 64)

    assert cli.main(["detect", net, one, two, "--threshold", "0.05", "-o", "new/found", "--json", "found.json"]) == 0
    assert f"{two}: 2 found\n" in capsys.readouterr().out
    assert sorted(path.name for path in pathlib.Path("new/found").iterdir()) == [one, two]
    rows = json.loads(pathlib.Path("found.json").read_text())
    assert [row["image"] for row in rows] == [one, two] and rows[0]["output"] == "new/found/one.png"
    assert rows[1]["detections"][0] == {"name": "dog", "class": 1, "score": 0.8, "box": [10, 0, 40, 24]}
    assert cli.main(["detect", net, one, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"image": one, "detections": rows[0]["detections"][:1]}]


def test_folders(detector, means, export, picture, tmp_path, capsys, monkeypatch):
    """Images of one name in several folders are several pictures, in a folder of the same layout."""
    export(detector, "symbol", (1, 3, 96, 96))
    export(means(), "onnx", (1, 3, 8, 8))
    monkeypatch.chdir(tmp_path)
    for name in ("photos/a.png", "photos/deep/a.png", "photos/deep/b.jpg", "others/a.png"):
        pathlib.Path(name).parent.mkdir(parents=True, exist_ok=True)
        picture(96, 64, name)
    pathlib.Path("photos/notes.txt").write_text("no image")

    def drawn(folder, *words):
        assert cli.main([*words, "-o", folder]) == 0
        return {path.relative_to(folder).as_posix() for path in pathlib.Path(folder).rglob("*.*")}

    assert drawn("one", "detect", "net", "photos") == {"a.png", "deep/a.png", "deep/b.jpg"}
    assert "photos/deep/b.jpg: 1 found\n" in capsys.readouterr().out
    assert drawn("two", "classify", "net.onnx", "others") == {"a.png"}
    assert drawn("three", "detect", "net", "photos", "others") == {
        "photos/a.png", "photos/deep/a.png", "photos/deep/b.jpg", "others/a.png"}
    assert drawn("four", "detect", "net", "photos/a.png", "photos/deep/a.png") == {"a.png", "deep/a.png"}


@pytest.mark.parametrize("form", ["symbol", "onnx"])
def test_classify(form, means, export, picture, tmp_path, capsys, monkeypatch):
    net = export(means(), form, (1, 3, 8, 8))
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (8, 8), (0, 255, 0)).save("grass.png")
    assert cli.main(["classify", net, "grass.png", "--top", "2", "-o", "classes.png"]) == 0
    assert capsys.readouterr().out == "grass.png\n   57.6%  green\n   21.2%  red\ndrawn into classes.png\n"
    with Image.open("classes.png") as drawn:
        assert drawn.width == 224
    assert cli.main(["classify", net, "grass.png", "--json"]) == 0
    row, = json.loads(capsys.readouterr().out)
    assert [guess["name"] for guess in row["predictions"]] == ["green", "red", "blue"]
    assert row["predictions"][0] == {"name": "green", "class": 1, "score": pytest.approx(0.576117)}


def test_refused(detector, means, export, picture, tmp_path, capsys, monkeypatch):
    """The error is one line, and nothing is written."""
    export(detector, "symbol", (1, 3, 96, 96))
    export(means(), "onnx", (1, 3, 8, 8))
    monkeypatch.chdir(tmp_path)
    picture(96, 64, "a.png"), picture(96, 64, "b.png")
    pathlib.Path("deep").mkdir()
    picture(96, 64, "deep/a.png")
    pathlib.Path("empty").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for words, text in (
            (["detect", "a.png", "net"],
             "a.png is neither an exported net (there is no a.png-symbol.json, and it is no .onnx file) nor a Darknet "
             ".cfg. Write gluonops detect PREFIX IMAGE ..., or gluonops detect CFG WEIGHTS IMAGE ..."),
            (["detect", "net.onnx", "a.png"],
             "net.onnx is a classifier, for which there is another command. Run: gluonops classify"),
            (["classify", "net", "a.png"],
             "net is a detector, for which there is another command. Run: gluonops detect net"),
            (["detect", "net", "a.png", "--nms", "0.3"],
             "nms was passed for the exported net net, in which it is fixed"),
            (["detect", "net", "a.png", "missing.png", "-o", "new"], "missing.png cannot be read"),
            (["detect", "net", "a.png", "b.png", "-o", "new.png"], "-o new.png is one picture, and there are 2 images"),
            (["detect", "net", "a.png", "-o", "new"], "cannot write new: no extension is not an image format"),
            (["detect", "net", "a.png", "-o", "a.png"], "a.png is one of the images, and would be replaced"),
            (["detect", "net", "a.png", "b.png", "-o", "."], "a.png is one of the images, and would be replaced"),
            (["detect", "net", "empty"], "empty has no images (.jpg, .jpeg, .png, .bmp, ...)")):
        assert cli.main(words) == 1, words
        printed = capsys.readouterr()
        assert printed.out == "" and len(printed.err.splitlines()) == 1 and text in printed.err
        assert sorted(tmp_path.rglob("*")) == before


def test_darknets_classifier(tmp_path, capsys, monkeypatch):
    """Its names are in the files that convert writes."""
    golden = pathlib.Path(__file__).parents[1] / "golden" / "darknet"
    cfg = golden / "mini-classifier.cfg"
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(golden / "random_weights.py"))["write"](str(cfg), 5, "net.weights")
    Image.new("RGB", (30, 20), "red").save("a.png")
    assert cli.main(["classify", str(cfg), "net.weights", "a.png", "--names", "no.names"]) == 1
    net = gops.darknet.load(str(cfg), "net.weights")
    count = net(mx.nd.zeros((1, *net.input_shape))).shape[1]
    pathlib.Path("classes.names").write_text("\n".join(f"class {i}" for i in range(count)))
    capsys.readouterr()
    words = ["a.png", "--top", "3", "--json"]
    assert cli.main(["classify", str(cfg), "net.weights", *words, "--names", "classes.names"]) == 0
    guesses = json.loads(capsys.readouterr().out)[0]["predictions"]
    assert guesses[0]["name"].startswith("class ")
    assert cli.main(["convert", str(cfg), "net.weights", "net", "--names", "classes.names"]) == 0
    capsys.readouterr()
    assert cli.main(["classify", "net", *words]) == 0
    again = json.loads(capsys.readouterr().out)[0]["predictions"]
    assert [guess["name"] for guess in again] == [guess["name"] for guess in guesses]
    np.testing.assert_allclose([one["score"] for one in again], [one["score"] for one in guesses], atol=1e-5)
