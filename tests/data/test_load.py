"""Data sets by name, in every format; and the registry of formats, which everything else follows."""
import json
import pathlib
import re

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from folders import (
    MAKERS,
    NAMES,
    OTHERS,
    check,
    make_records,
    make_yolo,
    picture,
    refused,
    save,
)
from gluonops.data import by_name, detection, formats
from gluonops.data.repairs import RepairWarning

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", OTHERS)
class TestImages:
    def test_an_unreadable_one_is_named(self, tmp_path, rng, name):
        MAKERS[name](tmp_path, rng, **({"images": [b"no image"] * 3} if name == "rec" else {}))
        files = [path for path in tmp_path.rglob("*") if path.suffix in (".png", ".jpg")]
        for path in files:
            path.write_bytes(b"no image")
        text = r"train.rec, record 5 has 8 bytes that do not decode" if name == "rec" else \
            f"{re.escape(str(sorted(files)[0]))} has 8 bytes that do not decode; expected an image"
        with pytest.raises(gops.OpError, match=text):
            detection(name, tmp_path, **OTHERS[name])

    def test_one_that_is_damaged_later(self, tmp_path, rng, name):
        """The loader's threads name it as well."""
        MAKERS[name](tmp_path, rng)
        dataset = detection(name, tmp_path, **OTHERS[name])
        files = sorted(path for path in tmp_path.rglob("*") if path.suffix in (".png", ".jpg", ".rec"))
        for path in files:
            content = path.read_bytes()
            at = content.index(b"IHDR" if b"IHDR" in content else b"\xff\xc0")
            path.write_bytes(content[:at] + b"none" + content[at + 4:])
        text = "train.rec, record 5 has [0-9]+ bytes that do not decode" if name == "rec" else \
            f"{re.escape(str(files[0]))} has [0-9]+ bytes that do not decode; expected an image"
        with pytest.raises(gops.OpError, match=text):
            dataset.image(0)
        ready = gops.data.Augmented(dataset, 32, gops.data.Augment())
        with pytest.raises(gops.OpError, match=text):
            next(iter(mx.gluon.data.DataLoader(ready, 2, num_workers=2, thread_pool=True,
                                               batchify_fn=gops.data.detection_batch)))

    def test_an_empty_one_is_named(self, tmp_path, rng, name):
        MAKERS[name](tmp_path, rng, **({"images": [b""] * 3} if name == "rec" else {}))
        for path in tmp_path.rglob("*"):
            if path.suffix in (".png", ".jpg"):
                path.write_bytes(b"")
        with pytest.raises(gops.OpError, match="has 0 bytes that do not decode|has no record with an image"):
            detection(name, tmp_path, **OTHERS[name])


@pytest.mark.parametrize("name", ["voc", "coco"])
def test_an_image_of_another_size(tmp_path, rng, name):
    """Its own size counts. It must not change afterwards: its boxes would no longer fit."""
    MAKERS[name](tmp_path, rng)
    (image,) = tmp_path.rglob("*0000.[jp][pn]g")
    save(image, picture((60, 40), [], rng))
    with pytest.warns(RepairWarning, match="1 label stated no size, or not its picture's; the picture's own size"):
        dataset = detection(name, tmp_path, **OTHERS[name])
    assert dataset.size(0) == dataset.image(0).shape[1::-1] == (60, 40)
    np.testing.assert_allclose(dataset.label(0)[1, :4], (32, 12, 60, 40))
    save(image, picture((24, 20), [], rng))
    with pytest.raises(gops.OpError, match=f"{re.escape(str(image))} is 24 x 20; expected 60 x 40, as when its label"):
        dataset.image(0)


def test_bad_names():
    refused("there is no data set 'vox'; there are digits, voc, coco, yolo, rec", "vox")
    refused("split is 'test'; expected 'train' or 'val'", "digits", split="test")
    refused("digits got root '/x'; expected no root, because the digits are part of scikit-learn", "digits", "/x")
    refused("voc got no root", "voc")


