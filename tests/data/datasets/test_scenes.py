"""Digit scenes: deterministic, split cleanly, labelled where the digits are."""
import gluonops as gops
import numpy as np
import pytest
from gluonops.data import DigitScenes, digits


def test_items():
    data = DigitScenes(count=40)
    assert len(data) == 40 and data.classes == tuple("0123456789")
    shapes = set()
    for index in range(40):
        image, label = data[index]
        assert image.dtype == np.uint8 and image.shape[2] == 3
        assert max(image.shape) == 160 and min(image.shape[:2]) >= 120
        assert label.dtype == np.float32 and label.shape[1] == 6 and 1 <= len(label) <= 4
        height, width, _ = image.shape
        assert label[:, :2].min() >= 0 and (label[:, 2] <= width).all() and (label[:, 3] <= height).all()
        assert (label[:, 2:4] - label[:, :2]).min() >= 4 and set(label[:, 4]) <= set(range(10))
        assert data.size(index) == (width, height)
        np.testing.assert_array_equal(data.label(index), label)
        np.testing.assert_array_equal(data.image(index), image)
        shapes.add(image.shape)
    assert len(shapes) > 20
    with pytest.raises(IndexError):
        data[40]


def test_a_scene_is_the_same_whenever_it_is_asked_for():
    first, again = DigitScenes(), DigitScenes()
    backwards = [again[index] for index in (5, 3, 1)][::-1]
    for index, (image, label) in zip((1, 3, 5), backwards):
        np.testing.assert_array_equal(first[index][0], image)
        np.testing.assert_array_equal(first[index][1], label)


def test_scenes_differ():
    scenes = [DigitScenes(seed=seed).image(index).tobytes() for seed in (0, 1) for index in range(5)]
    assert len(set(scenes)) == 10 and DigitScenes("val").image(0).tobytes() not in scenes


def test_the_splits_share_no_digit():
    """Each is made of its own part of scikit-learn's, in which no image is in both."""
    train, val = DigitScenes("train"), DigitScenes("val")
    for part, split in zip((train, val), digits(size=8)):
        np.testing.assert_array_equal(part._digits, split.images)
        np.testing.assert_array_equal(part._numbers, split.labels)
    assert not {image.tobytes() for image in train._digits} & {image.tobytes() for image in val._digits}


def test_all_classes_and_sizes_occur():
    data = DigitScenes(count=150)
    labels = [data.label(index) for index in range(150)]
    boxes = np.concatenate(labels)
    assert (np.bincount(boxes[:, 4].astype(int), minlength=10) > 15).all()
    heights = boxes[:, 3] - boxes[:, 1]
    assert heights.min() < 55 and heights.max() > 85   # A box takes 0.32 to 0.56 of 160 pixels.
    assert {len(label) for label in labels} == {1, 2, 3, 4}


def overlap(a, b):
    """Share of the smaller box that both have in common."""
    sides = np.minimum(a[2:4], b[2:4]) - np.maximum(a[:2], b[:2])
    return sides.clip(0).prod() / min((a[2:4] - a[:2]).prod(), (b[2:4] - b[:2]).prod())


def test_some_overlap_but_none_is_hidden():
    shares = []
    data = DigitScenes(count=100)
    for index in range(100):
        label = data.label(index)
        shares += [overlap(a, b) for place, a in enumerate(label) for b in label[:place]]
    assert 0.1 < max(shares) <= 0.15 and np.mean(np.array(shares) > 0) > 0.1


def test_a_digit_is_where_its_box_says():
    """Made invisible, the digit that is painted last changes its box and nothing outside of it."""
    data = DigitScenes(count=20)
    for index in range(20):
        shape, placed = data._layout(index)
        _, left, top, mask = placed[-1]
        hole = np.zeros_like(mask)
        whole, without = (data._paint(index, shape, [*placed[:-1], (0, left, top, part)]).astype(int)
                          for part in (mask, hole))
        changed = np.abs(whole - without).max(2)
        box = data.label(index)[-1, :4].astype(int)
        inside = changed[box[1]:box[3], box[0]:box[2]].copy()
        changed[box[1]:box[3], box[0]:box[2]] = 0
        assert inside.max() > 50 and (changed == 0).all()
        assert all(line.max() > 20 for line in (inside[0], inside[-1], inside[:, 0], inside[:, -1]))


def test_a_box_is_tight():
    """Ink touches each of its edges, and does not fill it."""
    data = DigitScenes(count=30)
    for index in range(30):
        for _, _, _, mask in data._layout(index)[1]:
            assert all(line.max() > 0.5 for line in (mask[0], mask[-1], mask[:, 0], mask[:, -1]))
            assert 0.1 < (mask > 0.5).mean() < 1 and mask.max() <= 1


def test_hard_scenes():
    """They have smaller digits, bright backgrounds, and digits on either side; the default has light on dark."""
    lumas = np.array([0.299, 0.587, 0.114])
    for hard in (False, True):
        data = DigitScenes(count=60, hard=hard)
        heights, darker, brightest = [], 0, 0
        for index in range(60):
            image, label = data[index]
            _, left, top, mask = data._layout(index)[1][-1]
            part = image[top:top + mask.shape[0], left:left + mask.shape[1]] @ lumas
            darker += np.median(part[mask > 0.9]) < np.median(part[mask < 0.1])
            brightest = max(brightest, np.median(image @ lumas))
            heights.extend(label[:, 3] - label[:, 1])
        share = np.array(heights) / 160
        low, high = (0.24, 0.5) if hard else (0.32, 0.56)
        assert share.min() < low * 1.1 and high * 0.9 < share.max() < high * 1.1
        assert (brightest > 190) == hard and (darker > 15 if hard else darker == 0)


def test_a_scene_lies_in_whole_pixels_of_its_letterbox():
    """Darknet rounds the margins of an image, and not those of its boxes: with half a pixel the boxes would be off."""
    for size in (160, 97):
        data = DigitScenes(size=size, count=30)
        assert all((size - side) % 2 == 0 for index in range(30) for side in data.size(index))


@pytest.mark.parametrize("options, text", [
    ({"split": "test"}, "split is 'test'; expected 'train' or 'val'"), ({"size": 20}, "size is 20; expected"),
    ({"count": 0}, "count is 0; expected"), ({"objects": 0}, "objects is 0; expected"),
    ({"seed": -1}, "seed is -1; expected"), ({"hard": "very"}, "hard is 'very'; expected")])
def test_refuses(options, text):
    with pytest.raises(gops.OpError, match=f"gluonops.data.scenes: {text}"):
        DigitScenes(**options)


@pytest.mark.parametrize("size", [48, 97, 416])
def test_other_sizes(size):
    data = DigitScenes(size=size, count=5, objects=9)
    for index in range(5):
        image, label = data[index]
        assert max(image.shape) == size and 1 <= len(label) <= 9


def test_the_size_of_a_scene_takes_no_digits(monkeypatch):
    """Anchors ask for the size of every scene: drawing its digits again would double their time."""
    made = DigitScenes()
    height, width, _ = made.image(3).shape
    monkeypatch.setattr("gluonops.data.datasets.scenes._render", None)
    assert made.size(3) == (width, height)
