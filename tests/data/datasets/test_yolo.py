"""Darknet's layout: what is in a tiny folder comes out, and what is wrong there is named."""

import numpy as np
import pytest
from folders import SCENES, check, make_yolo, photograph, picture, refused
from gluonops.data import detection
from gluonops.data.repairs import RepairWarning
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
        with pytest.warns(RepairWarning, match="1 label without a picture is left out: .*labels/train/1.txt"):
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

    @pytest.mark.parametrize("line, box, reason", [
        ("1 0.0 0.5 0.5 1.0", (0, 0, 16, 48), "clipped"), ("1 0.25 0.5 0.5 1.0000001", (0, 0, 32, 48), "rounded"),
        ("1 0.5 1.0002 0.5 0.5", (16, 36.0096, 48, 48), "clipped"),
        ("1 0.25 0.5 0.5 1 0.9", (0, 0, 32, 48), "confidence"),
        ("1 0 0 0.5 0 0.5 1", (0, 0, 32, 48), "polygon"), ("1 0 0 0.5 0 0.5 1 0 1", (0, 0, 32, 48), "polygon"),
        ("1.0 0.2 0.2 0.6 0.2 0.6 1.2", (12.8, 9.6, 38.4, 48), "polygon"),
        ("1 0.5 0.5 0.1 1e-9", None, "no_area"), ("1 0.5 0.5 0 0.1", None, "no_area"),
        ("1 .5 .5 -.1 .1", None, "no_area"),
        ("1 -0.1 0.5 0.1 0.1", None, "outside"), ("1 32 24 10 10", None, "outside")])
    def test_repairs(self, tmp_path, rng, line, box, reason):
        make_yolo(tmp_path, rng)
        path = tmp_path / "labels" / "0.txt"
        path.write_text(f"0 0.5 0.5 0.5 0.5\n\n{line}\n")
        with pytest.warns(RepairWarning, match=f"{path}, line 3"):
            found = detection("yolo", tmp_path)
        assert found.repairs.noted[reason] == (1, (f"{path}, line 3",))
        expected = np.zeros((0, 6)) if box is None else [[*box, 1, 0]]
        np.testing.assert_allclose(found.label(0)[1:], expected, atol=1e-4)
        if reason == "rounded":
            with pytest.warns(RepairWarning):
                detection("yolo", tmp_path, strict=True)
        else:
            refused(f"{path}, line 3: ", "yolo", tmp_path, strict=True)

    def test_pixels_are_no_shares(self, tmp_path, rng):
        """A data set whose boxes are nearly all outside of their pictures is not trained on."""
        make_yolo(tmp_path, rng)
        for path in (tmp_path / "labels").iterdir():
            path.write_text("1 32 24 10 10\n")
        refused("3 of 3 boxes lie outside of their pictures, the first in ", "yolo", tmp_path)
        refused("0.txt, line 1: the box is 27 19 37 29 in an image of 64 x 48; expected shares of the picture",
                "yolo", tmp_path)

    @pytest.mark.parametrize("write", [
        lambda path: path.write_bytes(path.read_text().replace("/", "\\").replace("\n", "\r\n").encode()),
        lambda path: path.write_text(path.read_text(), encoding="utf-16"),
        lambda path: path.write_text("".join(f"C:\\me\\{line}\r\n" for line in path.read_text().split())),
        lambda path: path.write_text("".join(f"build\\x64\\data\\{line}\r\n" for line in path.read_text().split())),
        lambda path: path.write_text("".join(f"/content/darknet/data/{line}\n" for line in path.read_text().split()))])
    def test_lists_of_other_systems(self, tmp_path, rng, write):
        """Windows' separators, ends of lines and encoding, and paths of another machine."""
        make_yolo(tmp_path, rng)
        write(tmp_path / "train.txt")
        check(detection("yolo", tmp_path, strict=True))

    @pytest.mark.parametrize("line, text", [
        ("1 0.5 0.5 0.1", "'1 0.5 0.5 0.1'; expected class x y width height: five numbers"),
        ("1 0.5 0.5 0.1 0.1 0.9 0.9 0.9", "'1 0.5 0.5 0.1 0.1 0.9 0.9 0.9'; expected class x y"),
        ("1 0.5 0.5 0.1 0.1 high", "'1 0.5 0.5 0.1 0.1 high'; expected class x y"),
        ("dog 0.5 0.5 0.1 0.1", "'dog 0.5 0.5 0.1 0.1'; expected class x y"),
        ("1 0.5 nan 0.1 0.1", "'1 0.5 nan 0.1 0.1'; expected class x y"),
        ("2 0.5 0.5 0.1 0.1", "the class is 2; expected a whole number from 0 to 1"),
        ("0.5 0.5 0.5 0.1 0.1", "the class is 0.5; expected"),
        ("-1 0.5 0.5 0.1 0.1", "the class is -1; expected"),
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
        with pytest.warns(RepairWarning, match="1 picture has no label file and counts as one without objects: .*1.p"):
            assert [len(detection("yolo", tmp_path).label(i)) for i in range(1, 2)] == [0]
        refused("images/1.png: it has no label; expected ", "yolo", tmp_path, strict=True)
        (tmp_path / "train.txt").write_text("images/0.png\nimages/9.png\n")
        refused(f"train.txt, line 2: there is no image images/9.png in {tmp_path} or {tmp_path.parent}", "yolo",
                tmp_path)
        (tmp_path / "val.txt").write_text("\n")
        refused("val.txt is empty", "yolo", tmp_path, "val")
        (tmp_path / "val.txt").unlink()
        (tmp_path / "train.txt").write_text("images/0.png\n")
        refused("has no part for validation: no val, valid, validation, test, testing", "yolo", tmp_path, "val")
        (tmp_path / "classes.txt").write_text("cat\n")
        refused("has classes.txt and my.names; expected one file", "yolo", tmp_path)
        refused("classes are ('a', 'a'), with 'a' twice; expected", "yolo", tmp_path, classes=("a", "a"))
        refused("none.names cannot be read", "yolo", tmp_path, classes=tmp_path / "none.names")


@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_a_turned_photograph(tmp_path, rng, kind):
    """Pixels, size and boxes are of the upright image, which people see when they draw the boxes."""
    make_yolo(tmp_path, rng)
    for place, scene in enumerate(SCENES):
        stored = np.rot90(picture(*scene, rng))
        (tmp_path / "images" / f"{place}.png").write_bytes(photograph(Image.fromarray(stored), 6, kind))
    check(detection("yolo", tmp_path))
