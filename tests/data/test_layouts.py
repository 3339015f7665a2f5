"""Layouts of data sets that people have: each is found by itself, and read through the entry point of the scripts."""
import json
import pathlib
import re
import shutil

import gluonops as gops
import numpy as np
import pytest
from folders import make_records, refused
from gluonops import train
from gluonops.data import layouts
from PIL import Image

SIZE, BOX = (100, 80), (20, 10, 60, 50)
XML = "<annotation>{size}<object><name>{name}</name><difficult>0</difficult><bndbox><xmin>21</xmin><ymin>11</ymin>" \
      "<xmax>61</xmax><ymax>51</ymax></bndbox></object></annotation>"
STATED = "<size><width>100</width><height>80</height></size>"
ROW = "0 0.4 0.375 0.4 0.5\n"


def write(path, text, **how):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, **how)


def paint(path, level=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("RGB", SIZE, (30, 60, 30 + level))
    image.paste((220, 200, 20), BOX)
    image.save(path)


def parts(count=10):
    """(number, split) of each picture."""
    return [(i, "train" if i < 8 else "val") for i in range(count)]


def xml(path, name="bolt"):
    write(path, XML.format(size=STATED, name=name))


def voc_year(root, lists, year="VOC2012", ending=".jpg", names="{}"):
    for i, _ in parts():
        paint(root / year / "JPEGImages" / f"{names.format(i)}{ending}", i)
        xml(root / year / "Annotations" / f"{names.format(i)}.xml")
    for name, numbers in lists.items():
        write(root / year / "ImageSets/Main" / f"{name}.txt", "".join(f"{names.format(i)}\n" for i in numbers))


def voc_beside(root, images, labels, split=False):
    for i, part in parts():
        between = (part if split is True else split or "")
        paint(root / images.format(part=part) / between / f"{i}.jpg", i)
        xml(root / labels.format(part=part) / between / f"{i}.xml")


def yolo(root, image, label, names="classes.txt", rename=None):
    for i, part in parts():
        part = (rename or {}).get(part, part)
        paint(root / image.format(part=part) / f"{i}.png", i)
        write(root / label.format(part=part) / f"{i}.txt", ROW)
    if names:
        write(root / names, "bolt\n")


def yaml(root, text, **how):
    yolo(root, names=None, **how)
    write(root / "data.yaml", text)


def coco(numbers, **more):
    images = [{"id": i, "file_name": f"{i}.jpg", "width": 100, "height": 80, **more} for i in numbers]
    annotations = [{"id": i, "image_id": i, "category_id": 1, "bbox": [20, 10, 40, 40], "area": 1600, "iscrowd": 0}
                   for i in numbers]
    categories = [{"id": 1, "name": "bolt", "supercategory": "none"}]
    return json.dumps({"images": images, "categories": categories, "annotations": annotations})


def coco_set(root, image, file, rename=None):
    """``file``: where the JSON is; without the split in it there is one for all."""
    listed = {}
    for i, part in parts():
        part = (rename or {}).get(part, part)
        paint(root / image.format(part=part) / f"{i}.jpg", i)
        listed.setdefault(file.format(part=part), []).append(i)
    for name, numbers in listed.items():
        write(root / name, coco(numbers))


def records(root, rng, splits, index=True):
    images = []
    for i, _ in parts():
        paint(root / "a.png", i)
        images.append((root / "a.png").read_bytes())
    (root / "a.png").unlink()
    label = np.float32([2, 5, 0, 0.2, 0.125, 0.6, 0.625])
    for split, numbers in splits.items():
        file = gops_records(root, split)
        for i in numbers:
            file.write_idx(i, pack(label, i, images[i]))
        file.close()
        if not index:
            (root / f"{split}.idx").unlink()


def gops_records(root, split):
    import mxnet as mx
    return mx.recordio.MXIndexedRecordIO(str(root / f"{split}.idx"), str(root / f"{split}.rec"), "w")


def pack(label, number, content):
    import mxnet as mx
    return mx.recordio.pack(mx.recordio.IRHeader(0, label, number, 0), content)


VALID = {"val": "valid"}
TRAIN, REST, ALL = range(8), range(8, 10), range(10)
# The layouts, by a name: the format, whether there is a part for validation, and what makes a folder.
DETECTION = {
    "a year": ("voc", True, lambda root: voc_year(root, {"train": TRAIN, "val": REST, "trainval": ALL})),
    "another year": ("voc", True, lambda root: voc_year(root, {"train": TRAIN, "val": REST}, "VOC2010")),
    "VOCdevkit": ("voc", True, lambda root: voc_year(root / "VOCdevkit", {"train": TRAIN, "val": REST})),
    "a year with a test": ("voc", True, lambda root: voc_year(root, {"trainval": TRAIN, "test": REST}, "VOC2007")),
    "a year without val": ("voc", False, lambda root: voc_year(root, {"trainval": ALL})),
    "lists": ("voc", True, lambda root: voc_year(root, {"train": TRAIN, "val": REST}, "")),
    "one list": ("voc", False, lambda root: voc_year(root, {"train": ALL}, "")),
    "another list": ("voc", False, lambda root: voc_year(root, {"default": ALL}, "")),
    "no lists": ("voc", False, lambda root: voc_year(root, {}, "")),
    "no lists in a year": ("voc", False, lambda root: voc_year(root, {})),
    "PNG": ("voc", True, lambda root: voc_year(root, {"train": TRAIN, "val": REST}, "", ".PNG")),
    "TIFF": ("voc", True, lambda root: voc_year(root, {"train": TRAIN, "val": REST}, "", ".tif")),
    "blanks": ("voc", True, lambda root: voc_year(root, {"train": TRAIN, "val": REST}, "", names="photo {} a.b")),
    "images, annots": ("voc", False, lambda root: voc_beside(root, "images", "annots")),
    "images, annotations": ("voc", False, lambda root: voc_beside(root, "images", "annotations")),
    "Images, Annotation": ("voc", False, lambda root: voc_beside(root, "Images", "Annotation")),
    "images, annotations/xmls": ("voc", False, lambda root: voc_beside(root, "images", "annotations/xmls")),
    "images/train, annotations/train": ("voc", True, lambda root: voc_beside(root, "images", "annotations", True)),
    "train/images, train/annotations": ("voc", True, lambda root: voc_beside(root, "{part}/images", "{part}/annots")),
    "XML in train": ("voc", True, lambda root: voc_beside(root, "{part}", "{part}")),
    "Roboflow": ("yolo", True, lambda root: yaml(
        root, "train: ../train/images\nval: ../valid/images\ntest: ../test/images\n\nnc: 1\nnames: ['bolt']\n",
        image="{part}/images", label="{part}/labels", rename=VALID)),
    "Ultralytics": ("yolo", True, lambda root: yaml(
        root,
        "path: ../datasets/coco8  # root\ntrain: images/train2017\nval: images/val2017\ntest:\n\nnames:\n  0: bolt\n",
        image="images/{part}2017", label="labels/{part}2017")),
    "Ultralytics without val": ("yolo", False, lambda root: yaml(
        root, "train: images\nnc: 1\nnames: [bolt]\n", image="images", label="labels")),
    "Ultralytics with lists": ("yolo", True, lambda root: (
        yaml(root, "path: .\ntrain: train.txt\nval: [val.txt]\nnames: {0: bolt}\n", image="images", label="labels"),
        write(root / "train.txt", "".join(f"./images/{i}.png\n" for i in TRAIN)),
        write(root / "val.txt", "".join(f"images\\{i}.png\r\n" for i in REST), encoding="utf-16"))),
    "images/train, labels/train": ("yolo", True, lambda root: yolo(root, "images/{part}", "labels/{part}")),
    "Images/Train, labels/Train": ("yolo", True, lambda root: yolo(root, "Images/{part}", "labels/{part}",
                                                                   rename={"train": "Train", "val": "Valid"})),
    "train/images, train/labels": ("yolo", True, lambda root: yolo(root, "{part}/images", "{part}/labels", "a.names")),
    "train, valid": ("yolo", True, lambda root: yolo(root, "{part}", "{part}", rename=VALID)),
    "images, labels": ("yolo", False, lambda root: yolo(root, "images", "labels", "labels/classes.txt")),
    "a data file": ("yolo", False, lambda root: (
        yolo(root, "obj", "obj", "my/obj.names"),
        write(root / "my" / "all.txt", "".join(f"obj/{i}.png\n" for i in ALL)),
        write(root / "obj.data", "classes = 1\ntrain = my\\all.txt\nnames = my\\obj.names\n"))),
    "both kinds and classes.txt": ("yolo", False, lambda root: yolo(root, "", "")),
    "annotations/instances": ("coco", True, lambda root: coco_set(
        root, "images/{part}", "annotations/instances_{part}.json")),
    "annotations/instances2017": ("coco", True, lambda root: coco_set(
        root, "{part}2017", "annotations/instances_{part}2017.json")),
    "JSON beside pictures": ("coco", True, lambda root: coco_set(
        root, "{part}", "{part}/_annotations.coco.json", rename=VALID)),
    "JSON beside the folder": ("coco", True, lambda root: coco_set(root, "{part}", "{part}.json")),
    "JSON and images": ("coco", True, lambda root: coco_set(root, "images", "{part}_annotations.json")),
    "one JSON": ("coco", False, lambda root: coco_set(root, "images", "annotations/instances_default.json")),
    "one JSON beside pictures": ("coco", False, lambda root: coco_set(root, "", "_annotations.coco.json")),
    "one JSON in train": ("coco", False, lambda root: coco_set(root, "train", "train/_annotations.coco.json")),
}


@pytest.mark.parametrize("layout", DETECTION)
def test_detection(tmp_path, layout):
    name, has_validation, make = DETECTION[layout]
    make(tmp_path)
    found = gops.data.recognize(tmp_path)
    assert (found.name, found.task) == (name, "detection")
    training, validation = train.detection_parts(name, tmp_path, size=64, strict=True)   # there is nothing to repair
    assert len(training) == 8 and len(validation) == 2 and training.classes == validation.classes == ("bolt",)
    names = [pathlib.Path(part.name(i)).stem for part in (training, validation) for i in range(len(part))]
    assert len(set(names)) == 10
    assert (training.held_out is None) == has_validation
    for part in (training, validation):
        for i in range(len(part)):
            image, label = part[i]
            np.testing.assert_allclose(label, [[*BOX, 0, 0]], atol=1e-4)
            assert image.shape == (80, 100, 3) and image[30, 40, 0] > 180 > 90 > image[5, 5, 0]
    if has_validation:
        assert sorted(names[8:])[0][-1:] in "8b"   # "photo 8 a.b"
        return
    own = [str(pathlib.Path(validation.name(i)).relative_to(tmp_path)) for i in range(2)]
    assert sorted(training.held_out) == sorted(own)
    again = train.detection_parts(name, tmp_path, size=64)
    assert again[0].fingerprint() == training.fingerprint() and again[1].fingerprint() == validation.fingerprint()
    chosen = [str(pathlib.Path(training.name(i)).relative_to(tmp_path)) for i in (0, 5, 6)]
    _, others = train.detection_parts(name, tmp_path, size=64, hold_out=chosen)
    assert sorted(others.held_out) == sorted(chosen) and len(others) == 3
    refused("has no part for validation", name, tmp_path, "val")


@pytest.mark.parametrize("splits, index", [
    ({"train": TRAIN, "val": REST}, True), ({"train": TRAIN, "val": REST}, False), ({"train": ALL}, True),
    ({"mine_train": TRAIN, "mine_val": REST}, True), ({"mine": ALL}, False)])
def test_records(tmp_path, rng, splits, index):
    records(tmp_path, rng, splits, index)
    assert gops.data.recognize(tmp_path)[:2] == ("rec", "detection")
    if index:
        training, validation = train.detection_parts("rec", tmp_path, size=64, strict=True)
    else:
        with pytest.warns(gops.data.repairs.RepairWarning, match="no .idx"):
            training, validation = train.detection_parts("rec", tmp_path, size=64)
    assert (len(training), len(validation)) == (8, 2) and (training.held_out is None) == (len(splits) == 2)
    for part in (training, validation):
        np.testing.assert_allclose(part[1][1], [[*BOX, 0, 0]], atol=1e-4)


@pytest.mark.parametrize("folders", ["{name}", "train/{name}", "Train/{name}"])
def test_classes_without_validation(tmp_path, folders):
    """A fifth of each class is held out, and at least one picture."""
    for name, count in (("nut", 10), ("bolt", 5), ("pin", 3)):
        for i in range(count):
            paint(tmp_path / folders.format(name=name) / f"{name} {i}.{'WEBP' if i % 2 else 'jpg'}", i)
    write(tmp_path / folders.format(name=".ipynb_checkpoints") / "0.txt", "")
    paint(tmp_path / folders.format(name="nut") / "._0.jpg")   # macOS leaves such files, which are no pictures
    (tmp_path / folders.format(name="nut") / "._0.jpg").write_bytes(b"no picture")
    assert gops.data.recognize(tmp_path)[:2] == ("folder", "classification")
    parts = train.classification_parts("folder", tmp_path, strict=True)
    assert parts.classes == ["bolt", "nut", "pin"] and parts.held_out.labels.tolist() == [0, 1, 1, 2]
    assert len(parts.training) + len(parts.validation) == 14
    names = {part.name(i) for part in parts[:3] for i in range(len(part))}
    assert len(names) == 18 and len(parts.training.held_out) == 4
    again = train.classification_parts("folder", tmp_path, hold_out=parts.training.held_out)
    assert [again.held_out.name(i) for i in range(4)] == [parts.held_out.name(i) for i in range(4)]


def test_the_held_out_fifth_has_each_class(tmp_path):
    """A picture counts as one of its rarest class."""
    for i in range(20):
        paint(tmp_path / "images" / f"{i:02}.jpg", i)
        xml(tmp_path / "annots" / f"{i:02}.xml", "rare" if i in (3, 11) else "bolt")
    training, validation = train.detection_parts("voc", tmp_path, size=64)
    for part in (training, validation):
        classes = np.concatenate([part.label(i)[:, 4] for i in range(len(part))])
        assert sorted(set(classes)) == [0, 1]
    assert len(validation) == 5


def test_a_list_of_what_is_held_out_is_checked(tmp_path):
    voc_beside(tmp_path, "images", "annots")
    with pytest.raises(gops.OpError, match="there is no picture images/10.jpg, which is to be held out; expected"):
        train.detection_parts("voc", tmp_path, size=64, hold_out=["images/3.jpg", "images/10.jpg"])
    paint(tmp_path / "one" / "images" / "a.jpg")
    xml(tmp_path / "one" / "annots" / "a.xml")
    with pytest.raises(gops.OpError, match="has 1 picture and no part for validation; expected at least two"):
        train.detection_parts("voc", tmp_path / "one", size=64)


def flat(root, *endings, count=8):
    for i in range(count):
        for ending in endings:
            if ending == ".jpg":
                paint(root / f"{i}{ending}", i)
            else:
                write(root / f"{i}{ending}", "")


@pytest.mark.parametrize("make, seen, remedy", [
    (lambda root: flat(root, ".jpg", ".xml"), "has 8 pictures and 8 XML files in one folder",
     "JPEGImages and the XML files to Annotations"),
    (lambda root: flat(root, ".jpg", ".txt"), "has 8 pictures and 8 text files in one folder",
     "images and the text files to labels"),
    (lambda root: flat(root, ".jpg", ".json"), "has 8 pictures and 8 JSON files in one folder", "Convert the JSON"),
    (lambda root: flat(root, ".jpg"), "has 8 pictures in one folder", "Put the pictures of each class in a folder"),
    (lambda root: flat(root / "all", ".jpg", ".csv"), "8 pictures and 8 CSV files in the folder all", "of each class"),
    (lambda root: write(root / "set.zip", ""), "has 1 archive in one folder", "Unpack the archive"),
    (lambda root: write(root / "notes.md", ""), "has no pictures and no labels", "Pass the folder of a data set"),
    (lambda root: (flat(root / "a", ".jpg", count=1), flat(root / "b", ".txt", count=2)),
     "1 picture in a, 2 text files in b", ""),
    (lambda root: voc_beside(root / "mine", "images", "annots"), "10 pictures in mine/images",
     "Pass .*mine, which has the layout voc"),
])
def test_no_layout(tmp_path, make, seen, remedy):
    """The message says what is there, and what the nearest layout is."""
    make(tmp_path)
    assert seen in f"has {layouts.describe(tmp_path)}"
    with pytest.raises(gops.OpError, match=f"expected one of the layouts in docs/fine_tuning.md. .*{remedy}") as caught:
        gops.data.recognize(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name, mine, other", [
    ("voc", "ImageSets/Main", "data.yaml"), ("yolo", "labels/train", "ImageSets"),
    ("coco", "instances_train.json", "labels/")])
