"""What a script says at its end."""
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops import train
from PIL import Image


@pytest.mark.parametrize("shape, mode", [((6, 9, 3), "RGB"), ((6, 9, 1), "L"), ((6, 9), "L")])
def test_an_example(tmp_path, rng, shape, mode):
    pixels = rng.randint(0, 256, shape).astype("uint8")
    for image in (pixels, mx.nd.array(pixels, dtype="uint8")):
        path = train.save_example(image, tmp_path)
        picture = Image.open(path)
        assert path == tmp_path / "example.png" and picture.mode == mode
        np.testing.assert_array_equal(np.asarray(picture), pixels.reshape(np.asarray(picture).shape))


def test_the_command_is_found(monkeypatch):
    """It also is outside of the virtual environment's shell."""
    monkeypatch.setattr("shutil.which", lambda name: "/bin/gluonops")
    said = train.how_to_run("detect", "out/my net", "a.png")
    assert "\n\ngluonops detect 'out/my net' a.png -o found.png\n\n" in said
    assert 'gops.export.load("out/my net")' in said and max(map(len, said.splitlines())) <= 80
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(sys, "executable", "/far/away/python")
    assert "\n\n/far/away/python -m gluonops classify net a.png -o classes.png\n" in train.how_to_run(
        "classify", "net", "a.png")


def test_the_snippet_runs(tmp_path, monkeypatch, capsys):
    """It is a classifier's; those of the detectors run in the tests of the examples."""
    net = gops.models.classifier("mlp", ["dark", "light"], (1, 4, 4))
    gops.export.symbol(net, tmp_path / "net", (1, 1, 4, 4))
    monkeypatch.chdir(tmp_path)
    said = train.how_to_run("classify", "net", train.save_example(np.zeros((4, 4), "uint8"), "."))
    exec(said.split("Python:\n\n")[1], {})
    assert sorted(line.split()[0] for line in capsys.readouterr().out.splitlines()) == ["dark", "light"]
    assert (tmp_path / "classes.png").exists()
