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

from .errors import OpError, quoted
from .files import check_name, check_regular, read_lines

__all__ = ["Item", "index", "items", "record", "records", "unpack"]

MARK = 0xCED7230A
WHOLE, FIRST, MIDDLE, LAST = range(4)   # the parts
LENGTH_BITS = 29
HEADER = struct.Struct("<IfQQ")   # the number of labels, the label if that is 0, and two numbers of the image


class Item(NamedTuple):
    """A record with a header: its labels, its number, and its content, such as a JPEG file."""

    labels: np.ndarray
    number: int
    content: bytes


def records(where: str, path: str | os.PathLike) -> Iterator[bytes]:
    """The records of a file, one after the other. An OpError, with the place, where the file is damaged."""
    with _opened(where, path) as file:
        length = os.fstat(file.fileno()).st_size
        while file.tell() < length:
            yield _record(where, path, file, length)


def record(where: str, path: str | os.PathLike, place: int) -> bytes:
    """The record that begins at a byte, as an index has it. An OpError if there is none."""
    with _opened(where, path) as file:
        length = os.fstat(file.fileno()).st_size
        if not 0 <= place < length:
            raise OpError(where, f"byte {place} of {path} is beyond its end; the file has {length}",
                          "Make the index again")
        file.seek(place)
        return _record(where, path, file, length)


def index(where: str, path: str | os.PathLike) -> dict[int, int]:
    """The places of the records, by their numbers, of an ``.idx`` file. An OpError if a line is something else."""
    places = {}
    try:
        lines = read_lines(path)
    except OSError as error:
        raise OpError(where, f"{path} cannot be read: {error.strerror}", "Make the index again") from error
    for number, line in enumerate(lines, start=1):
        fields = line.split("\t")
        if len(fields) != 2 or not all(field.isascii() and field.isdigit() for field in fields):
            raise OpError(where, f"line {number} of {path} is {quoted(line)}; expected two numbers",
                          "Make the index again")
        places[int(fields[0])] = int(fields[1])
    return places


def unpack(where: str, content: bytes) -> Item:
    """A record with its header read. An OpError if there is none."""
    if len(content) < HEADER.size:
        raise OpError(where, f"a record has {len(content)} bytes; expected a header of {HEADER.size} bytes",
                      "Read the records as they are")
    count, label, number, _ = HEADER.unpack_from(content)
    end = HEADER.size + 4 * count
    if end > len(content):
        raise OpError(where, f"a record of {len(content)} bytes announces {count} labels",
                      "Read the records as they are")
    labels = np.frombuffer(content, "<f4", count, HEADER.size) if count else np.array([label], "float32")
    return Item(labels, number, content[end:])


def items(where: str, path: str | os.PathLike) -> Iterator[Item]:
    """The records of a file, with their headers read. Errors as of :func:`records` and :func:`unpack`."""
    return (unpack(where, content) for content in records(where, path))


def _opened(where: str, path: str | os.PathLike) -> BinaryIO:
    check_name(where, path)
    try:
        check_regular(path)
        return open(path, "rb")
    except OSError as error:
        raise OpError(where, f"{path} cannot be read: {error.strerror}", "Pass a file of records") from error


def _record(where: str, path: str | os.PathLike, file: BinaryIO, length: int) -> bytes:
    """The record that begins here. Its parts have the mark between them."""
    start = file.tell()
    parts, expected = [], (WHOLE, FIRST)
    while True:
        head = file.read(8)
        mark, number = struct.unpack("<II", head) if len(head) == 8 else (None, 0)
        kind, size = number >> LENGTH_BITS, number & (1 << LENGTH_BITS) - 1
        if mark != MARK or kind not in expected or size > length - file.tell():
            raise OpError(where, f"{path} is not a file of records, or it is damaged: byte {start}",
                          "Make the file again, or copy it again")
        parts.append(file.read(size))
        file.seek(-size % 4, os.SEEK_CUR)
        if kind in (WHOLE, LAST):
            return struct.pack("<I", MARK).join(parts)
        expected = (MIDDLE, LAST)
