"""Anchors: k-means on 1 - IoU finds planted sizes; the command prints and plots them."""
import itertools
import json

import gluonops as gops
import numpy as np
import pytest
from folders import make_yolo, picture, save
from gluonops.commands import cli
from gluonops.data import anchors_of, detection
from gluonops.data.anchors import box_sizes, kmeans
from gluonops.data.datasets import scenes

PLANTED = np.array([[1, 1.5], [2, 6], [5, 2], [8, 9], [12, 4]])


def iou(a, b):
    common = min(a[0], b[0]) * min(a[1], b[1])
    return common / (a[0] * a[1] + b[0] * b[1] - common)


def test_finds_planted_clusters(rng):
    sizes = np.repeat(PLANTED, 200, 0) * rng.uniform(0.9, 1.1, (1000, 2))
    centres, overlap = kmeans(rng.permutation(sizes), 5, seed=1)
    np.testing.assert_allclose(centres, PLANTED[np.argsort(PLANTED.prod(1))], rtol=0.03)
    assert (np.diff(centres.prod(1)) > 0).all() and 0.88 < overlap < 0.95


def mean_iou(sizes, centres):
    return np.mean([max(iou(size, centre) for centre in centres) for size in sizes])


def test_the_mean_iou_is_that_of_the_centres(rng):
    sizes = rng.uniform(1, 9, (50, 2))
    centres, overlap = kmeans(sizes, 4)
    assert abs(overlap - mean_iou(sizes, centres)) < 1e-12


def test_exact_where_there_are_as_many_centres_as_sizes():
    centres, overlap = kmeans(np.repeat(PLANTED, 3, 0), 5)
    np.testing.assert_allclose(centres, PLANTED[np.argsort(PLANTED.prod(1))])
    assert overlap == pytest.approx(1)


def test_as_good_as_trying_all(rng):
    """No partition of a few boxes in two has better means."""
    sizes = rng.uniform(1, 9, (9, 2))
    best = 0
    for part in itertools.product((0, 1), repeat=9):
        part = np.array(part)
        if 0 < part.sum() < 9:
            best = max(best, mean_iou(sizes, [sizes[part == 0].mean(0), sizes[part == 1].mean(0)]))
    assert kmeans(sizes, 2)[1] >= best - 1e-12


def test_more_restarts_are_no_worse_and_the_seed_decides(rng):
    sizes = rng.lognormal(1, 0.7, (300, 2))
    one, ten = kmeans(sizes, 9, restarts=1)[1], kmeans(sizes, 9)[1]
    assert ten >= one
    np.testing.assert_array_equal(kmeans(sizes, 9, seed=3)[0], kmeans(sizes, 9, seed=3)[0])
    assert not np.array_equal(kmeans(sizes, 9, seed=3, restarts=1)[0], kmeans(sizes, 9, seed=4, restarts=1)[0])


@pytest.mark.parametrize("sizes, k, text", [
    (np.ones((9, 2)), 2, "there are 1 different sizes of boxes; expected at least k, 2"),
    (np.zeros((0, 2)), 1, "there are 0 different sizes"),
    (np.ones((9, 3)), 2, r"sizes has shape \(9, 3\); expected \(boxes, 2\)"),
    ([[1, 2], [0, 3]], 1, "box 1 is 0 x 3; expected finite numbers above 0"),
    ([[1, np.nan], [0, 3]], 1, "box 0 is 1 x nan; expected"), (PLANTED, 0, "k is 0; expected")])
def test_refuses(sizes, k, text):
    with pytest.raises(gops.OpError, match=f"gluonops.data.kmeans: {text}"):
        kmeans(sizes, k)


def test_sizes_are_letterboxed(tmp_path, rng):
    """A box of 16 x 24 in 64 x 48, and so on, is scaled so that the longer side of the image is 128."""
    make_yolo(tmp_path, rng)
    data = detection("yolo", tmp_path)
    np.testing.assert_allclose(box_sizes(data, 128), [[32, 48], [64, 72], [32, 64]], atol=1e-4)
    anchors, overlap, sizes = anchors_of(data, 3, 128, 32)
    np.testing.assert_allclose(anchors, [[1, 1.5], [1, 2], [2, 2.25]], atol=1e-5)
    assert overlap == pytest.approx(1) and sizes.shape == (3, 2)


