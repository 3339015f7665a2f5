"""Data sets in their parts: classes, sizes, and what is refused before anything is trained."""
import json

import gluonops as gops
import numpy as np
import pytest
from folders import make_coco, make_records, make_yolo, picture, save
from gluonops import train


def refused(text, load, *arguments, **options):
    with pytest.raises(gops.OpError) as caught:
        load(*arguments, **options)
    assert text in str(caught.value), str(caught.value)


def test_what_each_image_is_for(tmp_path, rng):
    for place in range(20):
        save(tmp_path / ("val" if place % 4 == 0 else "train") / "cat" / f"{place}.png", picture((8, 8), [], rng))
    images = train.classification_parts("folder", tmp_path)
    facts = train.describe_images(train.Repeated(images.training, 3), images.held_out, images.validation)
    assert facts["pictures"] == "13 to learn from, 3 times in an epoch; 2 to choose the best epoch; 5 held out"
    assert repr(images.training) == "ClassSubset(13 images, 1 classes: cat)"


@pytest.mark.parametrize("classes", [None, ("dog", "cat")])
def test_classes_of_coco_are_told_by_their_names(tmp_path, rng, classes):
    """Held-out labels may name them in another order than those to train on."""
    path, content = make_coco(tmp_path, rng)
    content["categories"].reverse()
    (path.parent / "instances_val2017.json").write_text(json.dumps(content))
    training, validation = train.detection_parts("coco", tmp_path, classes, 64)
    assert training.classes == validation.classes == (classes or ("cat", "dog"))
    assert training.label(0)[:, 4].tolist() == validation.label(0)[:, 4].tolist()


def test_classes_that_are_held_out_alone(tmp_path, rng):
    path, content = make_coco(tmp_path / "coco", rng)
    content["categories"].append({"id": 9, "name": "cow"})
    (path.parent / "instances_val2017.json").write_text(json.dumps(content))
    refused("instances_val2017.json has the category 'cow'; expected one of cat, dog",
            train.detection_parts, "coco", tmp_path / "coco")
    boxes = [np.float32([2, 5, number, 0, 0, 1, 1]) for number in range(3)]
    for folder, load, low, high in (("boxes", train.detection_parts, boxes[0], boxes[2]),
                                    ("images", train.classification_parts, 0.0, 2.0)):
        make_records(tmp_path / folder, rng, [low] * 3)
        make_records(tmp_path / folder, rng, [low, high, low], split="val")
        refused("val.rec, record 6: the class is 2; expected a whole number from 0 to 0", load, "rec",
                tmp_path / folder)


def test_scenes_of_digits():
    training, validation = train.detection_parts("digits", size=64, seed=1, count=(5, 3))
    assert (len(training), len(validation)) == (5, 3) and training[0][0] is training[0][0], "painted once"
    fresh = gops.data.detection("digits", count=5, seed=1, size=64)
    np.testing.assert_array_equal(training[2][0], fresh[2][0])
    np.testing.assert_array_equal(training.label(2), fresh.label(2))
    assert training.fingerprint() == fresh.fingerprint() and training.name(2) == "scene 2"
    assert training.size(2) == fresh.size(2) and training.classes == fresh.classes
    refused("--classes is 1 2; scenes of digits always have all ten", train.detection_parts, "digits",
            classes=["1", "2"])


def test_a_file_has_not_both_parts(tmp_path, rng):
    make_records(tmp_path, rng)
    for load in (train.detection_parts, train.classification_parts):
        refused("train.rec is a file; expected the folder that has the images to train on and those held out", load,
                "rec", tmp_path / "train.rec")


def test_parts_of_classes(tmp_path, rng):
    """The folder of a class is empty, or so few images are there that none is left to choose the epoch on."""
    for part in ("train", "val"):
        for name, count in (("blue", 2 * (part == "train")), ("red", 1)):
            (tmp_path / part / name).mkdir(parents=True)
            for place in range(count):
                save(tmp_path / part / name / f"{place}.png", picture((8, 8), [], rng))
    load = train.classification_parts
    refused("of the classes blue, the data set has 0 images held out; expected at least 1", load, "folder", tmp_path,
            ["blue"])
    refused("of the classes red, the data set has 1 image to train on; expected at least 2", load, "folder", tmp_path,
            ["red"])
    refused("there is no class 'green'; there are blue, red", load, "folder", tmp_path, ["green"])
    refused("classes are ('red', 'red'), with 'red' twice; expected one name or more, all different", load, "folder",
            tmp_path, ["red", "red"])
    parts = load("folder", tmp_path, ["red", "blue"])
    assert [len(part) for part in parts[:3]] == [2, 1, 1] and parts.classes == ["red", "blue"]
    assert parts.held_out[0][1] == 0 and parts.held_out.name(0).endswith("red/0.png")


def test_a_held_out_image_that_does_not_fit(tmp_path, rng):
    for part in ("train", "val"):
        for place in range(3):
            save(tmp_path / part / "a" / f"{place}.png", picture((300, 2 + 200 * (part == "train")), [], rng))
    refused("val/a/0.png: an image of 300 x 2 would be reduced to 28 x 0 in 28 x 28", train.classification_parts,
            "folder", tmp_path)
    make_yolo(tmp_path, rng)
    save(tmp_path / "images" / "wide.png", picture((2000, 10), [], rng))
    (tmp_path / "labels" / "wide.txt").write_text("")
    (tmp_path / "val.txt").write_text("images/wide.png\n")
    refused("images/wide.png: an image of 2000 x 10 would be reduced to 128 x 0 in 128 x 128", train.detection_parts,
            "yolo", tmp_path, size=128)


def test_anchors(tmp_path):
    scenes = train.detection_parts("digits", size=64, count=(8, 1))[0]
    assert np.shape(train.find_anchors(["auto"], scenes, 64)) == (1, 2)   # its digits have about one size
    assert train.find_anchors(["voc"], scenes, 64) == "voc"
    assert train.find_anchors(["1,2", "3,4.5"], scenes, 64) == [[1, 2], [3, 4.5]]
    refused("--anchors has could not convert string to float: 'cfg'", train.find_anchors, ["cfg"], scenes, 64)
