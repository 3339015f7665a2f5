"""What is changed or left out of a data set: counted by reason, told once, and refused if the caller is strict."""
import json
import warnings

import gluonops as gops
import numpy as np
import pytest
from folders import make_voc
from gluonops import train
from gluonops.commands import cli
from gluonops.data.images import Header
from gluonops.data.labels import Labelled, fit
from gluonops.data.repairs import REASONS, Repairs, RepairWarning, merged
from test_layouts import ROW, STATED, XML, coco, paint, voc_beside, write


def labelled(*rows, **more):
    return Labelled("a.jpg", "a.xml", [(*row, 0, 0) for row in rows], [f"line {i}" for i in range(len(rows))], **more)


def fitted(*rows, size=(100, 80), **options):
    repairs = Repairs("test")
    found = fit([labelled(*rows)], [Header(size, 1)], repairs, **options)
    return found.labels[0][:, :4].tolist(), {reason: count for reason, (count, _) in repairs.noted.items()}


@pytest.mark.parametrize("row, box, reason", [
    ((20, 10, 60, 50), (20, 10, 60, 50), None), ((0, 0, 100, 80), (0, 0, 100, 80), None),
    ((-1, -1, 98, 78), (0, 0, 98, 78), "clipped"), ((50, 40, 130, 90), (50, 40, 100, 80), "clipped"),
    ((-0.5, 0, 100.9, 80), (0, 0, 100, 80), "rounded"), ((20, 10, 20, 40), None, "no_area"),
    ((20, 10, 60, 10), None, "no_area"), ((60, 10, 20, 40), None, "no_area"), ((120, 10, 140, 40), None, "outside"),
    ((-20, 10, 0, 40), None, "outside"), ((20, 10, 20.00001, 40), None, "no_area")])
def test_boxes(row, box, reason):
    """A good one beside it stays as it is."""
    good = [20, 10, 60, 50]
    boxes, found = fitted(row, good)
    assert boxes == [*([] if box is None else [list(box)]), good]
    assert found == ({} if reason is None else {reason: 1})


def test_most_boxes_outside():
    """One of two may lie outside: two of three mean that the numbers mean something else."""
    good, bad = (20, 10, 60, 50), (120, 10, 140, 40)
    assert fitted(good, bad)[1] == {"outside": 1}
    with pytest.raises(gops.OpError, match="2 of 3 boxes lie outside of their pictures, the first in a.xml, line 0: "
                       "the box"):
        fitted(bad, bad, good)
    with pytest.raises(gops.OpError, match="1 of 1 boxes lie outside .*expected shares of the picture's size from 0"):
        fitted((0, 0, 60, 50), shares=True)


def test_rounding_of_floats_is_no_change():
    assert fitted((0.1, 0.1, np.nextafter(1, 2), 1), shares=True)[1] == {}
    assert fitted((0.1, 0.1, float(np.nextafter(np.float32(1), np.float32(2))), 1), shares=True, noise=1e-6)[1] == {}


def test_places_are_found_out_for_the_first_three():
    """The lines of XML files are costly."""
    asked = []
    repairs = Repairs("test")
    for i in range(5):
        repairs.note("clipped", lambda i=i: asked.append(i) or f"place {i}", "", "")
    assert asked == [0, 1, 2]
    assert repairs.summary() == {"clipped": {"count": 5, "first": ["place 0", "place 1", "place 2"]}}
    assert str(repairs) == ("  5 boxes reached beyond their picture and are clipped: place 0; place 1; place 2; ...")
    other = Repairs("test")
    other.note("clipped", "place 9", "", "")
    other.note("header", "place 8", "", "")
    assert merged([repairs, other, repairs]).summary() == {
        "clipped": {"count": 6, "first": ["place 0", "place 1", "place 2"]},
        "header": {"count": 1, "first": ["place 8"]}}
    assert all(len(words) == 2 and words[0] != words[1] for words in REASONS.values())


def test_one_warning_for_both_parts(tmp_path):
    voc_beside(tmp_path, "images", "annots", split=True)
    for name in ("train/0", "train/4", "val/9"):
        path = tmp_path / "annots" / f"{name}.xml"
        path.write_text(path.read_text().replace("<xmin>21", "<xmin>0").replace(STATED, ""))
    with pytest.warns(RepairWarning) as warned:
        training, validation = train.detection_parts("voc", tmp_path, size=64)
    assert len(warned) == 1
    text = str(warned[0].message)
    assert "3 boxes reached beyond their picture" in text and "3 labels stated no size" in text
    assert f"{tmp_path}/annots/val/9.xml, line 1" in text
    notes = train.data_notes(training, validation, None)
    assert notes["held_out"] is None and notes["repairs"]["size"]["count"] == 3
    assert json.loads(json.dumps(notes)) == notes
    with pytest.raises(gops.OpError, match="0.xml: it states the size 0 x 0; expected 100 x 80"):
        train.detection_parts("voc", tmp_path, size=64, strict=True)


