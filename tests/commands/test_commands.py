"""gluonops convert and gluonops detect, on random weights and scikit-image's photographs."""
import json
import os
import pathlib
import runpy

import fresh
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.commands import cli
from gluonops.deploy.annotate import colour
from PIL import Image

photographs = pytest.importorskip("skimage.data")   # it has no wheel for Python 3.15 yet
FOLDER = pathlib.Path(__file__).parents[1] / "golden" / "darknet"
write_weights = runpy.run_path(str(FOLDER / "random_weights.py"))["write"]


@pytest.fixture
def network(tmp_path):
    """(cfg, weights) of a small detector."""
    write_weights(FOLDER / "mini-yolov2.cfg", 21, tmp_path / "mini.weights")
    return str(FOLDER / "mini-yolov2.cfg"), str(tmp_path / "mini.weights")


@pytest.fixture
def photograph(tmp_path):
    path = tmp_path / "cat.png"
    Image.fromarray(photographs.chelsea()).save(path)
    return str(path)


def test_convert_writes_what_module_runs(network, tmp_path, capsys):
    prefix = str(tmp_path / "new" / "net")
    assert cli.main(["convert", *network, prefix]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == [f"{prefix}-symbol.json", f"{prefix}-0000.params"] and "(1, 3, 64, 96)" in printed[2]
    data = mx.nd.random.uniform(shape=(2, 3, 64, 96))
    module = mx.mod.Module.load(prefix, 0, label_names=None)
    module.bind([("data", data.shape)], for_training=False)
    module.forward(mx.io.DataBatch([data]), is_train=False)
    expected = gops.darknet.load(*network)(data).asnumpy()
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), expected, rtol=1e-4, atol=1e-4)


