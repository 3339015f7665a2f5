"""VOC's layout: what is in a tiny folder comes out, and what is wrong there is named."""
import numpy as np
import pytest
from folders import NAMES, SCENES, annotation, check, make_voc, refused
from gluonops.core.optional import require
from gluonops.data import detection


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
        ("<xmin>5</xmin>", "<xmin>0</xmin>", 6, "the box is 0 7 21 31 in an image of 64 x 48; expected 1 <= xmin"),
        ("<xmin>5</xmin>", "<xmin>30</xmin>", 6, "the box is 30 7 21 31 in an image"),
        ("<difficult>0</difficult>", "", 3, "<object> has no <difficult>"),
        ("<difficult>0</difficult>", "<difficult>no</difficult>", 5, "<difficult> is 'no'; expected 0 or 1"),
        ("<size>", "<sizes>", 2, "mismatched tag; expected XML"),
        ("</annotation>", "", 18, "no element found; expected XML"),
        ("<size>", "<object><name>cat</name></object><size><object/>", 2, "an <object> inside another element"),
        ("<annotation>", '<!DOCTYPE x [<!ENTITY e "ee">]><annotation>', 1, "a document type; expected none"),
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

    def _with_list(self, root, text):
        (root / "ImageSets" / "Main" / "test.txt").write_text(text)
        return root
