"""The idx format: 0, 0, the type, the number of dimensions, each size as a big-endian int32, then the numbers.

Gluon's own MNIST reads it as well, but downloads a file whose checksum it does not know; this reads what is there.
"""
import gzip
import math
import zlib

import numpy as np

from ...core.errors import OpError

__all__ = ["read_idx"]

UINT8 = 8   # the type's code


def read_idx(path: str, ndim: int) -> np.ndarray:
    """Read an idx file of unsigned bytes, gzipped where its name ends in ``.gz``.

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
        The file is not gzip though its name says so, has another type or number of dimensions, or is not as long as
        its header says.
    """
    content = _content(path)
    header = 4 + 4 * ndim
    magic = bytes((0, 0, UINT8, ndim))
    if len(content) < header or content[:4] != magic:
        raise _bad(path, f"{len(content)} bytes that start with {content[:4].hex() or 'nothing'}",
                   f"at least {header} bytes that start with {magic.hex()} (unsigned bytes, {ndim} "
                   f"dimension{'s' * (ndim > 1)})")
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
    return OpError("data.digits", f"{path} has {got}; expected {expected}", "Fetch the file again")
