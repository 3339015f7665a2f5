"""Data sets for detection: what is in tiny folders of every layout comes out, and what is wrong there is named."""
import json
import re
import sys
import threading

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from folders import NAMES, SCENES, annotation, make_coco, make_records, make_voc, make_yolo, picture, save
from gluonops.core.optional import require
from gluonops.data import detection
from PIL import Image

OTHERS = {"voc": {"classes": NAMES}, "coco": {}, "yolo": {}, "rec": {"classes": NAMES}}
MAKERS = {"voc": make_voc, "coco": make_coco, "yolo": make_yolo, "rec": make_records}


def check(dataset, scenes=SCENES, difficult=False):
    """Shapes, classes and boxes; and an image has its rectangles where the label says."""
    assert dataset.classes == NAMES and len(dataset) == len(scenes)
    for place, (size, boxes) in enumerate(scenes):
        image, label = dataset[place]
        assert image.dtype == np.uint8 and image.shape == (size[1], size[0], 3)
        assert label.dtype == np.float32 and label.shape == (len(boxes), 6)
        np.testing.assert_allclose(label[:, :5], np.reshape(boxes, (-1, 5)), atol=1e-4)
        np.testing.assert_array_equal(label[:, 5], [difficult and box > 0 for box in range(len(boxes))])
        np.testing.assert_array_equal(dataset.label(place), label)
        assert dataset.size(place) == size
        for left, top, right, bottom, number in boxes:
            inside = image[top + 2:bottom - 2, left + 2:right - 2].reshape(-1, 3).mean(0)
            np.testing.assert_allclose(inside, (255, 40 * number, 0), atol=12)   # JPEG
    with pytest.raises(IndexError):
        dataset[len(scenes)]


def refused(text, *arguments, **options):
    with pytest.raises(gops.OpError) as caught:
        detection(*arguments, **options)
    assert text in str(caught.value), str(caught.value)


class TestVOC:
    def test_a_folder(self, tmp_path, rng):
        make_voc(tmp_path, rng)
        for split in ("train", "val"):
            check(detection("voc", tmp_path, split, classes=NAMES), difficult=True)

    def test_years(self, tmp_path, rng):
        for year in (2007, 2012):
            make_voc(tmp_path / f"VOC{year}", rng, lists=["trainval", "test"])
        assert len(detection("voc", tmp_path, classes=NAMES)) == 2 * len(SCENES)
        check(detection("voc", tmp_path, "val", classes=NAMES), difficult=True)
        check(detection("voc", tmp_path, classes=NAMES, splits=[(2012, "test")]), difficult=True)
        assert len(detection("voc", tmp_path, classes=None).classes) == 20   # cat and dog are among them

    @pytest.mark.parametrize("old, new, line, text", [
        ("<name>dog</name>", "<name>dgo</name>", 4, "the class is 'dgo'; expected one of cat, dog"),
        ("<xmin>5</xmin>", "<xmin>five</xmin>", 7, "<xmin> is 'five'; expected a number"),
        ("<xmin>5</xmin>", "<xmin>nan</xmin>", 7, "<xmin> is 'nan'; expected a number"),
        ("<xmin>5</xmin>", "", 6, "<bndbox> has no <xmin>; expected one"),
        ("<xmin>5</xmin>", "<xmin>0</xmin>", 6, "the box is 0 7 21 31 in an image of 64 x 48; expected 1 <= xmin"),
        ("<xmin>5</xmin>", "<xmin>30</xmin>", 6, "the box is 30 7 21 31 in an image"),
        ("<difficult>0</difficult>", "", 3, "<object> has no <difficult>"),
        ("<difficult>0</difficult>", "<difficult>no</difficult>", 5, "<difficult> is 'no'; expected 0 or 1"),
        ("<size>", "<sizes>", 2, "mismatched tag; expected XML"),
        ("</annotation>", "", 18, "no element found; expected XML"),
    ])
    def test_malformed(self, tmp_path, rng, old, new, line, text):
        make_voc(tmp_path, rng)
        path = tmp_path / "Annotations" / "000000.xml"
        content = annotation(*SCENES[0])
        assert old in content
        path.write_text(content.replace(old, new, 1))
        refused(f"{path}, line {line}: {text}", "voc", tmp_path, classes=NAMES)

    def test_missing(self, tmp_path, rng):
        refused("has no VOC2007/ImageSets/Main/test.txt", "voc", tmp_path, "val")
        make_voc(tmp_path, rng, lists=["test"])
        refused("ImageSets/Main has no train.txt or trainval.txt", "voc", tmp_path)
        refused("test.txt is empty", "voc", self._with_list(tmp_path, ""), "val")
        refused("test.txt, line 2: 'nine' names no image; expected ", "voc", self._with_list(tmp_path, "000000\nnine"),
                "val", classes=NAMES)
        (tmp_path / "Annotations" / "000001.xml").unlink()
        refused("000001.xml cannot be read: No such file", "voc", self._with_list(tmp_path, "000001"), "val",
                classes=NAMES)
        refused("expected names in lower case", "voc", tmp_path, "val", classes=("Cat",))

    def _with_list(self, root, text):
        (root / "ImageSets" / "Main" / "test.txt").write_text(text)
        return root