def test_convert_detections(network, tmp_path, capsys):
    prefix = str(tmp_path / "net")
    assert cli.main(["convert", *network, prefix, "--detections", "--threshold", "0.1", "--topk", "7", "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert written["outputs"] == ["ids", "scores", "boxes"] and written["shape"] == [1, 3, 64, 96]
    data = mx.nd.random.uniform(shape=(1, 3, 64, 96))
    block = mx.gluon.SymbolBlock.imports(written["symbol"], ["data"], written["params"])
    for found, expected in zip(block(data), gops.darknet.load(*network).detector(0.1, 0.45, 7)(data)):
        np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-3)


def test_an_image_whose_name_is_not_utf8(network, photograph, capsysbinary):
    """It is printed as it is; a picture of such a name is not drawn."""
    name = os.path.join(os.path.dirname(os.fsencode(photograph)), b"caf\xe9.png")
    os.rename(photograph, name)
    assert cli.main(["detect", *network, os.fsdecode(name)]) == 0
    assert capsysbinary.readouterr().out.startswith(name)
    assert cli.main(["detect", *network, os.fsdecode(name), "-o", os.fsdecode(name + b".png")]) == 1
    assert b"is not the name of a file; expected UTF-8" in capsysbinary.readouterr().err


@pytest.mark.parametrize("output", ["found.png", "deeper/found.jpg"])
def test_detect_draws_and_prints(output, network, photograph, tmp_path, capsys):
    names = tmp_path / "names.txt"
    names.write_text("cat\nfire engine\n")
    path = tmp_path / output
    arguments = ["detect", photograph, "--cfg", network[0], "--weights", network[1], "-o", str(path),
                 "--threshold", "0.1", "--names", str(names)]
    assert cli.main([*arguments, "--json"]) == 0
    row, = json.loads(capsys.readouterr().out)
    assert row["image"] == photograph and row["output"] == str(path)
    found = row["detections"]
    picture = photographs.chelsea()
    height, width = picture.shape[:2]
    # This computes the same by hand.
    net = gops.darknet.load(*network)
    ids, scores, boxes = net.detector(0.1)(mx.nd.array(gops.data.letterbox(picture, 96, 64)[None]))
    count = int((ids >= 0).sum().asscalar())
    assert len(found) == count > 3
    boxes = gops.data.unletterbox_boxes(boxes, (width, height), (96, 64))[0, :count].clip(0, [width, height] * 2)
    np.testing.assert_allclose([item["box"] for item in found], boxes, atol=0.01)
    np.testing.assert_allclose([item["score"] for item in found], scores.asnumpy()[0, :count, 0], atol=1e-6)
    assert {item["name"] for item in found} <= {"cat", "fire engine"}
    drawn = np.asarray(Image.open(path).convert("RGB")).astype(int)
    left, top, right, bottom = (int(side) for side in found[0]["box"])
    error = np.abs(drawn[(top + bottom) // 2, left:left + 2] - colour(found[0]["class"]))
    assert drawn.shape == picture.shape and error.max() <= (0 if output.endswith("png") else 100)
    assert cli.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == count + 2 and lines[0] == f"{photograph}: {count} found" and lines[-1] == f"drawn into {path}"
    assert lines[1].split("  at ")[0].split() == [*found[0]["name"].split(), f"{found[0]['score']:.2f}"]
    positional = ["detect", *network, photograph, "--threshold", "0.1", "--names", str(names)]
    assert cli.main(positional) == 0 and capsys.readouterr().out.splitlines() == lines[:-1]


@pytest.mark.parametrize("option, line, is_stretched", [
    ("--resize", "", True), ("--letterbox", "mosaic=1", False), (None, "mosaic=1", True),
    (None, "mosaic=1\nletter_box=1", False)])
def test_detect_resizes_as_the_program_does(option, line, is_stretched, network, photograph, tmp_path, capsys):
    """AlexeyAB's program stretches images, unless the cfg says letter_box=1; pjreddie's letterboxes them."""
    cfg = tmp_path / "net.cfg"
    cfg.write_text(pathlib.Path(network[0]).read_text().replace("[net]", f"[net]\n{line}"))
    options = ["--threshold", "0.1", *filter(None, [option])]
    assert cli.main(["detect", str(cfg), network[1], photograph, *options, "--json"]) == 0
    row, = json.loads(capsys.readouterr().out)

    picture = photographs.chelsea()
    height, width = picture.shape[:2]
    fit = gops.data.resize if is_stretched else gops.data.letterbox
    ids, scores, boxes = gops.darknet.load(cfg, network[1]).detector(0.1)(mx.nd.array(fit(picture, 96, 64)[None]))
    count = int((ids >= 0).sum().asscalar())
    boxes = boxes.asnumpy()[0, :count]
    if is_stretched:
        boxes = boxes * np.tile([width / 96, height / 64], 2)
    else:
        boxes = gops.data.unletterbox_boxes(boxes, (width, height), (96, 64))
    assert len(row["detections"]) == count > 3
    np.testing.assert_allclose([item["box"] for item in row["detections"]], boxes.clip(0, [width, height] * 2),
                               atol=0.01)

    arguments = ["convert", str(cfg), network[1], str(tmp_path / "net"), "--detections", *options]
    assert cli.main(arguments) == 0
    assert gops.export.load(tmp_path / "net").preprocessing.resize == ("stretch" if is_stretched else "letterbox")


def test_nothing_found(network, photograph, tmp_path, capsys):
    """The image is written all the same, unchanged."""
    path = tmp_path / "out.png"
    assert cli.main(["detect", photograph, "--cfg", network[0], "--weights", network[1], "-o", str(path), "--threshold",
                     "0.999"]) == 0
    assert capsys.readouterr().out == f"{photograph}: 0 found\ndrawn into {path}\n"
    np.testing.assert_array_equal(np.asarray(Image.open(path)), photographs.chelsea())


@pytest.mark.parametrize("change, text", [
    ({"cfg": "missing.cfg"}, "gluonops.darknet.load: the cfg missing.cfg cannot be read: No such file"),
    ({"weights": "short.weights"}, "gluonops.darknet.load_weights: short.weights is too short: mini_yolov2_layer00"),
    ({"image": "short.weights"}, "short.weights has 99 bytes that do not decode; expected an image"),
    ({"image": "missing.jpg"}, "the image missing.jpg cannot be read: No such file"),
    ({"image": "missing.webp"}, "the image missing.webp cannot be read: No such file"),
    ({"output": "found.weights"}, "gluonops.detect: cannot write found.weights: .weights is not an image format"),
    ({"output": "found"}, "cannot write found: no extension is not an image format"),
    ({"names": "names"}, "gluonops.export.load: classes has 1 name; expected 2, one for each class of the net"),
    ({"names": "missing"}, "gluonops.export.load: the class names in missing cannot be read"),
    ({"threshold": "1.5"}, "gluonops.darknet.Detector: threshold is 1.5; expected a finite number"),
    ({"cfg": str(FOLDER / "mini-classifier.cfg")}, "bytes too many: the last layer, mini_classifier_layer07")])
def test_errors_are_one_line(change, text, network, photograph, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("short.weights").write_bytes(pathlib.Path(network[1]).read_bytes()[:99])
    pathlib.Path("names").write_text("cat\n")
    given = {"image": photograph, "cfg": network[0], "weights": network[1], "output": "out.png", **change}
    before = sorted(path.name for path in tmp_path.iterdir())
    arguments = [item for key, value in given.items() if key != "image" for item in (f"--{key}", value)]
    assert cli.main(["detect", given["image"], *arguments]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and len(printed.err.splitlines()) == 1 and text in printed.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_as_a_command(network, tmp_path):
    done = fresh.python(str(FOLDER.parents[2] / "tools" / "gluonops"), "convert", *network, "net", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("net-symbol.json\nnet-0000.params\n")
    assert {path.name for path in tmp_path.iterdir()} == {"mini.weights", "net-symbol.json", "net-0000.params"}


def test_convert_fails_in_one_line(network, tmp_path, capsys):
    assert cli.main(["convert", *network, "/dev/null/net"]) == 1
    assert capsys.readouterr().err.startswith("gluonops.convert: the folder /dev/null cannot be made: ")
    assert cli.main(["convert", str(FOLDER / "mini-classifier.cfg"), network[1], str(tmp_path / "net")]) == 1
    assert "bytes too many" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        cli.main(["convert", *network])
    assert caught.value.code == 2 and "the following arguments are required: prefix" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mini.weights"]
