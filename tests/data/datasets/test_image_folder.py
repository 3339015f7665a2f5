"""Data sets for classification by name."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from folders import encoded, make_records, save
from gluonops.data import classification, digits


@pytest.fixture
def folder(tmp_path, rng):
    """Two classes; val lacks one, and has a file that is no image."""
    for split, names in (("train", "ba"), ("val", "b")):
        for name in names:
            for place in range(2):
                save(tmp_path / split / name / f"{place}.png",
                     np.full((10 + place, 12, 3), 100 * (name == "b") + 10 * place, "uint8"))
    (tmp_path / "val" / "b" / "notes.txt").write_text("no image")
    return tmp_path


def refused(text, *arguments, **options):
    with pytest.raises(gops.OpError) as caught:
        classification(*arguments, **options)
    assert text in str(caught.value), str(caught.value)


class TestDigits:
    def test_items(self):
        for split, expected in zip(("train", "val"), digits()):
            data = classification("digits", split=split)
            np.testing.assert_array_equal(data.labels, expected.labels)
            assert data.classes == tuple("0123456789") and len(data) == len(expected.labels)
            image, label = data[7]
            assert image.dtype == np.uint8 and image.shape == (28, 28, 1) and label == expected.labels[7]
            np.testing.assert_allclose(image[..., 0] / 255, expected.images[7, 0], atol=0.51 / 255)

    def test_mnist(self, tmp_path, rng):
        from test_digits import FILES, idx
        images = rng.randint(0, 256, (10, 28, 28))
        for images_file, labels_file in (FILES[:2], FILES[2:]):
            (tmp_path / images_file).write_bytes(idx(images))
            (tmp_path / labels_file).write_bytes(idx(np.arange(10)))
        data = classification("mnist", tmp_path, "val")
        for place in range(10):
            np.testing.assert_array_equal(data[place][0][..., 0], images[place])
            assert data[place][1] == place


class TestFolder:
    def test_items(self, folder):
        data = classification("folder", folder)
        assert data.classes == ("a", "b") and data.labels.tolist() == [0, 0, 1, 1]
        assert [(image.shape, image.max(), label) for image, label in (data[i] for i in range(4))] == [
            ((10, 12, 3), 0, 0), ((11, 12, 3), 10, 0), ((10, 12, 3), 100, 1), ((11, 12, 3), 110, 1)]
        val = classification("folder", folder, "val")
        assert val.classes == ("a", "b") and val.labels.tolist() == [1, 1]
        assert classification("folder", folder, classes=["b", "a"]).labels.tolist() == [0, 0, 1, 1]

    def test_refuses(self, folder):
        (folder / "val" / "b" / "0.png").write_bytes(b"none")
        refused("1 of 2 pictures cannot be read; expected at most 1 in 10. The first error is: ",
                "folder", folder, "val")
        refused("val/b/0.png has 4 bytes that do not decode; expected an image", "folder", folder, "val", strict=True)
        refused("has the folder 'a'; expected classes only: b", "folder", folder, classes=["b"])
        for path in (folder / "val" / "b").glob("*.png"):
            path.unlink()
        refused("has no images (.jpg, .jpeg, .png, .bmp, ...)", "folder", folder, "val")
        refused("there is no folder", "folder", folder / "none")

    def test_no_folders(self, tmp_path):
        (tmp_path / "train").mkdir()
        refused("has no folders; expected a folder for each class", "folder", tmp_path)


class TestRecords:
    def test_items(self, tmp_path, rng):
        make_records(tmp_path, rng, [2.0, 0.0, 1.0])
        data = classification("rec", tmp_path)
        assert data.classes == ("0", "1", "2") and data.labels.tolist() == [2, 0, 1]
        theirs = mx.gluon.data.vision.ImageRecordDataset(str(tmp_path / "train.rec"))
        for place in range(3):
            np.testing.assert_array_equal(data[place][0], theirs[place][0].asnumpy())
            assert data[place][1] == theirs[place][1]
        assert classification("rec", tmp_path, classes=["a", "b", "c"]).classes == ("a", "b", "c")

    @pytest.mark.parametrize("label, text", [(0.5, "record 6: the label is [0.5]; expected the number of a class"),
                                             (np.float32([2, 5]), "record 6: the label is [2.0, 5.0]; expected"),
                                             (-1.0, "the label is [-1.0]"),
                                             (2.0, "record 6: the class is 2; expected a whole number from 0 to 1")])
    def test_refuses(self, tmp_path, rng, label, text):
        make_records(tmp_path, rng, [0.0, label, 1.0], [encoded(np.zeros((4, 4, 3), "uint8"))] * 3)
        refused(text, "rec", tmp_path, classes=["a", "b"])


def test_bad_names():
    refused("there is no data set 'cifar'; there are digits, mnist, folder, rec", "cifar")
    refused("split is 'test'", "digits", split="test")
    refused("digits got root '/x'; expected no root, because the digits are part of scikit-learn", "digits", "/x")
    refused("mnist got no root; expected the folder of the data set", "mnist")
