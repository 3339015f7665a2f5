"""Functions that read images. Their errors name the file that cannot be read.

Pillow alone decides an image's size, orientation and pixels. Images are turned upright, as EXIF says. Annotation tools
such as labelImg and labelme show them upright, so the boxes that they write refer to the upright image.
"""
from __future__ import annotations

import contextlib
import io
import os
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np

from ..contract.attributes import Attr, Int
from ..contract.errors import OpError
from ..io import files
from ..io.optional import require
from ..io.progress import over

CHANNELS = 3
# Pillow's names of the formats that a data set's picture may have, and how the names of its files end. Others that
# Pillow reads are no pictures (PDF, MPEG), or run a program to be read (EPS).
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM", "JPEG2000", "TGA", "PCX", "DDS", "ICO", "AVIF")
EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".jpe", ".jfif", ".dib", ".gif", ".tif", ".tiff", ".webp", ".ppm",
              ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".tga", ".pcx", ".dds", ".ico", ".avif")
ENDINGS = f"{', '.join(EXTENSIONS[:4])}, ..."   # for errors
DECODED_HERE = ("JPEG", "PNG", "BMP", "MPO")   # formats that _decoded reads; MPO: a JPEG with more images behind it
ROWS = 128   # So many are converted at once.
PROGRESS_FROM = 1000   # smallest number of files with a progress bar
REMEDY = "Add it, or remove it from the list"   # an image that cannot be read
ORIENTATION = 0x0112   # EXIF's tag: 1 to 8
TAIL = 64   # bytes at the end of a file, in which a whole one has its mark
# A PNG's file is a signature and chunks: length, kind, data, checksum.
PNG_SIGNATURE = 8   # bytes
CHUNK, CHECKSUM = struct.Struct(">I4s"), struct.Struct(">I")
PNG_HEADER = struct.Struct(">IIBB")   # width, height, bits per channel, kind of colour
PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}   # the kind of colour in the header -> channels
ONCE = (b"IHDR", b"PLTE")   # chunks of which there is at most one
# How much memory one file of a data set may take when it is unpacked or decoded.
LIMIT = "GLUONOPS_MAX_DECODED_MIB"
DEFAULT_LIMIT = 512   # MiB: an RGB image of 179 megapixels, where Pillow refuses one as well
MIB = 1 << 20


class UnreadableError(OpError):
    """The bytes of a picture cannot be decoded."""


def max_bytes() -> int:
    """The limit in bytes, from ``GLUONOPS_MAX_DECODED_MIB``; without the variable it is 512 MiB.

    An OpError is raised if the variable is not a positive integer.
    """
    return Attr(LIMIT, Int(1), DEFAULT_LIMIT).parse("data", os.environ.get(LIMIT, DEFAULT_LIMIT)) * MIB


def check_size(where: str, name: str, size: int) -> None:
    """Raise an OpError if the file ``name`` would take more memory than the limit: so many bytes."""
    limit = max_bytes()
    if size > limit:
        raise OpError(where,
                      f"{name} takes {size / MIB:,.0f} MiB of memory or more; expected at most {limit // MIB:,} MiB",
                      f"Replace it by a smaller file, or set {LIMIT} to a larger number if you trust this one")


def progress(items: Sequence, what: str) -> Iterable:
    """``items`` with a progress bar behind the text ``what``, if there are at least 1000 and tqdm is installed."""
    return over(items, what, "file", least=PROGRESS_FROM, leave=False)


def image_files(folder: str | os.PathLike) -> list[str]:
    """The paths of the images in a folder and in the folders inside it, in alphabetical order.

    Parameters
    ----------
    folder : str or os.PathLike

    Raises
    ------
    OpError
        There is no such folder, or there is no image in it.
    """
    where = "data.image_files"
    folder = os.fspath(folder)
    if not os.path.isdir(folder):
        raise OpError(where, f"there is no folder {folder}", "Pass a folder with images")
    paths = sorted(os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names
                   if name.lower().endswith(EXTENSIONS))
    if not paths:
        raise OpError(where, f"{folder} has no images ({ENDINGS})", "Pass a folder with images")
    return paths


def read_image(path: str, where: str, formats: Sequence[str] | None = FORMATS) -> np.ndarray:
    """Read the image in a file. It is upright, as its EXIF data says.

    ``formats`` has Pillow's names of the formats that the file may have, whatever its name says. With None, all formats
    that Pillow knows are allowed.

    The result is uint8 (height, width, 3), RGB. An OpError is raised if the file is missing, cannot be decoded, is
    truncated, has another format, or would take more memory than ``GLUONOPS_MAX_DECODED_MIB``. The message names it.
    """
    with files.opened(where, path, REMEDY, "the image") as file:
        check_size(where, path, os.fstat(file.fileno()).st_size)
        content = file.read()
    return decode_image(content, path, where, formats=formats)


