"""The idx format, in which MNIST is stored.

A file has two bytes 0, a byte for the type, a byte for the number of dimensions, the sizes as big-endian uint32, and
the values. Gluon's MNIST data set reads the format as well, but downloads a file if its checksum differs. This module
reads local files only.
"""
import gzip
import math
import os
import zlib

import numpy as np

from ...core.errors import OpError
from ..limits import check_size, max_bytes

__all__ = ["read_idx"]

WHERE = "data.digits"
UINT8 = 8   # code of the type


def read_idx(path: str, ndim: int) -> np.ndarray:
    """Read an idx file of unsigned bytes.

    - ``path``: the file. It is gzipped if its name ends in ``.gz``.
    - ``ndim``: expected number of dimensions.

    The result is uint8, read-only. An OpError if the file cannot be read, is not gzip although its name ends in .gz,
    has another type or number of dimensions, or a length that does not match its header, or would take more memory than
    ``GLUONOPS_MAX_DECODED_MIB``.
    """
    content = _content(path)
    header = 4 + 4 * ndim
    magic = bytes((0, 0, UINT8, ndim))
    if len(content) < header or content[:4] != magic:
        dimensions = "1 dimension" if ndim == 1 else f"{ndim} dimensions"
        raise _bad(path, f"{len(content)} bytes that start with {content[:4].hex() or 'nothing'}",
                   f"at least {header} bytes that start with {magic.hex()} (unsigned bytes, {dimensions})")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", ndim, offset=4))
    if len(content) != header + math.prod(shape):
        raise _bad(path, f"{len(content)} bytes", f"{header + math.prod(shape)} for the shape {shape} in its header")
    try:
        return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
    except ValueError as error:   # a size of 0 beside others whose product is beyond NumPy
        raise _bad(path, f"the shape {shape} in its header", "a shape that an array can have") from error


def _content(path):
    open_file = gzip.open if path.endswith(".gz") else open
    try:
        check_size(WHERE, path, os.path.getsize(path))
        with open_file(path, "rb") as file:
            content = file.read(max_bytes() + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _bad(path, f"something that does not unpack ({error})", "a whole gzip file") from error
    except OSError as error:
        raise OpError(WHERE, f"{path} cannot be read: {error.strerror}", "Pass another folder") from error
    check_size(WHERE, path, len(content))
    return content


def _bad(path, got, expected):
    return OpError(WHERE, f"{path} has {got}; expected {expected}", "Download the file again")