class TestCOCO:
    @pytest.mark.parametrize("urls", [False, True])
    def test_it_reads(self, tmp_path, rng, urls, capsys):
        make_coco(tmp_path, rng, urls)
        check(detection("coco", tmp_path), SCENES[:2])   # gluoncv leaves images without objects out
        check(detection("coco", str(tmp_path), "val"))
        assert capsys.readouterr().out == ""

    @pytest.mark.parametrize("change, text", [
        (lambda c: c.pop("images"), "top level: no list 'images'"),
        (lambda c: c["annotations"][1].pop("bbox"), "annotations[1]: no bbox; expected id, image_id"),
        (lambda c: c["annotations"][0].update(area="big"), "annotations[0]: area is 'big'; expected a number"),
        (lambda c: c["images"][0].update(id=[1]), "images[0]: id is [1]; expected a number"),
        (lambda c: c["annotations"][1].update(image_id=77), "annotation 1: image_id is 77"),
        (lambda c: c["annotations"][1].update(category_id=4), "annotation 1: category_id is 4"),
        (lambda c: c["annotations"][2].update(bbox=[1, 2, 3]), "annotation 2: bbox is [1, 2, 3]; expected x, y, width"),
        (lambda c: c["annotations"][2].update(bbox=[1, 2, -3, 4]), "annotation 2: bbox is [1, 2, -3, 4]"),
        (lambda c: c["annotations"][0].update(bbox=[-2, 2, 30, 4]), "annotation 0: bbox is [-2, 2, 30, 4] in an image "
         "of 64 x 48; expected a box inside of it"),
        (lambda c: c["annotations"][0].update(bbox=[60, 2, 6, 4]), "annotation 0: bbox is [60, 2, 6, 4] in an image"),
        (lambda c: c["annotations"][0].update(bbox=[60, 60, 4, 4]), "annotation 0: bbox is [60, 60, 4, 4] in an image"),
        (lambda c: c["annotations"][1].update(area=-1), "annotation 1: area is -1, iscrowd 0; expected a number"),
        (lambda c: c["annotations"][1].update(iscrowd="0"), "annotation 1: area is 1152, iscrowd '0'; expected"),
        (lambda c: c["annotations"][1].update(id=0), "annotations: two have the same id; expected another for each"),
        (lambda c: c["images"][1].update(coco_url=5), "image 11: it is 32 x 64, its coco_url 5; expected a size above"),
        (lambda c: c["images"][1].update(height=0), "image 11: it is 32 x 0, its coco_url None; expected a size above"),
        (lambda c: c["images"][2].update(file_name="no.png"), "image 12: there is no "),
    ])
    def test_malformed(self, tmp_path, rng, change, text):
        path, content = make_coco(tmp_path, rng)
        change(content)
        (tmp_path / "annotations" / "instances_val2017.json").write_text(json.dumps(content))
        refused(text, "coco", tmp_path, "val")

    def test_objects_without_an_area_are_told_of(self, tmp_path, rng):
        """COCO's own file to train on has two, so that a refusal would refuse it."""
        path, content = make_coco(tmp_path, rng)
        content["annotations"][0].update(bbox=[4, 6, 16, 0.0], area=0.0)
        content["annotations"][2].update(bbox=[15, 0, 1, 32])
        path.write_text(json.dumps(content))
        with pytest.warns(UserWarning, match="2 objects without an area, or not larger than a pixel, are left out: "
                          "annotation 0, 2$"):
            train = detection("coco", tmp_path)
        assert len(train) == 1 and len(train.label(0)) == 1

    def test_a_pixel_outside_is_clipped(self, tmp_path, rng):
        path, content = make_coco(tmp_path, rng)
        content["annotations"][1].update(bbox=[-0.4, 12, 64.9, 36.6])
        path.write_text(json.dumps(content))
        np.testing.assert_allclose(detection("coco", tmp_path).label(0)[1], [0, 12, 64, 48, 0, 0], atol=1e-4)

    def test_classes_are_told_by_their_names(self, tmp_path, rng):
        """Whatever their order is in the file, as that of the list to train on and of the one held out may differ."""
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

    def test_missing(self, tmp_path, rng, monkeypatch):
        refused("has no instances_train2017.json or instances_train.json or train.json", "coco", tmp_path)
        make_coco(tmp_path, rng)
        refused("instances_train2017.json has the category 'dog'; expected one of cat, cow", "coco", tmp_path,
                classes=("cat", "cow"))
        monkeypatch.setitem(sys.modules, "pycocotools.coco", None)
        refused("pycocotools cannot be imported", "coco", tmp_path)


