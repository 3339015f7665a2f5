"""make_coins.py: its boxes fit the coins, the row that is held out is in no window, and a detector finds its coins."""
import importlib
import os
import sys

import fresh
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from training_runs import EXAMPLES


@pytest.fixture
def script(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(tmp_path)
    return importlib.import_module("make_coins")


def test_windows_and_their_boxes(script):
    """In an image that is 1 in the boxes, turned, mirrored and cut boxes still hold a coin to the pixel."""
    image = np.zeros((303, 384), "uint8")
    for left, top, right, bottom in script.COINS.astype(int):
        image[top:bottom, left:right] = 1
    image[script.HELD_OUT:] = 255
    rng = np.random.RandomState(0)
    for _ in range(300):
        window, boxes = script.random_window(image, rng)
        assert window.max() == 1   # nothing of the row that is held out
        for x0, y0, x1, y1 in boxes.astype(int):
            assert x0 < x1 and y0 < y1 and window[y0:y1, x0:x1].all()
    assert len(script.part(image, 0, 0, 384, script.HELD_OUT)[1]) == 18
    _, boxes = script.part(image, 40, 0, 105, 80)   # 27 of the first coin's 45 columns, and 24 of the second's 39
    assert boxes.tolist() == [[0, 35, 27, 74], [41, 39, 65, 74]]


def test_the_boxes_are_those_of_the_coins(script):
    """Inside a box it is brighter than in the frame around it."""
    image = script.photograph().astype(float)
    for left, top, right, bottom in script.COINS.astype(int):
        frame = np.concatenate([image[max(0, top - 3), left:right], image[top:bottom, max(0, left - 3)]])
        assert image[top:bottom, left:right].mean() > frame.mean() + 20


def test_the_data_set(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["make_coins.py", "--count", "5"])
    script.main(script.arguments())
    assert "5 pictures to train on and the row of coins that is held out are in out/coins." in capsys.readouterr().out
    training, held_out = (gops.data.detection("yolo", "out/coins", split) for split in ("train", "val"))
    assert training.classes == held_out.classes == ("coin",) and (len(training), len(held_out)) == (5, 1)
    image, boxes = held_out[0]
    assert image.shape == (154, 768, 3) and len(boxes) == 6
    np.testing.assert_allclose(boxes[0, :4], [36, 14, 150, 124], atol=0.1)


def test_without_scikit_image(script, monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage", None)
    with pytest.raises(gops.OpError, match="scikit-image.* is not installed. Run: pip install scikit-image"):
        script.photograph()


@pytest.mark.slow
def test_a_detector_finds_the_row_that_it_has_not_seen(script, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["make_coins.py"])
    script.main(script.arguments())
    fresh.python("-m", "gluonops", "train", "out/coins", "--size", "192", "--batch", "8", "--out", "out/found",
                 cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "2"}).check_returncode()
    found = gops.export.load("out/found/detector").detect("out/coins/images/val/row.png")
    _, boxes = gops.data.detection("yolo", "out/coins", "val")[0]
    overlaps = gops.ops.box_iou(mx.nd.array([one.box for one in found]), mx.nd.array(boxes[:, :4])).asnumpy()
    assert len(found) == 6 and overlaps.max(0).min() > 0.5
