"""Files of arrays, as ``mx.nd.save`` writes them, read and written with NumPy alone: ``.params`` and checkpoints.

MXNet's own loader believes what a file says: a damaged one makes it crash, or take gigabytes. Here the structure is
checked before a value is read: marks, counts, shapes, types, the sizes against the length of the file, and the names.
The structure is that of MXNet 1.9.1, ``src/ndarray/ndarray.cc``: ``NDArray::Save``, ``NDArray::Load`` and
``LegacyLoad``.
"""
from __future__ import annotations

import hashlib
import math
import os
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Union

import numpy as np

from ..contract.errors import OpError, plural
from .files import check_downloaded, check_name, opened

if TYPE_CHECKING:
    import mxnet as mx

LIST_MARK = 0x112
# The marks in front of an array. An older file has the number of dimensions there.
MARK_V1, MARK_V2, MARK_V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
# The storage of an array: its name, and how many arrays of indices it has.
DENSE = 0
STORAGES = {DENSE: ("dense", 0), 1: ("row_sparse", 1), 2: ("csr", 2)}
MAX_NDIM = 32
CPU = (1, 0)   # the device that is written, and its number
DEVICES = (1, 2, 3, 5)   # cpu, gpu, cpu_pinned, cpu_shared
# The types, in the order of MXNet's numbers for them.
TYPES = tuple(map(np.dtype, ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool", "int16",
                             "uint16", "uint32", "uint64")))

Array = Union[np.ndarray, "mx.nd.NDArray"]


class StoredArray(NamedTuple):
    """An array in a file, without its values, which begin at the byte ``offset``.

    ``name`` is None in a file of arrays without names.
    """

    name: str | None
    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int
    storage: int


def as_numpy(array: Array) -> np.ndarray:
    """Return an array of NumPy or of MXNet as one of NumPy."""
    return array.asnumpy() if hasattr(array, "asnumpy") else np.asarray(array)


class _Damaged(Exception):
    """The file is damaged. The text says what is wrong, and at which byte."""


class _Reader:
    """Reads numbers from a file, and never beyond its end."""

    def __init__(self, file: BinaryIO):
        self.file = file
        self.length = os.fstat(file.fileno()).st_size

    @property
    def offset(self) -> int:
        """The byte that is read next."""
        return self.file.tell()

    def number(self, format: str) -> int:
        """Read one number in the little-endian format of :mod:`struct`."""
        return self.numbers(format, 1)[0]

    def numbers(self, format: str, count: int) -> tuple[int, ...]:
        """Read several numbers of one format."""
        content = self.take(struct.calcsize(f"<{format}") * count)
        return struct.unpack(f"<{count}{format}", content)

    def take(self, size: int) -> bytes:
        """Read the next bytes."""
        self._check(size)
        return self.file.read(size)

    def skip(self, size: int) -> None:
        """Pass over the next bytes."""
        self._check(size)
        self.file.seek(size, os.SEEK_CUR)

    def _check(self, size):
        left = self.length - self.offset
        if size > left:
            raise _Damaged(f"byte {self.offset}: {size} more bytes are expected here, and the file has only {left}")


def stored_arrays(where: str, path: str | os.PathLike, remedy: str = "Save the arrays again") -> list[StoredArray]:
    """Return what arrays a file has. Their values are not read.

    ``remedy`` is what an error tells the user to do. Raise an OpError if the file cannot be read, is damaged, or has a
    sparse array. The message has the offset in the file, or the array's name.
    """
    check_name(where, path)
    try:
        with opened(where, path, remedy) as file:
            stored = _stored_arrays(_Reader(file))
    except _Damaged as error:
        check_downloaded(where, path)
        raise OpError(where, f"{path} is not a file of arrays, or it is damaged: {error}", remedy) from error
    sparse = [f"{number if array.name is None else array.name} ({STORAGES[array.storage][0]})"
              for number, array in enumerate(stored) if array.storage != DENSE]
    if sparse:
        raise OpError(where, f"{path} has the sparse arrays {', '.join(sparse)}; expected dense ones",
                      "Convert each with .tostype('default'), and save the arrays again")
    return stored