def test_the_advice_of_a_reader_is_about_its_files(tmp_path, name, mine, other):
    flat(tmp_path, ".jpg", count=2)
    with pytest.raises(gops.OpError, match=re.escape(mine)) as caught:
        gops.data.detection(name, tmp_path)
    assert other not in caught.value.what and "has 2 pictures in one folder" in caught.value.what


@pytest.mark.parametrize("text, message", [
    ("train: images\nval: images\n", "names is None; expected a list of names"),
    ("names: bolt\ntrain: images\n", "names is 'bolt'"),
    ("names: [bolt]\n", "it has neither train nor val"),
    ("names: [bolt]\ntrain: pictures\n", "train: there is no pictures"),
    ("names: [bolt]\ntrain: {a: b}\n", "train is {'a': 'b'}; expected the path of a folder"),
    ("names: [a, a]\ntrain: images\n", "with 'a' twice"), ("names: {x: a}\ntrain: images\n", "names has the class ids"),
    ("names: [a]\nnc: 2\ntrain: images\n", "nc is 2, and there are 1 names"),
    ("names: [a\ntrain: images\n", "data.yaml, line [23]: .*expected YAML"),
    ("names: &x [*x]\ntrain: images\n", "alias"),
    ("names: {1: bolt}\ntrain: images\n", "0.txt, line 1: the class is 0; expected one of 1")])
