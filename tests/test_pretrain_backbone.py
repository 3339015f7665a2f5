"""tools/pretrain_backbone.py: what the backbone in the package learned from, and the file that it becomes."""
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops import data
from gluonops.models.weights import fits_backbone


@pytest.fixture
def tool(monkeypatch):
    """The script's functions, with few backgrounds and without its own main."""
    monkeypatch.syspath_prepend(str(gops.models.weights.BACKBONE.parents[2] / "tools"))
    import pretrain_backbone
    monkeypatch.setattr(pretrain_backbone, "BACKGROUNDS", 5)
    return pretrain_backbone


def test_objects(tool):
    """Each image follows from its key; outlines reach the radius 1, and none is a regular shape."""
    objects = tool.Objects(20, 3)
    labels = set()
    for index in range(20):
        image, label = objects[data.SampleKey(index, 1, None)]
        assert image.shape == (3, 64, 64) and 0 <= image.min() and image.max() <= 1 and image.std() > 0.01
        np.testing.assert_array_equal(image, objects[data.SampleKey(index, 1, None)][0])
        assert (image != objects[data.SampleKey(index, 2, None)][0]).any()
        labels.add(label)
    assert len(labels) > 10 and max(labels) < len(objects.outlines) + tool.PATCHES
    angles = np.linspace(0, 2 * np.pi, 720)
    for outline in objects.outlines:
        radii = outline(angles)
        assert radii.max() == pytest.approx(1) and radii.min() > 0 and radii.std() > 0.02
        np.testing.assert_array_equal(radii, outline(angles + 0))


def test_it_writes_a_backbone(tool, tmp_path, monkeypatch, capsys):
    path = tmp_path / "new" / "backbone.params"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pretrain_backbone.py", "--images", "8", "--batch-size", "4", "--epochs", "1",
                                      "--threads", "0", "--write", str(path)])
    tool.main(tool.arguments())
    assert f"{path} has {path.stat().st_size} bytes." in capsys.readouterr().out
    written = mx.nd.load(str(path))
    assert all(value.dtype == np.float16 for value in written.values())
    backbone = gops.models.tiny_yolov2(width=0.5).backbone
    assert fits_backbone(backbone) and set(written) == set(backbone._collect_params_with_prefix())
