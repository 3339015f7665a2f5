"""The page's lines for a detector in onnxruntime alone find what gluonops finds."""
import pathlib
import re

import gluonops as gops
import mxnet as mx
import pytest

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "onnx.md"


def test_the_boxes_are_gluonops_to_a_pixel(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")   # it has no wheel for Python 3.15 yet
    monkeypatch.chdir(tmp_path)
    mx.random.seed(0)
    names = {}
    exec("".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)), names)
    found = gops.export.load("yolo.onnx").detect("photo.png", threshold=0.02)
    sides = names["boxes"].clip(0, [300, 200] * 2)
    assert len(found) > 10
    for one in found[:len(found) // 2]:   # the others may be below the threshold by a last bit
        assert abs(sides - one.box).max(1).min() < 1, one
