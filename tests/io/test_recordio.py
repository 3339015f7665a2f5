"""Files of records are read as MXNet reads them; what is damaged is refused."""
import struct

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.io import recordio

MARK = struct.pack("<I", recordio.MAGIC)
# What makes parts: marks at multiples of four bytes. Elsewhere they are content.
CONTENTS = [b"", b"a", b"four", MARK, MARK * 3, b"abcd" + MARK + b"ef", b"x" + MARK, b"end." + MARK]


@pytest.fixture
def path(tmp_path):
    """(the .rec, the .idx), written by MXNet."""
    paths = tmp_path / "a.rec", tmp_path / "a.idx"
    file = mx.recordio.MXIndexedRecordIO(str(paths[1]), str(paths[0]), "w")
    for number, content in enumerate(CONTENTS):
        file.write_idx(number * 10, content)
    file.close()
    return paths


def test_as_mxnet_reads_them(path):
    assert list(recordio.records("test", path[0])) == CONTENTS
    places = recordio.index("test", path[1])
    assert [key for key, _ in places] == [number * 10 for number in range(len(CONTENTS))]
    with path[0].open("rb") as file:
        assert [recordio.content(file, recordio.parts("test", path[0], file, place)) for _, place in places] == CONTENTS
    theirs = mx.recordio.MXRecordIO(str(path[0]), "r")
    assert [theirs.read() for _ in CONTENTS] == CONTENTS


@pytest.mark.parametrize("label", [3.0, [1.0, 2.0, 0.5], np.arange(12, dtype="float32")], ids=str)
def test_headers(label, tmp_path):
    path = str(tmp_path / "a.rec")
    file = mx.recordio.MXRecordIO(path, "w")
    file.write(mx.recordio.pack(mx.recordio.IRHeader(0, label, 7, 0), b"image"))
    file.close()
    item, = recordio.items("test", path)
    assert item.number == 7 and item.content == b"image"
    np.testing.assert_array_equal(item.labels, np.ravel(label).astype("float32"))


def refused(read, text):
    with pytest.raises(gops.OpError, match=f"gluonops.test: .*{text}"):
        list(read())


def test_what_is_damaged(path, tmp_path):
    rec, _ = path
    refused(lambda: recordio.records("test", tmp_path), "cannot be read: it is not a regular file")
    refused(lambda: recordio.records("test", tmp_path / "none.rec"), "cannot be read: No such file")
    whole = rec.read_bytes()
    for damaged, text in (
            (whole[:-2], "no next part of the record"), (whole[:-14], "the file ends at byte"),
            (b"JPEG" * 8, "a.rec has no record at byte 0"), (b"\n", "a.rec has no record at byte 0"),
            (struct.pack("<II", recordio.MAGIC, 2 ** 29 - 1) + b"x" * 64,
             "536870911 bytes should follow byte 0, and the"),
            (struct.pack("<II", recordio.MAGIC, recordio.LAST << recordio.LENGTH_BITS), "no next part"),
            (struct.pack("<II", recordio.MAGIC, recordio.FIRST << recordio.LENGTH_BITS), "no next part")):
        rec.write_bytes(damaged)
        refused(lambda: recordio.records("test", rec), text)


def test_headers_that_are_damaged():
    refused(lambda: recordio.unpack("test", b"short"), "a record of 5 bytes has no header")
    refused(lambda: recordio.unpack("test", struct.pack("<IfQQ", 2 ** 31, 0, 0, 0)),
            "or a header that says 2147483648 labels")


def test_no_mutation_gets_further(path, rng):
    content, refusals = path[0].read_bytes(), 0
    for _ in range(200):
        damaged = bytearray(content)
        for place in rng.randint(len(damaged), size=rng.randint(1, 4)):
            damaged[place] = rng.randint(256)
        path[0].write_bytes(damaged)
        try:
            list(recordio.records("test", path[0]))
        except gops.OpError:
            refusals += 1
    assert refusals > 80