def read(where: str, path: str | os.PathLike, remedy: str = "Save the arrays again") -> dict[str, np.ndarray]:
    """Return the arrays of a file by name.

    The arrays of a file without names are called ``0``, ``1`` and so on. The errors are those of :func:`stored_arrays`.
    """
    stored = stored_arrays(where, path, remedy)
    arrays = {}
    with open(path, "rb") as file:
        for number, array in enumerate(stored):
            file.seek(array.offset)
            values = np.fromfile(file, array.dtype, math.prod(array.shape))
            arrays[str(number) if array.name is None else array.name] = values.reshape(array.shape)
    return arrays


def load_arrays(where: str, path: str | os.PathLike, remedy: str = "Save the arrays again") -> dict[str, mx.nd.NDArray]:
    """Return the arrays of a file as NDArrays on the CPU.

    Raise the errors of :func:`stored_arrays`, and an OpError if an array has no name, or has a type or a shape that
    MXNet does not take.
    """
    names = [array.name for array in stored_arrays(where, path, remedy)]
    if None in names:
        raise OpError(where, f"{path} is not a file of named arrays, because its arrays have no names", remedy)
    values = read(where, path, remedy)
    return {name: _in_mxnet(where, path, name, values.pop(name)) for name in names}   # so there is one copy at a time


def _in_mxnet(where: str, path: str | os.PathLike, name: str, values: np.ndarray) -> mx.nd.NDArray:
    import mxnet as mx  # here, because everything else needs NumPy alone

    if values.dtype.type not in mx.ndarray.ndarray._DTYPE_NP_TO_MX:
        raise OpError(where, f"{path}: {name} has the type {values.dtype}, which MXNet does not compute with",
                      "Convert it to float32 with NumPy first")
    if 0 in (values.ndim, values.size) and not mx.util.is_np_shape():
        raise OpError(where, f"{path}: {name} has the shape {values.shape}, which MXNet takes with NumPy's shapes only",
                      "Read it within mxnet.util.np_shape()")
    return mx.ndarray.ndarray.array(values, mx.cpu(), values.dtype)   # mx.nd.array warns with SciPy


def write(path: str | os.PathLike, arrays: Mapping[str, Array] | Sequence[Array], is_numpy: bool = False) -> None:
    """Write the bytes that ``mx.nd.save`` writes for arrays by name, or for a list of arrays without names.

    With ``is_numpy`` the file is one that MXNet writes under ``mx.util.np_shape()``, and that has to be read under it.

    Raise an OSError if the file cannot be written, and an OpError if MXNet does not have the type of an array.
    """
    names = list(arrays) if isinstance(arrays, Mapping) else []
    arrays = list(arrays.values()) if isinstance(arrays, Mapping) else arrays
    for name, array in zip(names or range(len(arrays)), arrays):
        if np.dtype(array.dtype) not in TYPES:
            raise OpError("files", f"the array {name} has the type {array.dtype}; expected one of "
                          f"{', '.join(dtype.name for dtype in TYPES)}", "Convert it with astype")
    with open(path, "wb") as file:
        file.write(struct.pack("<QQQ", LIST_MARK, 0, len(arrays)))
        for array in arrays:
            value = as_numpy(array)
            needs_numpys_shapes = is_numpy or not value.ndim or not value.size
            mark = MARK_V3 if needs_numpys_shapes else MARK_V2
            file.write(struct.pack(f"<Iii{value.ndim}q", mark, DENSE, value.ndim, *value.shape))
            file.write(struct.pack("<iii", *CPU, TYPES.index(value.dtype)))
            np.ascontiguousarray(value, value.dtype.newbyteorder("<")).tofile(file)
        file.write(struct.pack("<Q", len(names)))
        for name in names:
            encoded = name.encode()
            file.write(struct.pack("<Q", len(encoded)) + encoded)


def digest(arrays: Mapping[str, Array]) -> str:
    """Return the SHA-256 of names, types, shapes and values, in hexadecimal."""
    result = hashlib.sha256()
    for name in sorted(arrays):
        values = np.ascontiguousarray(as_numpy(arrays[name]))
        result.update(f"{name} {values.dtype} {values.shape} ".encode())
        result.update(values)
    return result.hexdigest()


