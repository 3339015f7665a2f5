"""COCO's layout: what is in a tiny folder comes out, and what is wrong there is named."""
import json

import numpy as np
import pytest
from folders import NAMES, SCENES, check, make_coco, refused
from gluonops.data import detection
from gluonops.data.repairs import RepairWarning
from gluonops.io.optional import require


class TestCOCO:
    @pytest.mark.parametrize("urls", [False, True])
    def test_it_reads(self, tmp_path, rng, urls, capsys):
        make_coco(tmp_path, rng, urls)
        check(detection("coco", tmp_path), SCENES[:2])   # the image without objects is left out
        check(detection("coco", str(tmp_path), "val"))
        assert capsys.readouterr().out == ""

    def test_agrees_with_gluoncv(self, tmp_path, rng, capsys):
        """gluoncv stores the last pixel inside a box, and the file stores its edge."""
        make_coco(tmp_path, rng, urls=True)
        reader = type("Reader", (require("gluoncv.data", "tests").COCODetection,), {"CLASSES": [*NAMES]})
        ours, theirs = detection("coco", tmp_path), reader(str(tmp_path), "instances_train2017")
        assert len(ours) == len(theirs)
        for index, label in enumerate(theirs._labels):
            np.testing.assert_array_equal(ours.label(index)[:, :5], np.add(label, [0, 0, 1, 1, 0]))

    @pytest.mark.parametrize("change, text", [
        (lambda c: c.pop("images"), "top level: no list 'images'"),
        (lambda c: c["annotations"][1].pop("bbox"), "annotation 1: it has no bbox; expected four numbers"),
        (lambda c: c["images"][0].update(id=[1]), "images[0]: id is [1]; expected a number"),
        (lambda c: c["annotations"][1].update(category_id=4), "annotation 1: category_id is 4"),
        (lambda c: c["annotations"][2].update(bbox=[1, 2, 3]),
         "annotation 2: bbox is [1, 2, 3]; expected four numbers"),
        (lambda c: c["annotations"][2].update(bbox=["1", "2", "3", "4"]), "annotation 2: bbox is ['1', '2', '3', '4']"),
        (lambda c: c["images"][1].update(id=10), "images: two items have the id 10; expected another id for each"),
        (lambda c: c["categories"][1].update(id="7"),
         "categories: two items have the id '7'; expected another id for each"),
        (lambda c: c["images"][1].update(coco_url=5), "images[1]: coco_url is 5; expected text"),
        (lambda c: c["images"][2].update(file_name="no.png"), "image 12: there is no "),
        (lambda c: c["images"][1].update(file_name="../../x.png"), "image 11: its file is "),
        (lambda c: c["images"][1].update(coco_url="http://x/../.."), "image 11: its file is "),
        (lambda c: c["images"][1].update(file_name="/home/x.png"), "image 11: there is no "),
        (lambda c: c["annotations"][2].update(bbox=[1, 2, 10**400, 4]), "annotation 2: bbox is [1, 2, 1000"),
    ])
    def test_malformed(self, tmp_path, rng, change, text):
        path, content = make_coco(tmp_path, rng)
        change(content)
        (tmp_path / "annotations" / "instances_val2017.json").write_text(json.dumps(content))
        refused(text, "coco", tmp_path, "val")

    @pytest.mark.parametrize("change, reason, got", [
        (lambda c: c["annotations"][1].update(image_id=77), "no_picture", "annotation 1: image_id is 77; expected the"),
        (lambda c: c["annotations"][2].update(bbox=[1, 2, -3, 4]), "no_area", "annotation 2: the box is 1 2 -2 6 in"),
        (lambda c: c["annotations"][0].update(bbox=[-2, 2, 30, 4]), "clipped", "annotation 0: the box is -2 2 28 6 in "
         "an image of 64 x 48; expected a box inside of its picture"),
        (lambda c: c["annotations"][0].update(bbox=[60, 60, 4, 4]), "outside", "annotation 0: the box is 60 60 64 64"),
        (lambda c: c["images"][1].update(height=0), "size", "image 11: it states the size 32 x 0; expected 32 x 64"),
        (lambda c: c["images"][1].pop("width"), "size", "image 11: it states the size 0 x 64; expected 32 x 64"),
        (lambda c: c["annotations"][0].update(bbox=[], segmentation=[[4, 6, 20, 6, 20, 30]]), "polygon",
         "annotation 0: it has a polygon and no bbox; expected a bbox"),
        (lambda c: c["categories"].append({"id": 8, "name": "dog"}), "same_name", "category 8 'dog': another category"),
    ])
    def test_repairs(self, tmp_path, rng, change, reason, got):
        """Each of them is counted, and refused if the caller is strict."""
        path, content = make_coco(tmp_path, rng)
        change(content)
        path.write_text(json.dumps(content))
        with pytest.warns(RepairWarning, match="the data set is used with these repairs"):
            train = detection("coco", tmp_path)
        assert train.repairs.summary()[reason]["count"] == 1
        refused(got, "coco", tmp_path, strict=True)

    @pytest.mark.parametrize("change", [
        lambda c: [item.pop("area") for item in c["annotations"]],
        lambda c: [item.pop("id") for item in c["annotations"]],
        lambda c: c["annotations"][0].update(area=0, iscrowd="0"), lambda c: c["annotations"][1].update(id=0),
        lambda c: [item.update(image_id=str(item["image_id"])) for item in c["annotations"]],
        lambda c: [item.update(id=str(item["id"])) for item in (*c["images"], *c["categories"])],
        lambda c: [item.update(file_name=f"C:\\data\\{item['file_name']}") for item in c["images"]],
        lambda c: [item.update(file_name=f"/home/me/{item['file_name']}") for item in c["images"]]])
    def test_what_is_not_needed(self, tmp_path, rng, change):
        path, content = make_coco(tmp_path, rng)
        change(content)
        path.write_text(json.dumps(content))
        check(detection("coco", tmp_path, strict=True), SCENES[:2])

    def test_objects_without_an_area_are_told_of(self, tmp_path, rng):
        """COCO's own file to train on has two, so that a refusal would refuse it."""
        path, content = make_coco(tmp_path, rng)
        content["annotations"][0].update(bbox=[4, 6, 16, 0.0], area=0.0)
        content["annotations"][2].update(bbox=[15, 0, 0, 32])
        path.write_text(json.dumps(content))
        with pytest.warns(RepairWarning, match="2 boxes without an area are left out: .*annotation 0; .*annotation 2"):
            train = detection("coco", tmp_path)
        assert len(train) == 1 and len(train.label(0)) == 1

    def test_less_than_a_pixel_outside_is_clipped(self, tmp_path, rng):
        """That is rounding: a strict caller takes it."""
        path, content = make_coco(tmp_path, rng)
        content["annotations"][1].update(bbox=[-0.4, 12, 64.9, 36.6])
        path.write_text(json.dumps(content))
        with pytest.warns(RepairWarning, match="1 box reached beyond its picture by less than a pixel and is clipped"):
            found = detection("coco", tmp_path, strict=True)
        np.testing.assert_allclose(found.label(0)[1], [0, 12, 64, 48, 0, 0], atol=1e-4)

    def test_a_category_of_categories_is_no_class(self, tmp_path, rng):
        """Roboflow writes one, without objects."""
        path, content = make_coco(tmp_path, rng)
        content["categories"] = [{"id": 0, "name": "pets", "supercategory": "none"},
                                 *({**item, "supercategory": "pets"} for item in content["categories"])]
        path.write_text(json.dumps(content))
        assert detection("coco", tmp_path).classes == NAMES

    def test_classes_are_told_by_their_names(self, tmp_path, rng):
        """Their order may differ between the list to train on and the one held out."""
        _, content = make_coco(tmp_path, rng)
        train, names = detection("coco", tmp_path), ("cow", "dog", "cat")
        content["categories"].reverse()
        (tmp_path / "annotations" / "instances_val2017.json").write_text(json.dumps(content))
        check(detection("coco", tmp_path, "val", classes=train.classes))
        more = detection("coco", tmp_path, classes=names)
        assert more.classes == names and more.label(0)[:, 4].tolist() == [1, 2]   # a dog, then a cat

    @pytest.mark.parametrize("split, text", [("val", "has no image. "), ("train", "has no image with an object. ")])
    def test_an_empty_list(self, tmp_path, rng, split, text):
        path, content = make_coco(tmp_path, rng)
        content.update(annotations=[], images=content["images"] if split == "train" else [])
        (path.parent / f"instances_{split}2017.json").write_text(json.dumps(content))
        refused(f"instances_{split}2017.json {text}", "coco", tmp_path, split)

    def test_not_json(self, tmp_path, rng):
        path, _ = make_coco(tmp_path, rng)
        lines = path.read_text().splitlines()
        path.write_text("\n".join([*lines[:4], "?", *lines[4:]]))
        refused(f"{path}, line 5: ", "coco", tmp_path)

    @pytest.mark.parametrize("text", ["[" * 100_000, "[" + "9" * 5000 + "]"])
    def test_json_beyond_python(self, tmp_path, rng, text):
        """It has lists in lists, or a number of thousands of digits, which Python before 3.11 reads."""
        path, _ = make_coco(tmp_path, rng)
        path.write_text(text)
        refused(f"{path}, top level: ", "coco", tmp_path)

    def test_missing(self, tmp_path, rng):
        refused("has no pictures and no labels; expected annotations/instances_train.json", "coco", tmp_path)
        make_coco(tmp_path, rng)
        refused("instances_train2017.json has the category 'dog'; expected one of cat, cow", "coco", tmp_path,
                classes=("cat", "cow"))
