"""Functions that read images. Their errors name the file that cannot be read."""
import io
import os
from collections.abc import Iterable, Sequence

import mxnet as mx
import numpy as np

from ..core.errors import OpError
from ..core.optional import require

__all__ = ["EXTENSIONS", "decode_image", "encoded_size", "image_size", "progress", "read_image"]

EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp")
PROGRESS_FROM = 1000   # smallest number of files with a progress bar
# Markers of the JPEG format.
JPEG_START = b"\xff\xd8"
JPEG_MARKER = b"\xff"
JPEG_SCAN = b"\xda"
JPEG_END = b"\xff\xd9"


def progress(items: Sequence, what: str) -> Iterable:
    """``items`` with a progress bar on the terminal, if there are at least 1000 and tqdm is installed.

    Parameters
    ----------
    items : sequence
    what : str
        Text in front of the bar.
    """
    try:
        from tqdm import tqdm
    except ImportError:
        return items
    disable = True if len(items) < PROGRESS_FROM else None   # None: disabled if stderr is not a terminal
    return tqdm(items, desc=what, leave=False, disable=disable)


def read_image(path: str, where: str, flag: int = 1) -> np.ndarray:
    """Read the image in a file.

    Parameters
    ----------
    path : str
        The file.
    where : str
        Name of the caller, for errors.
    flag : {1, 0}, default 1
        1: RGB. 0: grey.

    Returns
    -------
    numpy.ndarray
        uint8 (height, width, 3) in RGB, or (height, width, 1) in grey.

    Raises
    ------
    OpError
        The file is missing, cannot be decoded, or is a truncated JPEG. The message names it.
    """
    return decode_image(_content(path, where), path, where, flag)


def decode_image(content: bytes, name: str, where: str, flag: int = 1) -> np.ndarray:
    """Decode the bytes of an image file. ``name`` is its name in errors. The rest is as in :func:`read_image`."""
    if content.startswith(JPEG_START) and _is_truncated(content):
        raise _unreadable(name, where, f"{len(content)} bytes of a JPEG without its end")
    try:
        return mx.image.imdecode(content, flag=flag).asnumpy()
    except (mx.MXNetError, ValueError, TypeError) as error:
        raise _unreadable(name, where, f"{len(content)} bytes that do not decode") from error


def image_size(path: str, where: str) -> tuple[int, int]:
    """(width, height) of the image that :func:`read_image` returns, read from the header of the file."""
    with _opened(path, where) as file:
        return _size(file, path, where)


def encoded_size(content: bytes, name: str, where: str) -> tuple[int, int]:
    """(width, height) of the image in the bytes of a file. ``name`` is its name in errors."""
    return _size(io.BytesIO(content), name, where)


def _size(file, name, where):
    image = require("PIL.Image", where)
    try:
        with image.open(file) as opened:
            return opened.size   # without EXIF's orientation, which MXNet ignores as well
    except (OSError, SyntaxError, ValueError) as error:
        raise _unreadable(name, where, f"{file.seek(0, os.SEEK_END)} bytes that do not decode") from error


def _is_truncated(content):
    """Whether a JPEG has no end marker. The decoder would fill the missing part with grey, without an error."""
    # The segments in front of the scan are skipped. A thumbnail in one of them has an end marker of its own.
    position = len(JPEG_START)
    while content[position:position + 1] == JPEG_MARKER and content[position + 1:position + 2] != JPEG_SCAN:
        segment_length = int.from_bytes(content[position + 2:position + 4], "big")
        position += 2 + segment_length
    return content.rfind(JPEG_END, position) < 0


def _content(path, where):
    with _opened(path, where) as file:
        return file.read()


def _opened(path, where):
    try:
        return open(path, "rb")
    except OSError as error:
        raise OpError(where, f"the image {os.fspath(path)} cannot be read: {error.strerror}",
                      "Add it, or remove it from the list") from error


def _unreadable(name, where, got):
    return OpError(where, f"{name} has {got}; expected an image",
                   "Replace it, or remove it and its label from the list")