def test_a_bad_image_is_named(tmp_path, rng):
    """One is so narrow that nothing of it would be left, and one has a box whose edges are one in float32."""
    make_yolo(tmp_path, rng)
    save(tmp_path / "images" / "1.png", picture((600, 2), [], rng))
    data = detection("yolo", tmp_path)
    narrow = f"{tmp_path}/images/1.png: an image of 600 x 2 would be reduced to 128 x 0 in 128 x 128"
    with pytest.raises(gops.OpError, match=narrow):
        box_sizes(data, 128)
    with pytest.raises(gops.OpError, match=narrow):
        gops.data.Letterboxed(data, 128)[1]
    data._labels[0] = np.array([[44.8, 12, 44.8, 36, 0, 0]])
    with pytest.raises(gops.OpError, match="images/0.png: box 0 is 44.8 12 44.8 36 in 64 x 48 pixels; expected"):
        anchors_of(data, 1, 128)


class TestCommand:
    def test_prints_what_a_cfg_file_wants(self, tmp_path, rng, capsys):
        make_yolo(tmp_path, rng)
        assert cli.main(["anchors", str(tmp_path), "-k", "3", "--input", "128"]) == 0
        assert capsys.readouterr().out == ("anchors = 1.0000,1.5000, 1.0000,2.0000, 2.0000,2.2500\nnum = 3\n"
                                           "# mean IoU 1.0000 over 3 boxes, input 128, stride 32\n")

    def test_json_and_plot(self, tmp_path, rng, capsys):
        make_yolo(tmp_path, rng)
        names = tmp_path / "names.txt"
        names.write_text("dog\ncat\n")
        plot = tmp_path / "plot.PNG"
        assert cli.main(["anchors", str(tmp_path), "-k", "2", "--stride", "16", "--json",
                         "--classes", str(names), "--split", "val", "-o", str(plot)]) == 0
        found = json.loads(capsys.readouterr().out)
        assert np.shape(found["anchors"]) == (2, 2) and found["boxes"] == 3 and found["stride"] == 16
        assert 0 < found["mean_iou"] <= 1
        from PIL import Image
        with Image.open(plot) as image:
            image.load()
            assert min(image.size) > 500
        assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {
            "my.names", "names.txt", "plot.PNG", "train.txt", "val.txt"}, "a temporary file"

    def test_digits_by_default(self, capsys, monkeypatch):
        monkeypatch.setitem(scenes.COUNT, "train", 30)
        assert cli.main(["anchors", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert len(found["anchors"]) == 5 and found["input"] == 416 and found["mean_iou"] > 0.7

    def test_errors(self, tmp_path, rng, capsys):
        assert cli.main(["anchors", "--dataset", "yolo"]) == 1
        assert "gluonops.data.detection: yolo got no root; expected the folder of the" in capsys.readouterr().err
        make_yolo(tmp_path, rng)
        root = ["anchors", str(tmp_path)]
        assert cli.main(root) == 1
        assert "there are 3 different sizes of boxes; expected at least k, 5" in capsys.readouterr().err
        assert cli.main([*root, "-k", "2", "-o", str(tmp_path / "plot.bmpp")]) == 1
        assert "ends in .bmpp; expected .png, .svg or .pdf" in capsys.readouterr().err
        assert cli.main([*root, "-k", "2", "--seed", str(2**32)]) == 1
        assert "data.kmeans: seed is 4294967296; expected an integer below 4294967296" in capsys.readouterr().err
        assert cli.main([*root, "-k", "2", "-o", str(tmp_path / "none" / "plot.png")]) == 1
        err = capsys.readouterr().err
        assert f"gluonops.anchors: the folder {tmp_path}/none does not exist" in err
        assert cli.main(["anchors", "--classes", "file"]) == 1
        assert "digits got classes; expected none, because its classes are always the ten" in capsys.readouterr().err
        with pytest.raises(SystemExit):
            cli.main(["anchors", "--dataset", "imagenet"])
