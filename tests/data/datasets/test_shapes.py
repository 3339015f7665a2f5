"""Scenes of shapes: deterministic, labelled where the shapes are, and outlines with the areas of their formulas."""
import gluonops as gops
import numpy as np
import pytest
from gluonops.data import ShapeScenes
from gluonops.data.datasets.scenes import OUTLINES, paint_outline
from in_turn import in_turn


def test_items():
    data = ShapeScenes(count=12)
    assert len(data) == 12 and data.classes == ("circle", "square", "triangle", "star")
    for index in range(12):
        image, label = data[index]
        height, width, _ = image.shape
        assert image.dtype == np.uint8 and max(image.shape) == 240 and data.size(index) == (width, height)
        assert 1 <= len(label) <= 3 and set(label[:, 4]) <= set(range(4))
        assert label[:, :2].min() >= 0 and (label[:, 2] <= width).all() and (label[:, 3] <= height).all()
        np.testing.assert_array_equal(data.label(index), label)
        np.testing.assert_array_equal(ShapeScenes(count=12).image(index), image)


def test_scenes_differ():
    scenes = [ShapeScenes(split, seed=seed).image(index).tobytes() for split in ("train", "val") for seed in (0, 1)
              for index in range(3)]
    assert len(set(scenes)) == 12
    boxes = np.concatenate([ShapeScenes(count=60).label(index) for index in range(60)])
    assert (np.bincount(boxes[:, 4].astype(int)) > 10).all()


# Areas in radii squared: of the star, ten triangles with the sides 1 and 0.45 and an angle of 36 degrees.
AREAS = {"circle": np.pi, "square": 2, "triangle": 3 * np.sqrt(3) / 4, "star": 5 * 0.45 * np.sin(np.pi / 5)}


@in_turn("name", OUTLINES)
@in_turn("angle", [0, 0.7])
def test_areas(name, angle):
    mask = paint_outline(OUTLINES[name], 60, angle)
    assert mask.sum() / 60**2 == pytest.approx(AREAS[name], rel=0.01)
    assert paint_outline(OUTLINES[name], 60, angle, 1.2).sum() / 60**2 == pytest.approx(1.2 * AREAS[name], rel=0.02)
    edges = np.concatenate([mask[0], mask[-1], mask[:, 0], mask[:, -1]])
    assert min(mask[0].max(), mask[-1].max(), mask[:, 0].max(), mask[:, -1].max()) > 0.5, "cropped to what is visible"
    assert edges.min() == 0 or name == "square"


@pytest.mark.parametrize("options, text", [
    ({"classes": ["hexagon"]}, "classes are ('hexagon',); expected some of circle, square, triangle, star"),
    ({"classes": []}, "classes are (); expected some of"), ({"count": 0}, "count"), ({"split": "test"}, "split")])
def test_refused(options, text):
    with pytest.raises(gops.OpError) as error:
        ShapeScenes(**options)
    assert text in str(error.value)
