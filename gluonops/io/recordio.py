"""Files of records, ``.rec`` and ``.idx``, read with NumPy alone.

The format is that of dmlc's recordio: a mark, a number whose lowest 29 bits are the length and whose highest three say
which part of a record this is, the content, and zeros up to a multiple of four bytes. A record that contains the mark
is cut there into parts. In front of an image are its labels; see ``mxnet.recordio.pack``.
"""
from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from ..contract.errors import OpError
from .files import check_downloaded, check_name, opened, read_lines

MAGIC = 0xced7230a
FRAME, HEADER = struct.Struct("<II"), struct.Struct("<IfQQ")   # the header of a record, and the one of mx.recordio.pack
LABEL = 4   # bytes of a label
# Parts of a record, in the upper three bits of the length in their frame. A value that holds MAGIC is split there.
WHOLE, FIRST, MIDDLE, LAST = range(4)
LENGTH_BITS = 29
ALIGNMENT = 4   # bytes
SHOWN = 60      # characters of a wrong line in an error
CUT_OFF = "The file was cut off: create or copy it again"


class Item(NamedTuple):
    """A record with a header: its labels, its number, and its content, such as a JPEG file."""

    labels: np.ndarray
    number: int
    content: bytes


def index(where: str, path: str | os.PathLike) -> list[tuple[int, int]]:
    """Return the numbers and offsets of the records, of an ``.idx`` file.

    Raise an OpError if it has none, or something else.
    """
    offsets = []
    for number, line in enumerate(read_lines(where, path, "It is made along with the .rec file"), 1):
        words = [word.strip() for word in line.split("\t")]
        if len(words) != 2 or not all(word.isascii() and word.isdigit() for word in words):
            raise OpError(where, f"{path}, line {number}: {line[:SHOWN]!r}; expected a number and an offset, with a "
                          "tab between", "Create the file again")
        offsets.append((int(words[0]), int(words[1])))
    if not offsets or len(dict(offsets)) < len(offsets):
        problem = "the same record twice" if offsets else "no records"
        raise OpError(where, f"{path} has {problem}", "Create the file again")
    return offsets


def parts(where: str, path: str | os.PathLike, file: BinaryIO, offset: int,
          key: int | None = None) -> list[tuple[int, int]]:
    """Return the start and the length of each part of the record at the byte ``offset``.

    ``key`` is the record's number in the ``.idx`` file, which errors name. Raise an OpError if there is no record at
    this byte, or if the file ends before the record does.
    """
    size = os.fstat(file.fileno()).st_size
    name = path if key is None else f"{path}, record {key}"
    positions, expected = [], (WHOLE, FIRST)
    while expected:
        file.seek(min(offset, size))
        magic, packed = FRAME.unpack(file.read(FRAME.size).ljust(FRAME.size, b"\0"))
        part, length = packed >> LENGTH_BITS, packed % (1 << LENGTH_BITS)
        if magic != MAGIC and not positions:
            check_downloaded(where, path)
            reason = "" if key is None else f", where the .idx file puts record {key}"
            raise OpError(where, f"{path} has no record at byte {offset}{reason}", "Create both files again, together")
        if magic != MAGIC or part not in expected:
            raise OpError(where, f"{name}: there is no next part of the record at byte {offset}",
                          CUT_OFF)
        if offset + FRAME.size + length > size:
            raise OpError(where,
                          f"{name}: {length} bytes should follow byte {offset}, and the file ends at byte {size}",
                          CUT_OFF)
        positions.append((offset + FRAME.size, length))
        expected = () if part in (WHOLE, LAST) else (MIDDLE, LAST)
        offset += FRAME.size + length + -length % ALIGNMENT
    return positions


def scan(where: str, path: str | os.PathLike) -> list[tuple[int, int]]:
    """Return the numbers and offsets of the records, as an ``.idx`` file lists them, by reading the file itself.

    The first record has the number 0. Raise an OpError if the file is damaged, or if it has no records.
    """
    offsets = []
    with opened(where, path, "Pass a file of records") as file:
        size, offset = os.fstat(file.fileno()).st_size, 0
        while offset < size:
            offsets.append((len(offsets), offset))
            start, length = parts(where, path, file, offset)[-1]
            offset = start + length + -length % ALIGNMENT
    if not offsets:
        raise OpError(where, f"{path} has no records", "Create the file again")
    return offsets


def content(file: BinaryIO, spans: list[tuple[int, int]]) -> bytes:
    """Return a record from its parts. The mark of the format stood between them, and is put back."""
    texts = []
    for start, length in spans:
        file.seek(start)
        texts.append(file.read(length))
    return struct.pack("<I", MAGIC).join(texts)


def records(where: str, path: str | os.PathLike) -> Iterator[bytes]:
    """Yield the records of a file, one after the other.

    Raise an OpError, which has the offset, at the first record that is damaged.
    """
    check_name(where, path)
    with opened(where, path, "Pass a file of records") as file:
        offset = 0
        while offset < os.fstat(file.fileno()).st_size:
            spans = parts(where, path, file, offset)
            yield content(file, spans)
            start, length = spans[-1]
            offset = start + length + -length % ALIGNMENT


def unpack(where: str, record: bytes) -> Item:
    """Return a record with its header read. Raise an OpError if it has no header."""
    count, label, number, _ = HEADER.unpack(record[:HEADER.size].ljust(HEADER.size, b"\0"))
    end = HEADER.size + LABEL * count
    if len(record) < end:
        raise OpError(where, f"a record of {len(record)} bytes has no header, or a header that says {count} labels, "
                      "which do not fit in the record", "Create the file again, with mx.recordio.pack")
    labels = np.frombuffer(record, "<f4", count, HEADER.size) if count else np.array([label], "float32")
    return Item(labels, number, record[end:])


def items(where: str, path: str | os.PathLike) -> Iterator[Item]:
    """Return the records of a file, with their headers read.

    The errors are those of :func:`records` and :func:`unpack`.
    """
    return (unpack(where, record) for record in records(where, path))