def check_written(path: str) -> None:
    """Raise an OSError if a file that MXNet has written is incomplete: MXNet ignores an error in the last block."""
    with open(path, "rb") as file:
        try:
            _stored_arrays(_Reader(file))
        except _Damaged as error:
            raise OSError(f"the file is incomplete ({error})") from error


def _stored_arrays(reader: _Reader) -> list[StoredArray]:
    if reader.length < 24 or reader.number("Q") != LIST_MARK:
        raise _Damaged(f"byte 0: the mark {LIST_MARK:#x} is missing")
    reader.skip(8)   # reserved
    count = reader.number("Q")
    # Each has bytes of its own, so a count that is too high meets the end of the file.
    arrays = [_array(reader, index) for index in range(count)]
    names = _names(reader)
    if names and len(names) != count:
        raise _Damaged(f"it has {plural(count, 'array')} and {plural(len(names), 'name')}")
    if len(set(names)) < len(names):
        raise _Damaged("two arrays have the same name")
    if reader.offset != reader.length:
        raise _Damaged(f"byte {reader.offset}: the arrays end here, and the file has {reader.length} bytes")
    return [array._replace(name=name) for array, name in zip(arrays, names or [None] * count)]


def _array(reader: _Reader, index: int) -> StoredArray:
    """Read what the file says of an array, but for its name, which comes later in the file."""
    start, mark = reader.offset, reader.number("I")
    storage = reader.number("i") if mark in (MARK_V2, MARK_V3) else DENSE
    if storage not in STORAGES:
        raise _Damaged(f"byte {start}: an array has the storage {storage}; expected {DENSE}, a dense array")
    stored = None if storage == DENSE else _shape(reader, start, index, least=1)
    if mark in (MARK_V1, MARK_V2, MARK_V3):
        # 0 dimensions mean that there is no array, except with NumPy's shapes.
        shape = _shape(reader, start, index, least=0 if mark == MARK_V3 else 1)
    else:
        shape = _shape(reader, start, index, 1, ndim=mark, format="I")
    device, _ = reader.numbers("i", 2)
    dtype = _dtype(reader, start, index, device)
    sizes = [math.prod(shape if stored is None else stored) * dtype.itemsize]
    for _ in range(STORAGES[storage][1]):
        indices = _dtype(reader, start, index, device)
        sizes.append(math.prod(_shape(reader, start, index, least=1)) * indices.itemsize)
    offset = reader.offset
    reader.skip(sum(sizes))
    return StoredArray(None, shape, dtype, offset, storage)


def _dtype(reader: _Reader, start: int, index: int, device: int) -> np.dtype:
    number = reader.number("i")
    if device not in DEVICES or not 0 <= number < len(TYPES):
        raise _Damaged(f"byte {start}: array {index} has the device type {device} and the dtype number {number}, which "
                       "MXNet does not have")
    return TYPES[number].newbyteorder("<")


def _shape(reader: _Reader, start: int, index: int, least: int, ndim: int | None = None,
           format: str = "q") -> tuple[int, ...]:
    """Read a shape. Its number of dimensions stands in front of it, unless ``ndim`` says it."""
    ndim = reader.number("i") if ndim is None else ndim
    if not least <= ndim <= MAX_NDIM:
        raise _Damaged(f"byte {start}: an array has {plural(ndim, 'dimension')}; expected {least} to {MAX_NDIM}")
    shape = reader.numbers(format, ndim)
    if not all(size >= 0 for size in shape):
        raise _Damaged(f"byte {start}: array {index} has the shape {shape}")
    return shape


def _names(reader: _Reader) -> list[str]:
    names = []
    for _ in range(reader.number("Q")):
        start = reader.offset
        try:
            names.append(reader.take(reader.number("Q")).decode("utf-8"))
        except UnicodeDecodeError as error:
            raise _Damaged(f"byte {start}: a name is not UTF-8") from error
    return names