def decode_image(content: bytes, name: str, where: str, *, formats: Sequence[str] | None = FORMATS) -> np.ndarray:
    """Decode the bytes of an image file. ``name`` is its name in errors. The rest is as in :func:`read_image`."""
    with _opened_by_pillow(io.BytesIO(content), name, where, formats) as (pillow, opened):
        return _upright(_rgb(_decoded(pillow, opened, content)), _orientation(pillow, opened))


class Header(NamedTuple):
    """What the header of an image's file says: (width, height) of the upright image, and EXIF's orientation, 1 to 8."""
    size: tuple[int, int]
    orientation: int


def image_size(path: str, where: str) -> tuple[int, int]:
    """(width, height) of the image that :func:`read_image` returns, read from the header of the file."""
    with files.opened(where, path, REMEDY, "the image") as file:
        return _header(file, path, where).size


def encoded_size(content: bytes, name: str, where: str) -> tuple[int, int]:
    """(width, height) of the image in the bytes of a file. ``name`` is its name in errors."""
    return _header(io.BytesIO(content), name, where).size


def read_header(path: str, where: str) -> Header:
    """The header of an image's file, of which the end is looked at as well. An OpError is raised if it cannot be read.

    A file whose end has not the mark that whole ones have is decoded, to see whether it can be.
    """
    with files.opened(where, path, REMEDY, "the image") as file:
        return checked_header(file, path, where)


def checked_header(file: BinaryIO, name: str, where: str) -> Header:
    """As :func:`read_header`, for a file that is open. ``name`` is its name in errors."""
    header = _header(file, name, where)
    if not _has_end(file):
        file.seek(0)
        with _without_truncated_images(where):
            decode_image(file.read(), name, where)
    return header


@contextlib.contextmanager
def _without_truncated_images(where):
    """Let Pillow raise an error for a truncated file. gluoncv has told it to accept truncated files everywhere."""
    module = require("PIL.ImageFile", where)
    before, module.LOAD_TRUNCATED_IMAGES = module.LOAD_TRUNCATED_IMAGES, False
    try:
        yield
    finally:
        module.LOAD_TRUNCATED_IMAGES = before