class TestLayouts:
    @pytest.mark.parametrize("name", MAKERS)
    def test_a_folder_tells_its_format(self, tmp_path, rng, name):
        MAKERS[name](tmp_path / "[set]", rng)
        found = gops.data.recognize(tmp_path / "[set]")
        assert (found.name, found.task) == (name, "detection")
        assert gops.data.recognize(tmp_path / "[set]", "detection") is found
        if name != "rec":   # its labels tell what it is for
            with pytest.raises(gops.OpError, match=f"has the layout {name}, which is for detection; expected a layout "
                               "for"):
                gops.data.recognize(tmp_path / "[set]", "classification")

    def test_others(self, tmp_path, rng):
        for parts in ("VOC2007/ImageSets/Main", "train/images", "train/labels"):
            (tmp_path / parts.replace("/", "-") / parts).mkdir(parents=True)
        (tmp_path / "train-labels" / "train" / "images").mkdir()
        save(tmp_path / "folders" / "val" / "cat" / "a.png", picture((8, 8), [], rng))
        make_records(tmp_path / "records", rng, labels=[0, 1, 0])
        (tmp_path / "obj.data").touch()
        for name, task, path in (("voc", "detection", "VOC2007-ImageSets-Main"), ("yolo", "detection", "train-labels"),
                                 ("folder", "classification", "folders"), ("rec", "classification", "records"),
                                 ("rec", "classification", "records/train.rec"), ("yolo", "detection", "obj.data")):
            found = gops.data.recognize(tmp_path / path)
            assert (found.name, found.task) == (name, task), path
        assert gops.data.recognize(tmp_path / "obj.data", "classification").name == "folder"
        assert gops.data.recognize(None, "classification").name == "digits"
        with pytest.raises(gops.OpError, match="there is no file or folder nowhere"):
            gops.data.recognize("nowhere")
        (tmp_path / "obj.data").unlink()
        with pytest.raises(gops.OpError, match="has 1 .rec file in .*; expected one of the layouts in docs"):
            gops.data.recognize(tmp_path)

    def test_images_and_labels_of_a_split_in_its_folder(self, tmp_path, rng):
        make_yolo(tmp_path, rng, lists=False)
        for kind in ("images", "labels"):
            (tmp_path / "train").mkdir(exist_ok=True)
            (tmp_path / kind / "train").rename(tmp_path / "train" / kind)
            (tmp_path / kind).rmdir()
        check(detection(gops.data.recognize(tmp_path).name, tmp_path))


class TestRegistry:
    def test_every_reader_is_there(self):
        for entry in formats.FORMATS:
            assert callable(by_name._reader(entry)), entry
        assert len({(entry.task, entry.name) for entry in formats.FORMATS}) == len(formats.FORMATS)

    @pytest.mark.parametrize("task", ["detection", "classification"])
    def test_the_function_names_every_format(self, task):
        names = gops.data.format_names(task)
        documented = getattr(gops.data, task).__doc__.split("name : {")[1].split("}")[0]
        assert names == tuple(json.loads(f"[{documented}]"))

    @pytest.mark.parametrize("task", ["detection", "classification"])
    def test_the_documentation_has_every_format(self, task):
        page = (ROOT / "docs" / "fine_tuning.md").read_text()
        tables = re.findall(r"[|] `--dataset` [|] `--data` [|]\n[|]---[|]---[|]\n((?:[|].*\n)+)", page)
        default, *others = gops.data.format_names(task)
        rows = [f"`{default}` (default)", *(f"`{name}`" for name in others)]
        assert rows in [[line.split(" | ")[0].lstrip("| ") for line in table.splitlines()] for table in tables]

    def test_a_new_format_needs_a_row(self, tmp_path, rng, monkeypatch):
        make_yolo(tmp_path, rng)
        row = formats.Format("darknet", "detection", "yolo:Yolo")
        monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, row))
        assert detection("darknet", tmp_path).classes == NAMES
        refused("there is no data set 'vox'; there are digits, voc, coco, yolo, rec, darknet", "vox")
