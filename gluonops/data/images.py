"""Functions that read images. Their errors name the file that cannot be read."""
import io
import os
import struct
from collections.abc import Iterable, Sequence

import mxnet as mx
import numpy as np

from ..core.errors import OpError
from ..core.files import check_regular
from ..core.optional import require
from .limits import check_size

__all__ = ["EXTENSIONS", "decode_image", "encoded_size", "image_size", "progress", "read_image"]

CHANNELS = 3
EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp")
PROGRESS_FROM = 1000   # smallest number of files with a progress bar
# Markers of the JPEG format.
JPEG_START = b"\xff\xd8"
JPEG_MARKER = b"\xff"
JPEG_SCAN = b"\xda"
JPEG_END = b"\xff\xd9"
JPEG_EXIF = b"\xe1"
JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}   # segments with the size and the number of channels
JPEG_CHANNELS = 9   # their place in such a segment, from its marker on
CMYK_CHANNELS = 4


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
        The file is missing, cannot be decoded, is a truncated JPEG, or would take more memory than
        ``GLUONOPS_MAX_DECODED_MIB``. The message names it.
    """
    return decode_image(_content(path, where), path, where, flag)


def decode_image(content: bytes, name: str, where: str, flag: int = 1) -> np.ndarray:
    """Decode the bytes of an image file. ``name`` is its name in errors. The rest is as in :func:`read_image`."""
    encoded_size(content, name, where)
    if content.startswith(JPEG_START):
        content = _checked_jpeg(content, name, where)
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
            width, height = opened.size   # without EXIF's orientation
    except image.DecompressionBombError as error:
        raise OpError(where, f"{name} is too large for Pillow: {error}", "Replace it by a smaller one, or set "
                      "PIL.Image.MAX_IMAGE_PIXELS if you trust the file") from error
    except (OSError, SyntaxError, ValueError, struct.error) as error:
        raise _unreadable(name, where, f"{file.seek(0, os.SEEK_END)} bytes that do not decode") from error
    if min(width, height) < 1:
        raise _unreadable(name, where, f"a size of {width} x {height}")
    check_size(where, name, CHANNELS * width * height)
    return width, height


def _checked_jpeg(content, name, where):
    """A whole JPEG, without the orientation of EXIF if the decoder would apply it."""
    segments, scan = _jpeg_segments(content)
    if content.rfind(JPEG_END, scan) < 0:   # the decoder would fill the missing part with grey, without an error
        raise _unreadable(name, where, f"{len(content)} bytes of a JPEG without its end")
    if not any(_is_cmyk(content[start:end]) for start, end in segments):
        return content
    # MXNet decodes CMYK with another decoder, which rotates the image as EXIF says. The labels are not rotated.
    kept = [content[start:end] for start, end in segments if content[start + 1:start + 2] != JPEG_EXIF]
    return b"".join([JPEG_START, *kept, content[scan:]])


def _jpeg_segments(content):
    """((start, end) of every segment in front of the scan, the place of the scan).

    A thumbnail in a segment has markers of its own, so segments are passed over as a whole.
    """
    segments, position = [], len(JPEG_START)
    while content[position:position + 1] == JPEG_MARKER and content[position + 1:position + 2] != JPEG_SCAN:
        length = int.from_bytes(content[position + 2:position + 4], "big")
        segments.append((position, position + 2 + length))
        position += 2 + length
    return segments, position


def _is_cmyk(segment):
    """Whether a JPEG's segment is the one that gives the number of channels, and says four."""
    is_frame = len(segment) > JPEG_CHANNELS and segment[1] in JPEG_FRAMES
    return is_frame and segment[JPEG_CHANNELS] == CMYK_CHANNELS


def _content(path, where):
    with _opened(path, where) as file:
        return file.read()


def _opened(path, where):
    try:
        check_regular(path)
        return open(path, "rb")
    except OSError as error:
        raise OpError(where, f"the image {os.fspath(path)} cannot be read: {error.strerror}",
                      "Add it, or remove it from the list") from error


def _unreadable(name, where, got):
    return OpError(where, f"{name} has {got}; expected an image",
                   "Replace it, or remove it and its label from the list")