def test_a_bad_data_yaml(tmp_path, text, message):
    yolo(tmp_path, "images", "labels", None)
    write(tmp_path / "data.yaml", text)
    with pytest.raises(gops.OpError, match=message) as caught:
        gops.data.detection("yolo", tmp_path / "data.yaml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("names, classes", [
    ("names: [no, 'on', \"3\", 0x1]", ("no", "on", "3", "0x1")), ("names:\n- a\n- b c\n", ("a", "b c")),
    ("nc: 3", ("0", "1", "2")), ("names: {2: c, 0: a}", ("a", "c")),
    ("names:\n  0: a  # first\n  1: 'b: c'\n", ("a", "b: c"))])
def test_names_of_a_data_yaml(tmp_path, names, classes):
    """They are text, whatever YAML makes of it."""
    yaml(tmp_path, f"train: images\n{names}\n", image="images", label="labels")
    found = gops.data.detection("yolo", tmp_path / "data.yaml")
    assert found.classes == classes and found.label(0)[0, 4] == 0


def test_key_points(tmp_path):
    """kpt_shape says that they follow the box, which would else be a polygon."""
    yaml(tmp_path, "train: images\nnames: [bolt]\nkpt_shape: [2, 3]\n", image="images", label="labels")
    for path in (tmp_path / "labels").iterdir():
        path.write_text(f"{ROW.strip()} 0.1 0.1 2 0.2 0.9 2\n")
    np.testing.assert_allclose(gops.data.detection("yolo", tmp_path, strict=True).label(3), [[*BOX, 0, 0]], atol=1e-4)


def test_another_yaml_is_no_data_set(tmp_path):
    for name in ("nut", "bolt"):
        paint(tmp_path / name / "a.jpg")
    write(tmp_path / "config.yaml", "lr: 0.1\n")
    assert gops.data.recognize(tmp_path).name == "folder"


def test_a_data_yaml_tells_its_format(tmp_path):
    yaml(tmp_path, "train: images\nval: images\nnames: [bolt]\n", image="images", label="labels")
    assert gops.data.recognize(tmp_path / "data.yaml").name == "yolo"
    training, validation = train.detection_parts("yolo", tmp_path / "data.yaml", size=64)
    assert len(training) == len(validation) == 10
    shutil.move(tmp_path / "data.yaml", tmp_path / "mine.yml")
    assert gops.data.recognize(tmp_path).name == "yolo" and len(gops.data.detection("yolo", tmp_path)) == 10


def test_records_of_classes_without_validation(tmp_path, rng):
    make_records(tmp_path, rng, labels=[0.0, 1.0, 0.0])
    parts = train.classification_parts("rec", tmp_path)
    assert len(parts.held_out) == 1 and parts.training.held_out[0].startswith("train.rec, record ")