def test_the_command_for_anchors(tmp_path, capsys):
    voc_beside(tmp_path, "images", "annots")
    label = tmp_path / "annots" / "3.xml"
    label.write_text(label.read_text().replace("<difficult>0</difficult>", ""))
    with pytest.warns(RepairWarning):
        assert cli.main(["anchors", str(tmp_path), "-k", "1"]) == 0
    assert cli.main(["anchors", str(tmp_path), "-k", "1", "--strict"]) == 1
    assert "3.xml, line 1: <object> has no <difficult>; expected one" in capsys.readouterr().err


def damage(path, kind):
    if kind == "missing":
        path.unlink()
    elif kind == "half":
        path.write_bytes(path.read_bytes()[:path.stat().st_size // 2])
    else:
        path.write_bytes({"empty": b"", "HTML": b"<!DOCTYPE html><html></html>"}[kind])


@pytest.mark.parametrize("ending", ["jpg", "png", "bmp", "webp"])
@pytest.mark.parametrize("kind", ["missing", "half", "empty", "HTML"])
def test_pictures_that_cannot_be_read(tmp_path, kind, ending):
    """They are left out, but not if there are more than 1 in 10."""
    for i in range(20):
        paint(tmp_path / "images" / f"{i:02}.{ending}", i)
        write(tmp_path / "labels" / f"{i:02}.txt", ROW)
    write(tmp_path / "train.txt", "".join(f"images/{i:02}.{ending}\n" for i in range(20)))
    write(tmp_path / "a.names", "bolt\n")
    for i in (3, 7):
        damage(tmp_path / "images" / f"{i:02}.{ending}", kind)
    with pytest.warns(RepairWarning, match="2 pictures cannot be read and are left out: .*03.*07"):
        training, validation = train.detection_parts("yolo", tmp_path, size=64)
    assert len(training) + len(validation) == 18
    for part in (training, validation):
        for i in range(len(part)):
            assert part[i][1].shape == (1, 6)
    with pytest.raises(gops.OpError, match="03"):
        train.detection_parts("yolo", tmp_path, size=64, strict=True)
    damage(tmp_path / "images" / f"11.{ending}", kind)
    with pytest.raises(gops.OpError, match="3 of 20 pictures cannot be read; expected at most 1 in 10. The .*03"):
        train.detection_parts("yolo", tmp_path, size=64)


@pytest.mark.parametrize("kind", ["missing", "half", "empty"])
def test_pictures_of_classes_that_cannot_be_read(tmp_path, kind):
    for name in ("nut", "bolt"):
        for i in range(10):
            paint(tmp_path / "train" / name / f"{i}.JPEG", i)
            paint(tmp_path / "val" / name / f"{i}.Png", i)
    damage(tmp_path / "train" / "nut" / "3.JPEG", kind)
    with pytest.warns(RepairWarning) if kind != "missing" else warnings.catch_warnings():
        parts = train.classification_parts("folder", tmp_path)
    assert len(parts.training) + len(parts.validation) == 19 and len(parts.held_out) == 20


def damage_pixels(path):
    """The header and the end of a PNG stay as they are."""
    content = path.read_bytes()
    at = content.index(b"IDAT") + 8
    path.write_bytes(content[:at] + bytes([content[at] ^ 255]) + content[at + 1:])


def test_a_picture_that_is_damaged_behind_its_header(tmp_path):
    """It is counted when it is decoded. The next one takes its place, with its own label, for every reader."""
    for i in range(20):
        paint(tmp_path / "images" / f"{i:02}.png", i)
        write(tmp_path / "labels" / f"{i:02}.txt", f"0 0.5 0.5 {0.2 + i / 100} 0.2\n")
    write(tmp_path / "train.txt", "".join(f"images/{i:02}.png\n" for i in range(20)))
    write(tmp_path / "a.names", "bolt\n")
    for i in (3, 19):
        damage_pixels(tmp_path / "images" / f"{i:02}.png")
    options = {"hold_out": False}
    dataset, strict = (gops.data.detection("yolo", tmp_path, strict=strict, **options) for strict in (False, True))
    assert len(dataset) == 20
    with pytest.warns(RepairWarning, match=r"03.png has \d+ bytes that do not decode. It is left out: the next"):
        image, label = dataset[3]
    np.testing.assert_array_equal(image, dataset[4][0])
    np.testing.assert_array_equal(label, dataset.label(4))
    with pytest.warns(RepairWarning, match="19.png"):
        np.testing.assert_array_equal(dataset[-1][0], dataset[0][0])
    for items in (gops.data.Letterboxed(dataset, 32), gops.data.Augmented(dataset, 32, gops.data.Augment())):
        assert [len(items[3]), len(items[3])] == [len(items[4])] * 2   # It is counted and told once.
    cutout, number = train.Cutouts(dataset, 0)[3]
    assert cutout.ndim == 3 and number == 0
    found = dataset.repairs.summary()["unreadable"]
    assert found["count"] == 2 and "03.png" in found["first"][0]
    assert train.data_notes(dataset, dataset, None)["repairs"]["unreadable"] == found
    with pytest.raises(IndexError):
        dataset[20]
    with pytest.raises(gops.OpError, match=r"03.png has \d+ bytes that do not decode; expected an image"):
        strict[3]
    damage_pixels(tmp_path / "images" / "07.png")
    with pytest.raises(gops.OpError, match="3 of 20 pictures cannot be read; expected at most 1 in 10. The .*07.png"):
        dataset[7]


def test_a_damaged_picture_of_a_class(tmp_path):
    """One of the same classes takes its place, whatever else is beside it."""
    for name in ("bolt", "nut", "screw"):
        for i in range(10):
            paint(tmp_path / "train" / name / f"{i}.png", i)
            paint(tmp_path / "val" / name / f"{i}.png", i)
    damage_pixels(tmp_path / "train" / "bolt" / "9.png")
    dataset = gops.data.classification("folder", tmp_path)
    chosen = train.ClassSubset(dataset, ["bolt", "screw"])
    with pytest.warns(RepairWarning, match="bolt/9.png"):
        image, label = chosen[9]
    assert label == 1
    np.testing.assert_array_equal(image, dataset[20][0])


def test_a_picture_of_coco_that_is_missing(tmp_path):
    """People have a part of the pictures, and all labels."""
    for i in range(20):
        paint(tmp_path / "train" / f"{i}.jpg", i)
    write(tmp_path / "train.json", coco(range(21)))
    with pytest.warns(RepairWarning, match="1 picture cannot be read and is left out: .*image 20: there is no "):
        training, validation = train.detection_parts("coco", tmp_path, size=64)
    assert len(training) + len(validation) == 20


def test_no_label_file_of_a_split(tmp_path):
    """Then they are elsewhere, or the pictures are."""
    for i in range(4):
        paint(tmp_path / "images" / "train" / f"{i}.jpg", i)
        write(tmp_path / "labels" / "training" / f"{i}.txt", ROW)
    write(tmp_path / "classes.txt", "bolt\n")
    with pytest.raises(gops.OpError, match="no picture has a label, of 4 in all; expected .*labels/train/0.txt for "):
        train.detection_parts("yolo", tmp_path, size=64)


def test_equal_names_are_named(tmp_path):
    make_voc(tmp_path, np.random.RandomState(0))
    with pytest.raises(gops.OpError, match="classes are .*, with 'dog' twice; expected one name or more"):
        gops.data.detection("voc", tmp_path, classes=["cat", "dog", "dog"])


@pytest.mark.parametrize("text, message", [
    (XML.format(size=STATED, name="bolt").replace(">21<", ">wide<"), "line 1: <xmin> is 'wide'; expected a number"),
    (XML.format(size=STATED, name=""), "line 1: the class is ''; expected a name"),
    ("no XML", "line 1: .*expected XML"),
    (XML.format(size=STATED, name="bolt").replace("bndbox", "box"), "line 1: <object> has no <bndbox>; expected one")])
def test_what_is_no_label_is_refused(tmp_path, text, message):
    voc_beside(tmp_path, "images", "annots")
    write(tmp_path / "annots" / "3.xml", text)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(gops.OpError, match=f"3.xml, {message}"):
        train.detection_parts("voc", tmp_path, size=64)
    assert sorted(tmp_path.rglob("*")) == before
