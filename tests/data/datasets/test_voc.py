"""VOC's layout: what is in a tiny folder comes out, and what is wrong there is named."""
import contextlib

import numpy as np
import pytest
from folders import NAMES, SCENES, annotation, check, make_voc, photograph, picture, refused
from gluonops.data import detection
from gluonops.data.repairs import RepairWarning
from gluonops.io.optional import require
from PIL import Image


class TestVOC:
    def test_a_folder(self, tmp_path, rng):
        make_voc(tmp_path, rng)
        for split in ("train", "val"):
            check(detection("voc", tmp_path, split, classes=NAMES), difficult=True)

    def test_agrees_with_gluoncv(self, tmp_path, rng):
        make_voc(tmp_path, rng)
        reader = type("Reader", (require("gluoncv.data", "tests").VOCDetection,), {"CLASSES": NAMES})
        ours, theirs = detection("voc", tmp_path, classes=NAMES), reader(str(tmp_path), [("", "train")])
        assert len(ours) == len(theirs)
        for index, label in enumerate(theirs._label_cache):
            np.testing.assert_array_equal(ours.label(index), label.reshape(-1, 6))

    def test_years(self, tmp_path, rng):
        for year in (2007, 2012):
            make_voc(tmp_path / f"VOC{year}", rng, lists=["trainval", "test"])
        assert len(detection("voc", tmp_path, classes=NAMES)) == 2 * len(SCENES)
        check(detection("voc", tmp_path, "val", classes=NAMES), difficult=True)
        check(detection("voc", tmp_path, classes=NAMES, splits=[(2012, "test")]), difficult=True)
        assert len(detection("voc", tmp_path, classes=None).classes) == 20   # cat and dog are among them

    def test_a_year_alone(self, tmp_path, rng):
        """VOC2012 has no list test with labels: its lists train and val are taken."""
        make_voc(tmp_path / "VOCdevkit" / "VOC2012", rng, lists=["train", "val", "trainval"])
        lists = tmp_path / "VOCdevkit" / "VOC2012" / "ImageSets" / "Main"
        (lists / "train.txt").write_text("000000\n")
        (lists / "test.txt").write_text("2012_000001\n")   # its labels are not public
        for root in (tmp_path, tmp_path / "VOCdevkit"):
            assert len(detection("voc", root, classes=NAMES)) == 1
            check(detection("voc", root, "val", classes=NAMES), difficult=True)

    def test_classes_of_the_labels(self, tmp_path, rng):
        """Where they are not VOC's own, they are as the labels write them, and as `classes` writes them."""
        make_voc(tmp_path, rng, names=("Nut", "hex bolt"))
        training = detection("voc", tmp_path)
        assert training.classes == ("hex bolt", "Nut")
        assert [label[:, 4].tolist() for label in (training.label(0), training.label(1))] == [[0, 1], [1]]
        assert detection("voc", tmp_path, "val", classes=("NUT", "hex bolt")).label(0)[:, 4].tolist() == [1, 0]
        refused("expected one name or more, all different", "voc", tmp_path, classes=("nut", "Nut"))
        path = tmp_path / "Annotations" / "000000.xml"
        path.write_text(path.read_text().replace("<name>Nut", "<name> "))
        refused("000000.xml, line 11: the class is ''; expected a name", "voc", tmp_path)

    @pytest.mark.parametrize("old, new, line, text", [
        ("<name>dog</name>", "<name>dgo</name>", 4, "the class is 'dgo'; expected one of cat, dog"),
        ("<xmin>5</xmin>", "<xmin>five</xmin>", 7, "<xmin> is 'five'; expected a number"),
        ("<xmin>5</xmin>", "<xmin>nan</xmin>", 7, "<xmin> is 'nan'; expected a number"),
        ("<xmin>5</xmin>", "", 6, "<bndbox> has no <xmin>; expected one"),
        ("<size>", "<sizes>", 2, "mismatched tag; expected XML"),
        ("</annotation>", "", 18, "no element found; expected XML"),
        ("<size>", "<object><name>cat</name></object><size><object/>", 2, "an <object> is inside of another element"),
        ("<annotation>", '<!DOCTYPE x [<!ENTITY e "ee">]><annotation>', 1,
         "it declares a document type; expected none"),
    ])
    def test_malformed(self, tmp_path, rng, old, new, line, text):
        make_voc(tmp_path, rng)
        path = tmp_path / "Annotations" / "000000.xml"
        content = annotation(*SCENES[0])
        assert old in content
        path.write_text(content.replace(old, new, 1))
        refused(f"{path}, line {line}: {text}", "voc", tmp_path, classes=NAMES)

    @pytest.mark.parametrize("old, new, place, got, reason", [
        ("<xmin>5</xmin>", "<xmin>0</xmin>", ", line 6", "the box is 0 7 21 31 in an image of 64 x 48; expected a box",
         "clipped"),
        ("<xmin>5</xmin>", "<xmin>30</xmin>", ", line 6", "the box is 30 7 21 31 in an image", "no_area"),
        ("<xmin>5</xmin>", "<xmin>21</xmin>", ", line 6", "the box is 21 7 21 31 in an image", "no_area"),
        ("<xmax>21</xmax>", "<xmax>66</xmax>", ", line 6", "the box is 5 7 66 31 in an image", "clipped"),
        ("<difficult>0</difficult>", "", ", line 3", "<object> has no <difficult>", "difficult"),
        ("<difficult>0</difficult>", "<difficult>no</difficult>", ", line 5", "<difficult> is 'no'; expected 0 or 1",
         "difficult"),
        ("<size>", "<sizes></sizes><size2>", "", "it states the size 0 x 0; expected 64 x 48", "size"),
        ("<width>64", "<width>640", "", "it states the size 640 x 48; expected 64 x 48", "size"),
        ("<width>64", "<width>unknown", "", "it states the size 0 x 48; expected 64 x 48", "size"),
    ])
    def test_repairs(self, tmp_path, rng, old, new, place, got, reason):
        """Each of them is counted once, with its line, and refused if the caller is strict."""
        make_voc(tmp_path, rng)
        path = tmp_path / "Annotations" / "000000.xml"
        content = annotation(*SCENES[0]).replace(old, new, 1)
        path.write_text(content.replace("</size>", "</size2>") if "size2" in new else content)
        with pytest.warns(RepairWarning) as warned:
            found = detection("voc", tmp_path, classes=NAMES)
        assert len(warned) == 1 and f"{path}{place}" in str(warned[0].message)
        assert found.repairs.summary() == {reason: {"count": 1, "first": [f"{path}{place}"]}}
        assert len(found.label(0)) == 2 - (reason == "no_area")
        refused(f"{path}{place}: {got}", "voc", tmp_path, classes=NAMES, strict=True)

    @pytest.mark.parametrize("written, expected", [("true", 1), ("Yes", 1), ("1.0", 1), ("Unspecified", 0), ("", 0),
                                                   ("false", 0), (" 1 ", 1)])
    def test_difficult(self, tmp_path, rng, written, expected):
        make_voc(tmp_path, rng)
        path = tmp_path / "Annotations" / "000001.xml"
        path.write_text(annotation(*SCENES[1]).replace("<difficult>0", f"<difficult>{written}"))
        with pytest.warns(RepairWarning) if written.strip() != "1" else contextlib.nullcontext():
            assert detection("voc", tmp_path, classes=NAMES).label(1)[0, 5] == expected

    @pytest.mark.parametrize("orientation", [5, 6, 7, 8])
    def test_a_label_of_the_picture_on_its_side(self, tmp_path, rng, orientation):
        """A program that knows no EXIF states the stored size: then its boxes are of the stored picture, too."""
        make_voc(tmp_path, rng)
        upright = picture(*SCENES[0], rng)
        stored = {5: lambda x: x.swapaxes(0, 1), 6: np.rot90, 7: lambda x: x[::-1, ::-1].swapaxes(0, 1),
                  8: lambda x: np.rot90(x, 3)}[orientation]
        boxes = []
        for left, top, right, bottom, number in SCENES[0][1]:
            mask = np.zeros((48, 64), bool)
            mask[top:bottom, left:right] = True
            rows, columns = np.nonzero(stored(mask))
            boxes.append((columns.min(), rows.min(), columns.max() + 1, rows.max() + 1, number))
        (tmp_path / "JPEGImages" / "000000.jpg").write_bytes(
            photograph(Image.fromarray(np.ascontiguousarray(stored(upright))), orientation))
        (tmp_path / "Annotations" / "000000.xml").write_text(annotation((48, 64), boxes))
        with pytest.warns(RepairWarning, match="1 label was of the picture before it is turned upright"):
            found = detection("voc", tmp_path, classes=NAMES)
        check(found, difficult=True)

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "gbk", "shift_jis", "latin-1", "windows-1252"])
    def test_encodings(self, tmp_path, rng, encoding):
        """Programs write the encoding of their system. Lines are counted as in all others."""
        make_voc(tmp_path, rng)
        name = {"gbk": "\u87ba\u6813", "shift_jis": "\u30dc\u30eb\u30c8"}.get(encoding, "\xe9crou")
        path = tmp_path / "Annotations" / "000001.xml"
        text = annotation(*SCENES[1]).replace("cat", name)
        head = "" if encoding == "utf-8-sig" else f'<?xml version="1.0" encoding="{encoding}"?>'
        path.write_bytes(f"{head}{text}".encode(encoding))
        found = detection("voc", tmp_path, classes=[*NAMES, name])
        assert found.label(1)[0, 4] == 2
        path.write_bytes(f"{head}{text.replace('<xmin>1<', '<xmin>one<')}".encode(encoding))
        refused(f"{path}, line 7: <xmin> is 'one'", "voc", tmp_path, classes=[*NAMES, name])

    def test_an_unknown_encoding(self, tmp_path, rng):
        make_voc(tmp_path, rng)
        (tmp_path / "Annotations" / "000001.xml").write_text('<?xml version="1.0" encoding="klingon"?><annotation/>')
        refused("000001.xml, line 1: unknown encoding: klingon; expected text in the encoding", "voc", tmp_path)

    def test_trainval_beside_val(self, tmp_path, rng):
        """What is held out is not trained on."""
        make_voc(tmp_path, rng, lists=["trainval", "val"])
        (tmp_path / "ImageSets" / "Main" / "val.txt").write_text("000000\n")
        training, validation = (detection("voc", tmp_path, split, classes=NAMES) for split in ("train", "val"))
        assert [len(training), len(validation)] == [2, 1] and training.name(0).endswith("000001.jpg")

    @pytest.mark.parametrize("line", ["{}.jpg", "JPEGImages\\{}.jpg\r", "  {}  ", "./JPEGImages/{}.jpg", "{}  1"])
    def test_lines_of_a_list(self, tmp_path, rng, line):
        make_voc(tmp_path, rng)
        path = tmp_path / "ImageSets" / "Main" / "train.txt"
        path.write_text("".join(f"{line.format(name)}\n" for name in path.read_text().split()), encoding="utf-16")
        check(detection("voc", tmp_path, classes=NAMES, strict=True), difficult=True)

    def test_missing(self, tmp_path, rng):
        refused("has no pictures and no labels; expected ImageSets/Main, or JPEGImages beside", "voc", tmp_path, "val")
        make_voc(tmp_path, rng, lists=["test"])
        refused("ImageSets/Main has no train.txt or trainval.txt", "voc", tmp_path)
        refused("test.txt is empty", "voc", self._with_list(tmp_path, ""), "val")
        refused("test.txt, line 2: 'nine' names no image; expected ", "voc", self._with_list(tmp_path, "000000\nnine"),
                "val", classes=NAMES)
        (tmp_path / "Annotations" / "000001.xml").unlink()
        refused("no picture has a label, of 1 in all; expected ", "voc", self._with_list(tmp_path, "000001"), "val",
                classes=NAMES)
        with pytest.warns(RepairWarning, match="1 picture has no label file and counts as one without objects: .*1.j"):
            found = detection("voc", self._with_list(tmp_path, "000001\n000000"), "val", classes=NAMES)
        assert [len(found.label(i)) for i in range(2)] == [0, 2]

    def _with_list(self, root, text):
        (root / "ImageSets" / "Main" / "test.txt").write_text(text)
        return root
