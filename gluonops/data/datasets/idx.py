"""The idx format: 0, 0, the type, the number of dimensions, each size as a big-endian int32, then the numbers.

Gluon's own MNIST reads it as well, but downloads a file whose checksum differs. This module reads local files only.
"""
import gzip
import math
import zlib

import numpy as np

from ...core.errors import OpError

__all__ = ["read_idx"]

UINT8 = 8   # the type's code


def read_idx(path: str, ndim: int) -> np.ndarray:
    """Read an idx file of unsigned bytes, gzipped if its name ends in ``.gz``.

    Parameters
    ----------
    path : str
        The file.
    ndim : int
        The number of dimensions it must have.

    Returns
    -------
    numpy.ndarray
        uint8, read-only.

    Raises
    ------
    OpError
        The file has the ending .gz but is not gzip, has another type or number of dimensions, or its length does not
        match its header.
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
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _content(path):
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
            return file.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _bad(path, f"something that does not unpack ({error})", "a whole gzip file") from error


def _bad(path, got, expected):
    return OpError("data.digits", f"{path} has {got}; expected {expected}", "Download the file again")