class TestYolo:
    @pytest.mark.parametrize("lists", [True, False])
    def test_it_reads(self, tmp_path, rng, lists):
        make_yolo(tmp_path, rng, lists)
        check(detection("yolo", tmp_path))

    def test_lists_name_other_folders(self, tmp_path, rng):
        make_yolo(tmp_path / "data", rng)
        (tmp_path / "data" / "train.txt").write_text(
            f"data/images/0.png\n\n./images/1.png\n{tmp_path / 'data' / 'images' / '2.png'}\n")
        check(detection("yolo", tmp_path / "data"))

    def test_labels_without_an_image(self, tmp_path, rng):
        """In a folder an image that is lost would go unnoticed; a list says what it wants."""
        make_yolo(tmp_path, rng, lists=False)
        (tmp_path / "images" / "train" / "1.png").unlink()
        with pytest.warns(UserWarning, match="labels/train has 1 labels without an image, first 1.txt; they are left"):
            assert len(detection("yolo", tmp_path)) == 2
        (tmp_path / "train.txt").write_text("images/train/0.png\n")
        assert len(detection("yolo", tmp_path)) == 1

    def test_labels_beside_images(self, tmp_path, rng):
        """Nothing is exchanged in the folders above root, whatever their names are."""
        root = tmp_path / "images" / "mine"
        make_yolo(root, rng)
        for file in [*(root / "images").iterdir(), *(root / "labels").iterdir()]:
            file.rename(root / file.name)
        (root / "train.txt").write_text("0.png\n1.png\n2.png\n")
        check(detection("yolo", root))

    def test_boxes_are_clipped(self, tmp_path, rng):
        make_yolo(tmp_path, rng)
        (tmp_path / "labels" / "0.txt").write_text("1 0.0 0.5 0.5 1.0\n")
        np.testing.assert_allclose(detection("yolo", tmp_path).label(0), [[0, 0, 16, 48, 1, 0]])

    @pytest.mark.parametrize("line, text", [
        ("1 0.5 0.5 0.1", "'1 0.5 0.5 0.1'; expected class x y width height: five numbers"),
        ("1 0.5 0.5 0.1 0.1 0.9", "'1 0.5 0.5 0.1 0.1 0.9'; expected class x y"),
        ("dog 0.5 0.5 0.1 0.1", "'dog 0.5 0.5 0.1 0.1'; expected class x y"),
        ("1 0.5 nan 0.1 0.1", "'1 0.5 nan 0.1 0.1'; expected class x y"),
        ("2 0.5 0.5 0.1 0.1", "the class is 2; expected a whole number from 0 to 1"),
        ("0.5 0.5 0.5 0.1 0.1", "the class is 0.5; expected"),
        ("-1 0.5 0.5 0.1 0.1", "the class is -1; expected"),
        ("1 32 24 10 10", "the box is 32 24 10 10; expected a centre from 0 to 1, and sizes from 1e-06 to 1"),
        ("1 0.5 0.5 0.1 1e-9", "the box is 0.5 0.5 0.1 1e-09; expected"),
        ("1 0.5 0.5 0 0.1", "the box is 0.5 0.5 0 0.1; expected"),
        ("1 -0.1 0.5 0.1 0.1", "the box is -0.1 0.5 0.1 0.1; expected"),
    ])
    def test_malformed(self, tmp_path, rng, line, text):
        make_yolo(tmp_path, rng)
        path = tmp_path / "labels" / "1.txt"
        path.write_text(f"0 0.5 0.5 0.5 0.5\n\n{line}\n")
        refused(f"{path}, line 3: {text}", "yolo", tmp_path)

    def test_missing(self, tmp_path, rng):
        refused("there is no folder", "yolo", tmp_path / "none")
        make_yolo(tmp_path, rng)
        (tmp_path / "labels" / "1.txt").write_bytes(b"\xff\xfe\x00")
        refused("1.txt is not text", "yolo", tmp_path)
        (tmp_path / "labels" / "1.txt").unlink()
        refused("1.txt cannot be read: No such file or directory. An image without objects has an empty label file",
                "yolo", tmp_path)
        (tmp_path / "train.txt").write_text("images/0.png\nimages/9.png\n")
        refused(f"train.txt, line 2: there is no {tmp_path / 'images' / '9.png'}", "yolo", tmp_path)
        (tmp_path / "val.txt").write_text("\n")
        refused("val.txt is empty", "yolo", tmp_path, "val")
        (tmp_path / "val.txt").unlink()
        refused("has no val.txt or valid.txt or test.txt, and no folder images/val", "yolo", tmp_path, "val")
        (tmp_path / "classes.txt").write_text("cat\n")
        refused("has classes.txt and my.names; expected one file", "yolo", tmp_path)
        refused("classes are ('a', 'a'); expected", "yolo", tmp_path, classes=("a", "a"))
        refused("none.names cannot be read", "yolo", tmp_path, classes=tmp_path / "none.names")


