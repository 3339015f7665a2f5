"""Pictures: drawn, of more than one colour, and of nets that are far off."""
import itertools
import math

import mxnet as mx
import numpy as np
import pytest
from bars import Bars
from gluonops import train
from matplotlib.image import imread


@pytest.mark.parametrize("units", [1, 2, 5])
def test_embeddings(tmp_path, rng, units):
    """A single unit has a picture, too."""
    vectors, labels = rng.standard_normal((20, units)), np.arange(20) % 3
    train.draw_embedding(vectors, labels, "abc", tmp_path / "embedding.png")
    assert imread(tmp_path / "embedding.png").std() > 0.02


def test_curves_confusion_and_predictions(tmp_path, rng):
    rows = [{"epoch": epoch, "loss": 1 / epoch, "accuracy": 1 - 1 / epoch} for epoch in (1, 2, 3)]
    train.draw_curves(rows, tmp_path / "curves.png", ["loss", "center_loss"], ["accuracy"])
    train.draw_curves(rows, tmp_path / "one.png", [], ["accuracy"])
    train.draw_confusion(np.array([[3, 1], [0, 5]]), ["cat", "dog"], tmp_path / "confusion.png")
    train.draw_confusion(np.eye(30, dtype=int), [str(i) for i in range(30)], tmp_path / "large.png")
    labels = np.arange(12) % 2
    for channels in (1, 3):
        images = rng.uniform(size=(12, channels, 8, 8))
        train.draw_predictions(images, labels, labels ^ (labels * 0 + (np.arange(12) < 3)), ["cat", "dog"],
                               tmp_path / f"{channels}.png", rows=2, columns=5)
    for path in tmp_path.iterdir():
        assert imread(path).std() > 0.02, path


def test_roc(tmp_path, rng):
    found = train.verification(rng.standard_normal((20, 3)), np.arange(20) % 4)
    train.draw_roc({"some": found, "others": found}, tmp_path / "roc.png")
    assert imread(tmp_path / "roc.png").std() > 0.02


def panels(monkeypatch, draw):
    """The panels of the figure that a function draws."""
    figures = []
    monkeypatch.setattr("gluonops.train.pictures.save_figure", lambda figure, path: figures.append(figure))
    draw()
    return figures[0].axes


def test_nothing_empty(monkeypatch):
    """Every panel has a curve, and every curve a number."""
    rows = [{"epoch": epoch, "loss": 1 / epoch, "accuracy": 0.5, "recall": math.nan} for epoch in (1, 2, 3)]
    scores = ["accuracy", "recall"]
    left, right = panels(monkeypatch, lambda: train.draw_curves(rows, "", ["loss", "center_loss"], scores))
    assert [len(axes.lines) for axes in (left, right)] == [1, 1] and right.get_title() == "scores, 1 is best: accuracy"
    assert all(float(tick).is_integer() for tick in left.get_xticks())
    only, = panels(monkeypatch, lambda: train.draw_curves(rows, "", [], ["accuracy"]))
    assert len(only.lines) == 1
    rows[0]["learning_rate"] = 0.1
    assert len(panels(monkeypatch, lambda: train.draw_curves(rows, "", ["loss"], ["accuracy"]))) == 3


@pytest.mark.parametrize("stretch, aspect", [(2, 1), (50, "auto")])
def test_an_embedding_is_no_sliver(monkeypatch, rng, stretch, aspect):
    """Both axes have one scale, unless the points would be in a line."""
    vectors, labels = rng.standard_normal((90, 2)) * [stretch, 1], np.arange(90) % 3
    axes, = panels(monkeypatch, lambda: train.draw_embedding(vectors, labels, ["cat", "dog", "fire engine"], ""))
    assert axes.get_aspect() == aspect
    axes.figure.canvas.draw()
    shares = np.ptp(vectors, axis=0) / [np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())]
    assert shares.min() > 0.25 and shares.max() < 1


def test_boxes_that_overflow_are_drawn(tmp_path):
    """They are cut at the image's edge, and those that are no number are left out."""
    boxes = np.array([[-np.inf, -np.inf, np.inf, np.inf], [-1e30, 2, 1e30, 9], [np.nan, 0, 9, 9], [4, 4, 30, 20]])

    def detector(images):
        return [mx.nd.array(array[None]) for array in (np.zeros((4, 1)), np.ones((4, 1)), boxes)]

    train.draw_detections(detector, Bars(1), (64, 64), mx.cpu(), tmp_path / "page.png")
    assert imread(tmp_path / "page.png").std() > 0.05


def test_labels_of_boxes_are_in_the_image_and_cover_no_other(monkeypatch):
    """Some boxes are at the edges, and two are in one place."""
    boxes = np.array([[0, 0, 20, 40], [60, 0, 63, 40], [5, 30, 20, 50], [6, 31, 30, 60]])

    def detector(images):
        return [mx.nd.array(array[None]) for array in (np.zeros((4, 1)), np.ones((4, 1)), boxes)]

    axes, = panels(monkeypatch, lambda: train.draw_detections(detector, Bars(1), (64, 64), mx.cpu(), ""))
    axes.figure.draw_without_rendering()
    image = axes.get_window_extent()
    fields = [text.get_bbox_patch().get_window_extent() for text in axes.texts]
    assert len(fields) == 4
    assert all(image.x0 <= field.x0 + 1 and field.x1 - 1 <= image.x1 and field.y1 - 1 <= image.y1 for field in fields)
    assert not any(one.overlaps(other) for one, other in itertools.combinations(fields, 2))