def _has_end(file):
    """Whether a file ends with the mark of its format, as a whole file does. True for formats without such a mark."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - TAIL))
    tail = file.read(TAIL)
    file.seek(0)
    head = file.read(16)
    if head.startswith(b"\xff\xd8"):
        return b"\xff\xd9" in tail
    if head.startswith(b"\x89PNG"):
        return b"IEND" in tail
    if head.startswith(b"GIF8"):
        return b";" in tail
    if head.startswith(b"RIFF"):
        return int.from_bytes(head[4:8], "little") + 8 <= size
    return False


def _header(file, name, where):
    with _opened_by_pillow(file, name, where, FORMATS) as (pillow, opened):
        width, height = opened.size
        orientation = _orientation(pillow, opened)
        return Header((height, width) if is_on_its_side(orientation) else (width, height), orientation)


def headers(paths: Sequence[str | OpError], where: str, what: str) -> list[Header | OpError]:
    """The header of each file, or the error that :func:`read_header` raised for it.

    An OpError among the paths stays in its place. ``what`` is the text in front of the progress bar.
    """
    results = []
    for path in progress(paths, what):
        try:
            results.append(path if isinstance(path, OpError) else read_header(path, where))
        except OpError as error:
            results.append(error)
    return results


@contextlib.contextmanager
def _opened_by_pillow(file, name, where, formats):
    """(PIL.Image, the image, of which only the header is read). Errors inside the ``with`` block become OpErrors."""
    pillow = require("PIL.Image", where)
    try:
        with pillow.open(file, formats=formats and _installed(pillow, formats)) as opened:
            width, height = opened.size
            if min(width, height) < 1:
                raise _unreadable(name, where, f"a size of {width} x {height}", formats)
            check_size(where, name, CHANNELS * width * height)
            yield pillow, opened
    except OpError:
        raise
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        raise OpError(where, f"{name} is too large for Pillow: {error}", "Replace it by a smaller one, or set "
                      "PIL.Image.MAX_IMAGE_PIXELS if you trust the file") from error
    except Exception as error:   # a damaged file makes Pillow raise nearly any class
        raise _unreadable(name, where, f"{file.seek(0, os.SEEK_END)} bytes that do not decode", formats) from error


def _installed(pillow, formats):
    """The names of those of these formats that the installed Pillow supports."""
    if not all(name in pillow.OPEN for name in formats):
        pillow.init()
    return [name for name in formats if name in pillow.OPEN]


def _decoded(pillow, opened, content):
    """The bytes of an opened image, decoded.

    The image's own method ``load`` is not used, because it accepts truncated files if LOAD_TRUNCATED_IMAGES is set, and
    gluoncv sets it.
    """
    if opened.format not in DECODED_HERE:
        return opened
    mode, (codec, _, offset, args) = opened.mode, opened.tile[0]
    if codec == "bmp_rle":   # needs the file, and is strict
        return opened
    if codec == "zip":
        content, args = _rows(content), (args, opened.info.get("interlace", 0))
    else:
        content = content[offset:]
    if args[0] == "I;16B":   # grey of 16 bits: Pillow would clip it to 255
        mode, args = "L", ("L;16B", *args[1:])
    image = pillow.frombytes(mode, opened.size, content, codec, args)
    if image.mode == "P":
        image.putpalette(opened.palette)
    return image


def _rows(content):
    """The rows of a PNG whose zlib stream has no end mark. Pillow would fill rows that are missing with black."""
    chunks = list(_chunks(content))
    kinds = [kind for kind, _ in chunks if kind in ONCE]
    if len(set(kinds)) < len(kinds):
        raise ValueError("a second header or palette")
    width, height, depth, colour = PNG_HEADER.unpack_from(dict(chunks)[b"IHDR"])
    most = (width * depth * PNG_CHANNELS[colour] // 8 + 8) * (height + 8)   # each row has a byte for its filter
    unpacking = zlib.decompressobj()
    rows = unpacking.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT"), most)
    if not unpacking.eof:
        raise ValueError("rows without an end")
    packing = zlib.compressobj(zlib.Z_NO_COMPRESSION)
    return packing.compress(rows) + packing.flush(zlib.Z_SYNC_FLUSH)


def _chunks(content):
    """(kind, data) of the chunks of a PNG up to the last. A ValueError is raised if it is truncated or damaged."""
    content, start, kind = memoryview(content), PNG_SIGNATURE, None
    while kind != b"IEND":
        length, kind = CHUNK.unpack_from(content, start)
        end = start + CHUNK.size + length
        checksum, = CHECKSUM.unpack_from(content, end)
        if zlib.crc32(content[start + CHECKSUM.size:end]) != checksum:
            raise ValueError(f"a wrong checksum of {kind}")
        yield kind, content[start + CHUNK.size:end]
        start = end + CHECKSUM.size


def _rgb(image):
    """The pixels of an image as RGB, without alpha. Rows are converted in blocks, because Pillow would copy all pixels
    three times."""
    width, height = image.size
    pixels = np.empty((height, width, CHANNELS), "uint8")
    has_16_bits = image.mode.startswith("I;16") or image.mode == "I" and image.format == "PPM"
    for top in range(0, height, ROWS):
        rows = image.crop((0, top, width, min(top + ROWS, height)))
        if has_16_bits:   # of grey, which Pillow would clip to 255
            pixels[top:top + ROWS] = (np.asarray(rows) >> 8)[..., None]
        else:
            pixels[top:top + ROWS] = rows if rows.mode == "RGB" else rows.convert("RGB")
    return pixels


def _orientation(pillow, opened):
    """EXIF's orientation, from 1 to 8. It is 1, which means upright, if there is no EXIF data."""
    exif = pillow.Exif()
    try:
        exif.load(opened.info.get("exif"))
        return exif.get(ORIENTATION, 1)
    except Exception:   # damaged EXIF data says nothing
        return 1


def is_on_its_side(orientation: int) -> bool:
    """Whether EXIF's orientation says that the stored image has to be turned by a quarter."""
    return orientation in (5, 6, 7, 8)


def _upright(pixels, orientation):
    """Pixels turned and mirrored as EXIF's orientation says."""
    if is_on_its_side(orientation):
        pixels = pixels.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels)


def _unreadable(name, where, got, formats):
    expected = "an image" if formats is None else f"an image in {', '.join(formats[:5])} or the like"
    return UnreadableError(where, f"{name} has {got}; expected {expected}", "Replace the file, or leave it out")
