"""Files of arrays, as ``mx.nd.save`` writes them: ``.params`` and checkpoints.

MXNet's loader believes what a file says. A damaged file can make it crash, or take gigabytes. So the structure is
checked here first, without reading the values: marks, counts, shapes, types, the sizes against the length of the file,
and the names. The structure is that of MXNet 1.9.1, ``src/ndarray/ndarray.cc``: ``NDArray::Save``, ``NDArray::Load``
and ``LegacyLoad``.
"""
from __future__ import annotations

import hashlib
import math
import os
import struct
from typing import BinaryIO

import mxnet as mx
import numpy as np

from .errors import OpError
from .files import check_name, check_regular

__all__ = ["check_written", "digest", "load_arrays", "save_arrays"]

LIST_MARK = 0x112
# The marks in front of an array. An older file has the number of dimensions there.
MARK_V1, MARK_V2, MARK_V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
DENSE = 0
MAX_NDIM = 32
DEVICES = (1, 2, 3, 5)   # cpu, gpu, cpu_pinned, cpu_shared
# Bytes of an element, by MXNet's number of the type: float32, float64, float16, uint8, int32, int8, int64, bool.
SIZES = {0: 4, 1: 8, 2: 2, 3: 1, 4: 4, 5: 1, 6: 8, 7: 1}


class _Damaged(Exception):
    """What is wrong, with the place in the file."""


class _Reader:
    """Reads numbers from a file, and never beyond its end."""

    def __init__(self, file: BinaryIO):
        self.file = file
        self.length = os.fstat(file.fileno()).st_size

    @property
    def place(self) -> int:
        """The byte that is read next."""
        return self.file.tell()

    def number(self, format: str) -> int:
        """One number in the little-endian format of :mod:`struct`."""
        return self.numbers(format, 1)[0]

    def numbers(self, format: str, count: int) -> tuple[int, ...]:
        """Several numbers of one format."""
        content = self.take(struct.calcsize(f"<{format}") * count)
        return struct.unpack(f"<{count}{format}", content)

    def take(self, size: int) -> bytes:
        """The next bytes."""
        self._check(size)
        return self.file.read(size)

    def skip(self, size: int) -> None:
        """Pass over the next bytes."""
        self._check(size)
        self.file.seek(size, os.SEEK_CUR)

    def _check(self, size):
        left = self.length - self.place
        if size > left:
            raise _Damaged(f"byte {self.place}: {size} more bytes are announced; the file has {left}")


def load_arrays(where: str, path: str | os.PathLike, remedy: str = "Save the arrays again") -> dict[str, mx.nd.NDArray]:
    """Read a file of named arrays.

    ``remedy``: what the user can do, for errors. The arrays are on the CPU. Raises OpError: the file cannot be read, is
    damaged, or has arrays without names. The message has the place in the file.
    """
    check_name(where, path)
    try:
        check_regular(path)
        with open(path, "rb") as file:
            _check_file(_Reader(file))
    except OSError as error:
        raise OpError(where, f"{path} cannot be read: {error.strerror}", remedy) from error
    except _Damaged as error:
        raise OpError(where, f"{path} is not a file of named arrays, or it is damaged: {error}", remedy) from error
    try:
        arrays = mx.nd.load(os.fspath(path))
    except mx.MXNetError as error:
        raise OpError(where, f"MXNet cannot read {path}: {str(error).strip().splitlines()[-1]}", remedy) from error
    return arrays if isinstance(arrays, dict) else {}   # MXNet gives a list if there is no array


def digest(arrays: dict[str, mx.nd.NDArray]) -> str:
    """The SHA-256 of names, types, shapes and values, in hexadecimal."""
    result = hashlib.sha256()
    for name in sorted(arrays):
        values = np.ascontiguousarray(arrays[name].asnumpy())
        result.update(f"{name} {values.dtype} {values.shape} ".encode())
        result.update(values)
    return result.hexdigest()


def save_arrays(path: str, arrays: dict[str, mx.nd.NDArray]) -> None:
    """``mx.nd.save``, and :func:`check_written`."""
    mx.nd.save(path, arrays)
    check_written(path)


def check_written(path: str) -> None:
    """Raise an OSError if a file that MXNet has written is incomplete: MXNet ignores an error in the last block."""
    with open(path, "rb") as file:
        try:
            _check_file(_Reader(file))
        except _Damaged as error:
            raise OSError(f"the file is incomplete ({error})") from error


def _check_file(reader: _Reader) -> None:
    if reader.length < 24 or reader.number("Q") != LIST_MARK:
        raise _Damaged(f"byte 0: the mark {LIST_MARK:#x} is missing")
    reader.skip(8)   # reserved
    count = reader.number("Q")
    for index in range(count):   # each has bytes of its own, so a count that is too high meets the end of the file
        _check_array(reader, index)
    names = _names(reader)
    if count and not names:
        raise _Damaged("its arrays have no names")
    if len(names) != count:
        raise _Damaged(f"it has {count} arrays and {len(names)} names")
    if len(set(names)) < count:
        raise _Damaged("two arrays have the same name")
    if reader.place != reader.length:
        raise _Damaged(f"byte {reader.place}: the arrays end here; the file has {reader.length} bytes")


def _check_array(reader: _Reader, index: int) -> None:
    start = reader.place
    shape = _shape(reader)
    if not all(size >= 0 for size in shape):
        raise _Damaged(f"byte {start}: array {index} has the shape {shape}")
    device, _ = reader.numbers("i", 2)
    dtype = reader.number("i")
    if device not in DEVICES or dtype not in SIZES:
        raise _Damaged(f"byte {start}: array {index} has a device of kind {device} and a type of number {dtype}")
    reader.skip(math.prod(shape) * SIZES[dtype])


def _shape(reader: _Reader) -> tuple[int, ...]:
    """The shape of an array, whatever version of MXNet wrote it."""
    start, mark = reader.place, reader.number("I")
    if mark in (MARK_V2, MARK_V3):
        storage = reader.number("i")
        if storage != DENSE:
            raise _Damaged(f"byte {start}: an array has the storage {storage}; expected {DENSE}, a dense array")
        ndim, size = reader.number("i"), "q"
    elif mark == MARK_V1:
        ndim, size = reader.number("i"), "q"
    else:
        ndim, size = mark, "I"
    least = 0 if mark == MARK_V3 else 1   # 0 dimensions mean that there is no array, except with NumPy's shapes
    if not least <= ndim <= MAX_NDIM:
        raise _Damaged(f"byte {start}: an array has {ndim} dimensions; expected {least} to {MAX_NDIM}")
    return reader.numbers(size, ndim)


def _names(reader: _Reader) -> list[str]:
    names = []
    for _ in range(reader.number("Q")):
        start = reader.place
        try:
            names.append(reader.take(reader.number("Q")).decode("utf-8"))
        except UnicodeDecodeError as error:
            raise _Damaged(f"byte {start}: a name is not UTF-8") from error
    return names
