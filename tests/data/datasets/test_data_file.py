"""Darknet's .data files: the lists, the names, and what is wrong there, by file and line."""
import gluonops as gops
import numpy as np
import pytest
from folders import check, make_yolo, save
from gluonops.data import classification, detection
from gluonops.data.datasets.darknet import read_data_file

TEXT = "# images\nclasses = 2\ntrain=train.txt\nvalid = val.txt\nnames = my.names\nbackup = weights/\neval = coco\n"


@pytest.fixture
def folder(tmp_path, rng):
    make_yolo(tmp_path, rng)
    (tmp_path / "obj.data").write_text(TEXT)
    return tmp_path


def test_options(folder):
    found = read_data_file(folder / "obj.data")
    assert found.classes == ("cat", "dog") and found.backup == "weights/"
    expected = [str(folder / "images" / f"{place}.png") for place in range(3)]
    assert found.images("train") == found.images("val") == expected


@pytest.mark.parametrize("split", ["train", "val"])
def test_detection(folder, split):
    check(detection("yolo", folder / "obj.data", split))


def test_paths_count_from_the_current_folder(folder, monkeypatch):
    (folder / "cfg").mkdir()
    (folder / "obj.data").rename(folder / "cfg" / "obj.data")
    monkeypatch.chdir(folder)
    check(detection("yolo", "cfg/obj.data"))
    monkeypatch.chdir("/")   # paths also count from the folder above the file's
    check(detection("yolo", folder / "cfg" / "obj.data"))


def test_classification(folder):
    """The class is the one whose name is in the path, as in Darknet."""
    (folder / "my.names").write_text("owl\nyak\n")
    images = [folder / "set" / name for name in ("1_yak.png", "2_owl.png", "3_yak.png")]
    for image in images:
        save(image, np.zeros((4, 4, 3), "uint8"))
    (folder / "train.txt").write_text("".join(f"{image}\n" for image in images))
    found = classification("folder", folder / "obj.data")
    assert found.classes == ("owl", "yak") and found.labels.tolist() == [1, 0, 1] and found[1][0].shape == (4, 4, 3)
    for name, text in (("owl_yak.png", "has owl and yak in its path"), ("4.png", "has no class in its path")):
        save(folder / name, np.zeros((4, 4, 3), "uint8"))
        (folder / "train.txt").write_text(f"{name}\n")
        with pytest.raises(gops.OpError, match=f"{name} {text}; expected the name of one class"):
            classification("folder", folder / "obj.data")


@pytest.mark.parametrize("old, new, text", [
    ("valid = val.txt", "valid", "obj.data, line 4: 'valid'; expected key = value"),
    ("train.txt", "no.txt", "obj.data, line 3: there is no file no.txt"),
    ("classes = 2", "classes = 3", "obj.data, line 2: classes is 3, and my.names has 2 names"),
    ("classes = 2", "classes = two", "obj.data, line 2: classes is 'two'; expected an integer of at least 1"),
    ("classes = 2", "classes = ²", "obj.data, line 2: classes is '²'; expected an integer of at least 1"),
    ("classes = 2", f"classes = {'1' * 5000}", "classes is '1+[.]{3}; expected an integer of at least 1"),
    ("train.txt", "a\0b", "obj.data, line 3: there is no file a\0b"),
    ("names = my.names", "", "obj.data has no names"),
    ("train=train.txt", "", "obj.data has no train; expected a list of images")])
def test_refuses(folder, old, new, text):
    (folder / "obj.data").write_text(TEXT.replace(old, new), encoding="utf-8")
    with pytest.raises(gops.OpError, match=text):
        detection("yolo", folder / "obj.data")


@pytest.mark.parametrize("content, text", [
    ("images/0.png\n\nimages/9.png\n", "train.txt, line 3: there is no image images/9.png"),
    ("my.names\n", r"train.txt, line 1: my.names is not an image \(.jpg"), ("\n", "train.txt is empty")])
def test_lists(folder, content, text):
    (folder / "train.txt").write_text(content)
    with pytest.raises(gops.OpError, match=text):
        detection("yolo", folder / "obj.data")