class TestRecords:
    def test_it_reads(self, tmp_path, rng):
        make_records(tmp_path, rng)
        check(detection("rec", tmp_path, classes=NAMES))
        check(detection("rec", tmp_path / "train.rec", "val", classes=NAMES))
        assert detection("rec", tmp_path).classes == ("0", "1")

    def test_agrees_with_gluoncv(self, tmp_path, rng):
        RecordFileDetection = require("gluoncv.data", "tests").RecordFileDetection
        make_records(tmp_path, rng)
        theirs, ours = RecordFileDetection(str(tmp_path / "train.rec")), detection("rec", tmp_path)
        for place in range(2):   # it refuses records without an object
            (image, label), (image_, label_) = ours[place], theirs[place]
            np.testing.assert_array_equal(image, image_.asnumpy())
            np.testing.assert_allclose(label[:, :5], label_, atol=1e-4)

    def test_threads_share_the_file(self, tmp_path, rng):
        make_records(tmp_path, rng)
        dataset, wrong = detection("rec", tmp_path), []
        expected = [dataset.image(place) for place in range(3)]

        def read(start):
            for place in range(start, start + 100):
                if not np.array_equal(dataset.image(place % 3), expected[place % 3]):
                    wrong.append(place)

        threads = [threading.Thread(target=read, args=(start,)) for start in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    @pytest.mark.parametrize("label, text", [
        ([2, 5, 1, 0, 0, 0.5], "record 6: a label of 6 numbers that starts with [2.0, 5.0]; expected the length of"),
        ([1, 5, 1, 0, 0, 0.5, 0.5], "that starts with [1.0, 5.0]"),
        ([2, 4, 1, 0, 0, 0.5], "that starts with [2.0, 4.0]"),
        ([7], "a label of 1 numbers that starts with [7.0]"),
        ([2, 5, -1, 0, 0, 0.5, 0.5], "record 6: the class is -1; expected a whole number from 0"),
        ([2, 5, 2, 0, 0, 0.5, 0.5], "record 6: the class is 2; expected a whole number from 0 to 1"),
        ([2, 5, 1, 0, 0, 16, 24], "record 6: the box is 0 0 16 24; expected shares of the image's size"),
        ([2, 5, 1, 0.5, 0, 0.5, 1], "record 6: the box is 0.5 0 0.5 1; expected"),
        ([2, 5, 1, 0, -1e-3, 1, -1e-4], "record 6: the box is 0 -0.001 1 -0.0001; expected"),
        ([2, 5, 1, 0, 0, 1, np.nan], "record 6: the box is 0 0 1 nan; expected"),
    ])
    def test_malformed(self, tmp_path, rng, label, text):
        empty = np.float32([2, 5])
        make_records(tmp_path, rng, [empty, np.float32(label) if len(label) > 1 else label[0], empty])
        refused(text, "rec", tmp_path, classes=NAMES)

    def test_a_cut_file(self, tmp_path, rng):
        """As a full disk or a broken copy leaves it: its last record is named before anything is trained."""
        make_records(tmp_path, rng)
        path = tmp_path / "train.rec"
        content = path.read_bytes()
        path.write_bytes(content[:-100])
        refused("record 7: ", "rec", tmp_path)
        refused(f"the file ends at byte {len(content) - 100}. It was cut off", "rec", tmp_path)

    @pytest.mark.parametrize("number", [1e5, 1e9, 3e38])
    def test_too_many_classes_without_names(self, tmp_path, rng, number):
        make_records(tmp_path, rng, [np.float32([2, 5, number, 0, 0, 1, 1])] * 3)
        refused(f"train.rec has the class {int(np.float32(number))}; expected at most 100000 of them", "rec", tmp_path)

    @pytest.mark.parametrize("content, text", [
        ("5\t0\nsix\n", "train.idx, line 2: 'six'; expected a number and a place"),
        ("5\t0\n5\t0\n", "train.idx has a record twice"), ("", "train.idx has no records"),
        ("5\t4\n", "train.rec has no record at byte 4, where the .idx file puts record 5"),
        ("5\t²\n", "train.idx, line 1: '5\\t²'; expected a number and a place"),
        ("5\t999999\n", "train.rec has no record at byte 999999"),
        (f"5\t{10**30}\n", f"train.rec has no record at byte {10**30}")])
    def test_bad_index(self, tmp_path, rng, content, text):
        make_records(tmp_path, rng)
        (tmp_path / "train.idx").write_text(content, encoding="utf-8")
        refused(text, "rec", tmp_path)

    def test_missing(self, tmp_path, rng):
        make_records(tmp_path, rng)
        refused("there is no ", "rec", tmp_path, "val")
        (tmp_path / "train.idx").unlink()
        refused("train.idx cannot be read", "rec", tmp_path)


@pytest.mark.parametrize("name", OTHERS)
class TestImages:
    def test_an_unreadable_one_is_named(self, tmp_path, rng, name):
        """By the loader's threads as well."""
        MAKERS[name](tmp_path, rng, **({"images": [b"no image"] * 3} if name == "rec" else {}))
        files = [path for path in tmp_path.rglob("*") if path.suffix in (".png", ".jpg")]
        for path in files:
            path.write_bytes(b"no image")
        dataset = detection(name, tmp_path, **OTHERS[name])
        text = r"train.rec, record 5 has 8 bytes that do not decode" if name == "rec" else \
            f"{re.escape(str(sorted(files)[0]))} has 8 bytes that do not decode; expected an image"
        with pytest.raises(gops.OpError, match=text):
            dataset.image(0)
        with pytest.raises(gops.OpError, match=text):
            dataset.size(0)
        ready = gops.data.Augmented(dataset, 32, gops.data.Augment())
        with pytest.raises(gops.OpError, match=text):
            next(iter(mx.gluon.data.DataLoader(ready, 2, num_workers=2, thread_pool=True,
                                               batchify_fn=gops.data.detection_batch)))

    def test_an_empty_one_is_named(self, tmp_path, rng, name):
        MAKERS[name](tmp_path, rng, **({"images": [b""] * 3} if name == "rec" else {}))
        for path in tmp_path.rglob("*"):
            if path.suffix in (".png", ".jpg"):
                path.write_bytes(b"")
        with pytest.raises(gops.OpError, match="has 0 bytes that do not decode"):
            detection(name, tmp_path, **OTHERS[name]).image(0)


@pytest.mark.parametrize("name", ["voc", "coco"])
def test_an_image_of_another_size_is_refused(tmp_path, rng, name):
    """Its boxes were drawn in another one: both files are named once it is looked at."""
    MAKERS[name](tmp_path, rng)
    (image,) = tmp_path.rglob("*0000.[jp][pn]g")
    save(image, picture((24, 20), [], rng))
    dataset = detection(name, tmp_path, **OTHERS[name])
    text = f"{image} is 24 x 20; expected 64 x 48, as " + {
        "voc": f"{tmp_path}/Annotations/000000.xml says",
        "coco": f"{tmp_path}/annotations/instances_train2017.json, image 10, says"}[name]
    for look in (dataset.image, dataset.size, dataset.__getitem__):
        with pytest.raises(gops.OpError, match=re.escape(text)):
            look(0)
        look(1)


def test_a_turned_photograph(tmp_path, rng):
    """The size that is read from the head is the decoded image's: as it is stored, whatever EXIF says."""
    make_yolo(tmp_path, rng)
    turned = Image.Exif()
    turned[0x0112] = 6
    save(tmp_path / "images" / "0.png", picture(*SCENES[0], rng))
    Image.open(tmp_path / "images" / "0.png").save(tmp_path / "images" / "0.jpg", exif=turned)
    (tmp_path / "train.txt").write_text("images/0.jpg\n")
    dataset = detection("yolo", tmp_path)
    assert dataset.image(0).shape[1::-1] == dataset.size(0)
    np.testing.assert_array_equal(dataset[0][1], dataset.label(0))


def test_bad_names():
    refused("there is no data set 'vox'; there are digits, voc, coco, yolo, rec", "vox")
    refused("split is 'test'; expected 'train' or 'val'", "digits", split="test")
    refused("digits got root '/x'; they ship inside scikit-learn", "digits", "/x")
    refused("voc needs a root", "voc")


def test_without_gluoncv(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gluoncv.data", None)
    refused("gluonops.data.voc: gluoncv cannot be imported (", "voc", tmp_path)
    refused("Run pip install 'gluonops[detection]'", "voc", tmp_path)
