"""Read images; errors name the file that cannot be read."""
import io
import os
from collections.abc import Iterable, Sequence

import mxnet as mx
import numpy as np

from ..core.errors import OpError
from ..core.optional import require

__all__ = ["EXTENSIONS", "decode_image", "encoded_size", "image_size", "progress", "read_image"]

EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp")
JPEG, MARK, SCAN, END = b"\xff\xd8", b"\xff", b"\xda", b"\xff\xd9"   # JPEG's markers
MANY = 1000   # from this number of files on there is a progress bar


def progress(items: Sequence, what: str) -> Iterable:
    """``items`` with a progress bar on the terminal, if there are many and tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return items
    return tqdm(items, desc=what, leave=False, disable=True if len(items) < MANY else None)


def read_image(path: str, where: str, flag: int = 1) -> np.ndarray:
    """The image in a file: uint8 (height, width, 3), RGB; grey in one channel with ``flag=0``.

    Raises
    ------
    OpError
        The file is missing, cannot be decoded, or is a JPEG that was cut off; the message names it.
    """
    return decode_image(_content(path, where), path, where, flag)


def decode_image(content: bytes, name: str, where: str, flag: int = 1) -> np.ndarray:
    """An encoded image's bytes as :func:`read_image` returns them; ``name`` is its name in errors."""
    if content.startswith(JPEG) and _is_cut(content):
        raise _unreadable(name, where, f"{len(content)} bytes of a JPEG without its end")
    try:
        return mx.image.imdecode(content, flag=flag).asnumpy()
    except (mx.MXNetError, ValueError, TypeError) as error:
        raise _unreadable(name, where, f"{len(content)} bytes that do not decode") from error


def image_size(path: str, where: str) -> tuple[int, int]:
    """(width, height) of what :func:`read_image` would return, from the header of the file."""
    with _opened(path, where) as file:
        return _size(file, path, where)


def encoded_size(content: bytes, name: str, where: str) -> tuple[int, int]:
    """(width, height) of an encoded image's bytes; ``name`` is its name in errors."""
    return _size(io.BytesIO(content), name, where)


def _size(file, name, where):
    image = require("PIL.Image", where)
    try:
        with image.open(file) as opened:
            return opened.size   # EXIF's orientation is ignored, as MXNet ignores it
    except (OSError, SyntaxError, ValueError) as error:
        raise _unreadable(name, where, f"{file.seek(0, os.SEEK_END)} bytes that do not decode") from error


def _is_cut(content):
    """Whether a JPEG lacks its end marker. The decoder fills the missing part with grey and reports nothing."""
    place = len(JPEG)   # skip the segments: a thumbnail in one has an end marker of its own
    while content[place:place + 1] == MARK and content[place + 1:place + 2] != SCAN:
        place += 2 + int.from_bytes(content[place + 2:place + 4], "big")
    return content.rfind(END, place) < 0


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
