"""RecordIO: what is in a tiny folder comes out, and what is wrong there is named."""
import os
import pickle
import struct
import threading

import gluonops as gops
import numpy as np
import pytest
from folders import NAMES, SCENES, check, encoded, make_records, photograph, picture, refused
from gluonops.data import classification, detection
from gluonops.data.repairs import RepairWarning
from gluonops.io.optional import require
from gluonops.io.recordio import MAGIC
from PIL import Image


class TestRecords:
    def test_it_reads(self, tmp_path, rng):
        make_records(tmp_path, rng)
        check(detection("rec", tmp_path, classes=NAMES))
        check(detection("rec", tmp_path / "train.rec", "val", classes=NAMES))
        assert detection("rec", tmp_path).classes == ("0", "1")

    def test_a_turned_photograph(self, tmp_path, rng):
        images = [photograph(Image.fromarray(np.rot90(picture(*scene, rng))), 6) for scene in SCENES]
        make_records(tmp_path, rng, images=images)
        check(detection("rec", tmp_path, classes=NAMES))

    def test_processes_share_the_file(self, tmp_path, rng):
        """A copy of the data set reads on its own."""
        make_records(tmp_path, rng)
        check(pickle.loads(pickle.dumps(detection("rec", tmp_path, classes=NAMES))))

    def test_any_path_and_a_byte_order_mark(self, tmp_path, rng):
        """A path that is not UTF-8, and an index that an editor has saved."""
        make_records(tmp_path / "plain", rng)
        index = tmp_path / "plain" / "train.idx"
        index.write_text(index.read_text(), encoding="utf-8-sig")
        root = (tmp_path / "plain").rename(tmp_path / os.fsdecode(b"\xff"))
        check(detection("rec", root, classes=NAMES))

    def test_a_file_that_changes(self, tmp_path, rng):
        """It changes after it was checked."""
        make_records(tmp_path, rng)
        dataset = detection("rec", tmp_path)
        path = tmp_path / "train.rec"
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(gops.OpError, match="record 7: .* the file ends at byte"):
            dataset.image(2)
        path.unlink()
        with pytest.raises(gops.OpError, match="train.rec cannot be read: No such file"):
            dataset.image(0)

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
        ([2, 5, 1, 0, 0, 0.5],
         "record 6: it has a label of 6 numbers that starts with [2.0, 5.0]; expected the length of"),
        ([1, 5, 1, 0, 0, 0.5, 0.5], "that starts with [1.0, 5.0]"),
        ([2, 4, 1, 0, 0, 0.5], "that starts with [2.0, 4.0]"),
        ([7], "a label of 1 numbers that starts with [7.0]"),
        ([2, 5, -1, 0, 0, 0.5, 0.5], "record 6: the class is -1; expected a whole number from 0"),
        ([2, 5, 2, 0, 0, 0.5, 0.5], "record 6: the class is 2; expected a whole number from 0 to 1"),
        ([2, 5, 1, 0, 0, 16, 24], "1 of 1 boxes lie outside of their pictures, the first in "),
        ([2, 5, 1, 0, 0, 16, 24], "record 6, object 0: the box is 0 0 16 24 in an image of 32 x 64; expected shares of "
         "the picture's size from 0 to 1"),
        ([2, 5, 1, 0, -1e-3, 1, -1e-4], "record 6, object 0: the box is 0 -0.001 1 -0.0001 in an image"),
        ([2, 5, 1, 0, 0, 1, np.nan], "record 6: the box is 0 0 1 nan; expected"),
    ])
    def test_malformed(self, tmp_path, rng, label, text):
        empty = np.float32([2, 5])
        make_records(tmp_path, rng, [empty, np.float32(label) if len(label) > 1 else label[0], empty])
        refused(text, "rec", tmp_path, classes=NAMES)

    def test_a_cut_file(self, tmp_path, rng):
        """A full disk or a broken copy leaves one: its last record is named before anything is trained."""
        make_records(tmp_path, rng)
        path = tmp_path / "train.rec"
        content = path.read_bytes()
        path.write_bytes(content[:-100])
        refused("record 7: ", "rec", tmp_path)
        refused(f"the file ends at byte {len(content) - 100}. The file was cut off", "rec", tmp_path)

    @pytest.mark.parametrize("part, text", [
        (1, "there is no next part of the record at byte [0-9]+"), (2, "there is no next part of the record at byte 0"),
        (3, "there is no next part of the record at byte 0"), (7, "there is no next part of the record at byte 0")])
    def test_parts_of_a_record(self, tmp_path, rng, part, text):
        """The first part of a record does not go on, or a record begins with a later part."""
        make_records(tmp_path, rng)
        path = tmp_path / "train.rec"
        content = bytearray(path.read_bytes())
        content[7] = content[7] & 0x1F | part << 5
        path.write_bytes(content)
        with pytest.raises(gops.OpError, match=text):
            detection("rec", tmp_path)

    def test_a_record_in_parts(self, tmp_path, rng):
        """RecordIO splits a record where its content has the format's own mark."""
        images = [encoded(picture(*scene, rng)) + struct.pack("<II", 0, MAGIC) * 2 for scene in SCENES]
        images = [image[:-8] + bytes(-len(image) % 4) + struct.pack("<I", MAGIC) + bytes(4) for image in images]
        make_records(tmp_path, rng, images=images)
        assert any(part >> 5 for part in (tmp_path / "train.rec").read_bytes()[7:8])
        check(detection("rec", tmp_path, classes=NAMES))

    @pytest.mark.parametrize("label", [np.nan, np.inf, -1, 0.5])
    def test_a_class_that_is_no_number(self, tmp_path, rng, label):
        make_records(tmp_path, rng, labels=[0, label, 1])
        with pytest.raises(gops.OpError, match="record 6: the label is .*expected the number of a class"):
            classification("rec", tmp_path)

    @pytest.mark.parametrize("number", [1e5, 1e9, 3e38])
    def test_too_many_classes_without_names(self, tmp_path, rng, number):
        make_records(tmp_path, rng, [np.float32([2, 5, number, 0, 0, 1, 1])] * 3)
        refused(f"train.rec has the class {int(np.float32(number))}; expected at most 100000 classes", "rec", tmp_path)

    @pytest.mark.parametrize("content, text", [
        ("5\t0\nsix\n", "train.idx, line 2: 'six'; expected a number and an offset"),
        ("5\t0\n5\t0\n", "train.idx has the same record twice"), ("", "train.idx has no records"),
        ("5\t4\n", "train.rec has no record at byte 4, where the .idx file puts record 5"),
        ("5\t²\n", "train.idx, line 1: '5\\t²'; expected a number and an offset"),
        ("5\t999999\n", "train.rec has no record at byte 999999"),
        (f"5\t{10**30}\n", f"train.rec has no record at byte {10**30}")])
    def test_bad_index(self, tmp_path, rng, content, text):
        make_records(tmp_path, rng)
        (tmp_path / "train.idx").write_text(content, encoding="utf-8")
        refused(text, "rec", tmp_path)

    def test_missing(self, tmp_path, rng):
        make_records(tmp_path, rng)
        refused("has no part for validation: no val, valid, validation, test, testing. Add such a part, or pass "
                "hold_out=True",
                "rec", tmp_path, "val")
        (tmp_path / "train.rec").unlink()
        refused("there is no ", "rec", tmp_path)
        refused("has no pictures and no labels", "rec", tmp_path)
        refused("there is no ", "rec", tmp_path / "train.rec")

    def test_without_an_index(self, tmp_path, rng):
        """It is made in memory: no file is written."""
        make_records(tmp_path, rng)
        (tmp_path / "train.idx").unlink()
        with pytest.warns(RepairWarning, match="1 .rec file has no .idx, so its records are counted anew: .*train.rec"):
            data = detection("rec", tmp_path, classes=NAMES)
        check(data)
        assert not (tmp_path / "train.idx").exists() and data.name(2).endswith("train.rec, record 2")
        refused("train.rec: there is no ", "rec", tmp_path, strict=True)

    @pytest.mark.parametrize("end", [[], [-1], [-1] * 7])
    def test_padding(self, tmp_path, rng, end):
        """Rows of -1, and a length that is no multiple of theirs: im2rec pads labels to one length."""
        labels = [np.float32([2, 5, *sum(([number, left / w, top / h, right / w, bottom / h]
                                          for left, top, right, bottom, number in boxes), []), *[-1] * 10, *end])
                  for (w, h), boxes in SCENES]
        make_records(tmp_path, rng, labels)
        with pytest.warns(RepairWarning, match="rows of -1 are padding and are left out"):
            check(detection("rec", tmp_path, classes=NAMES))

    def test_records_without_an_image(self, tmp_path, rng):
        """insightface's file begins with one, and has one for each person at its end."""
        make_records(tmp_path, rng, [np.float32([3, 5]), np.float32([1, 0]), np.float32([0, 0])],
                     [b"", *(encoded(picture(*scene, rng)) for scene in SCENES[1:])])
        assert gops.data.recognize(tmp_path).task == "classification"
        with pytest.warns(RepairWarning, match="1 record has no picture and is left out: .*train.rec, record 5"):
            data = classification("rec", tmp_path)
        assert data.labels.tolist() == [1, 0] and data[0][0].shape == (64, 32, 3)

    @pytest.mark.parametrize("label, reason", [
        ([2, 5, 1, 0.5, 0, 0.5, 1], "no_area"), ([2, 5, 1, 0, 0, 1.5, 1], "clipped"),
        ([2, 5, 1, 0, 0, 1.001, 1], "rounded")])
    def test_repairs(self, tmp_path, rng, label, reason):
        make_records(tmp_path, rng, [np.float32([2, 5]), np.float32(label), np.float32([2, 5])])
        with pytest.warns(RepairWarning, match="train.rec, record 6, object 0"):
            assert detection("rec", tmp_path, classes=NAMES).repairs.noted[reason].count == 1
