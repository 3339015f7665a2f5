"""tools/pretrain_backbone.py: what the backbone in the package learned from, what it knows, and the file it becomes."""
import itertools
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops import data

ANGLES = np.linspace(0, 2 * np.pi, 720, endpoint=False)


@pytest.fixture
def tool(monkeypatch):
    """The script's functions, with few backgrounds and without its own main."""
    monkeypatch.syspath_prepend(str(gops.models.weights.BACKBONE.parents[2] / "tools"))
    import pretrain_backbone
    monkeypatch.setattr(pretrain_backbone, "BACKGROUNDS", 50)
    return pretrain_backbone


def test_objects(tool):
    """Each image follows from its key, and there is something in it."""
    objects = tool.Objects(20, 3, epochs=2)
    labels = set()
    for index in range(20):
        image, label = objects[data.SampleKey(index, 1, None)]
        assert image.shape == (3, 64, 64) and 0 <= image.min() and image.max() <= 1 and image.std() > 0.01
        np.testing.assert_array_equal(image, objects[data.SampleKey(index, 1, None)][0])
        assert (image != objects[data.SampleKey(index, 2, None)][0]).any()
        labels.add(label)
    assert len(labels) > 10 and max(labels) < len(objects.classes) == len(objects.outlines) + tool.PATCHES


def test_images_become_harder(tool):
    """The first are calm and their shapes large; without a number of epochs all are hard."""
    objects = tool.Objects(1, 3, epochs=10)
    assert [objects._hardness(epoch) for epoch in (0, 2, 4, 9)] == [0, 0.5, 1, 1]
    assert tool.Objects(1, 3)._hardness(0) == 1
    areas = [np.mean([objects._mask(np.random.RandomState(i), np.ones_like, hardness).size for i in range(50)])
             for hardness in (0, 0.5, 1)]
    assert areas[0] > areas[1] > areas[2]


def test_outlines(tool):
    """They reach the radius 1 and no farther, up to the pixels of an angle; the unseen ones are no others turned."""
    objects = tool.Objects(1, 3)
    learned, unseen = ([outline(ANGLES) for outline in outlines] for outlines in (objects.outlines,
                                                                                  tool.UNSEEN.values()))
    for radii in (*learned, *unseen):
        assert radii.max() == pytest.approx(1, abs=0.01) and radii.min() > 0
    turned = (np.arange(720) - np.arange(0, 720, 4)[:, None]) % 720
    for first, second in itertools.product(unseen, (*learned, *unseen)):
        if first is not second:
            assert np.abs(first - second[turned]).mean(1).min() > 0.02


def test_a_polygon_has_straight_sides(tool):
    """A square around the origin, from its corners in any order, is gluonops' own, turned to the same angle."""
    square = sys.modules["outlines"].Polygon([(1, 1), (-1, -1), (-1, 1), (1, -1)])
    expected = data.datasets.scenes.regular_polygon(4)(ANGLES + np.pi / 4)
    np.testing.assert_allclose(square(ANGLES), expected, atol=1e-6)


def test_the_backbone_in_the_package_knows_outlines(tool, monkeypatch):
    """Outlines of eight kinds that it has never seen, by a linear classifier on its features: chance is 0.125."""
    monkeypatch.setattr(tool, "EXAMPLES", (20, 15))
    net = gops.models.tiny_yolov2(width=0.5)
    net.initialize(mx.init.Xavier())
    net.load_pretrained_backbone()
    assert tool.probe(net.backbone) > 0.65   # with ten seeds it is 0.70 to 0.81; random weights have 0.2 at most


def test_it_writes_a_backbone(tool, tmp_path, monkeypatch, capsys):
    path = tmp_path / "new" / "backbone.params"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tool, "EXAMPLES", (2, 2))
    monkeypatch.setattr(sys, "argv", ["pretrain_backbone.py", "--images", "8", "--batch-size", "4", "--epochs", "1",
                                      "--threads", "0", "--write", str(path)])
    tool.main(tool.arguments())
    said = capsys.readouterr().out
    assert f"{path} has {path.stat().st_size} bytes." in said and "of 8 unseen outlines apart" in said
    written = mx.nd.load(str(path))
    assert all(value.dtype == np.float16 for value in written.values())
    net = gops.models.tiny_yolov2(width=0.5)
    assert net.has_pretrained_backbone and set(written) == set(net.backbone._collect_params_with_prefix())
