"""Pictures: drawn, of more than one colour, and of nets that are far off."""
import mxnet as mx
import numpy as np
import pytest
from bars import Bars
from gluonops import train
from matplotlib.image import imread


@pytest.mark.parametrize("units", [1, 2, 5])
def test_embeddings(tmp_path, rng, units):
    """Of a single unit, too."""
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


def test_boxes_that_overflow_are_drawn(tmp_path):
    """Cut at the image's edge, and those that are no number left out."""
    boxes = np.array([[-np.inf, -np.inf, np.inf, np.inf], [-1e30, 2, 1e30, 9], [np.nan, 0, 9, 9], [4, 4, 30, 20]])

    def detector(images):
        return [mx.nd.array(array[None]) for array in (np.zeros((4, 1)), np.ones((4, 1)), boxes)]

    train.draw_detections(detector, Bars(1), (64, 64), mx.cpu(), tmp_path / "page.png")
    assert imread(tmp_path / "page.png").std() > 0.05
