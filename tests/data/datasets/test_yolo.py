"""Darknet's layout: what is in a tiny folder comes out, and what is wrong there is named."""

import numpy as np
import pytest
from folders import SCENES, check, make_yolo, photograph, picture, refused
from gluonops.data import detection
from PIL import Image


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
        refused("1.txt cannot be read: it is not a text file", "yolo", tmp_path)
        (tmp_path / "labels" / "1.txt").unlink()
        refused("1.txt cannot be read: No such file or directory. Add or replace it; an image "
                "without objects has an empty label file", "yolo", tmp_path)
        (tmp_path / "train.txt").write_text("images/0.png\nimages/9.png\n")
        refused(f"train.txt, line 2: there is no image images/9.png in {tmp_path} or {tmp_path.parent}", "yolo",
                tmp_path)
        (tmp_path / "val.txt").write_text("\n")
        refused("val.txt is empty", "yolo", tmp_path, "val")
        (tmp_path / "val.txt").unlink()
        refused("has no val.txt or valid.txt or test.txt, and no folder images/val", "yolo", tmp_path, "val")
        (tmp_path / "classes.txt").write_text("cat\n")
        refused("has classes.txt and my.names; expected one file", "yolo", tmp_path)
        refused("classes are ('a', 'a'); expected", "yolo", tmp_path, classes=("a", "a"))
        refused("none.names cannot be read", "yolo", tmp_path, classes=tmp_path / "none.names")


@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_a_turned_photograph(tmp_path, rng, kind):
    """Pixels, size and boxes are of the upright image, which people see when they draw the boxes."""
    make_yolo(tmp_path, rng)
    for place, scene in enumerate(SCENES):
        stored = np.rot90(picture(*scene, rng))
        (tmp_path / "images" / f"{place}.png").write_bytes(photograph(Image.fromarray(stored), 6, kind))
    check(detection("yolo", tmp_path))
