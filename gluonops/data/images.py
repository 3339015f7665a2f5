"""Reading images so that a bad one is named, and packages that only some data sets need."""
import importlib
import io
import os
import warnings

import mxnet as mx

from ..core.errors import OpError

__all__ = ["EXTENSIONS", "decode_image", "encoded_size", "image_size", "progress", "read_image", "require"]

EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp")
MANY = 1000   # files that take long enough to check for a progress bar


def require(module, where):
    """Import a package of the extra ``detection``, or say how to install it."""
    try:
        with warnings.catch_warnings():   # gluoncv 0.10.5 uses distutils, and remarks on torch
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except (ImportError, RuntimeError) as error:   # gluoncv raises the latter beside torch 2
        raise OpError(where, f"{module.partition('.')[0]} cannot be imported ({error})",
                      "Run pip install 'gluonops[detection]'") from error


def progress(items, what):
    """``items`` with a progress bar on the terminal where there are many, and tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return items
    return tqdm(items, desc=what, leave=False, disable=True if len(items) < MANY else None)


def read_image(path, where, flag=1):
    """The image in a file: uint8 (height, width, 3), RGB; grey in one channel with ``flag=0``.

    Raises
    ------
    OpError
        There is no such file, or nothing in it that decodes; the message has its name.
    """
    return decode_image(_content(path, where), path, where, flag)


def decode_image(content, name, where, flag=1):
    """An encoded image's bytes as :func:`read_image` returns them; ``name`` is what an error calls it."""
    try:
        return mx.image.imdecode(content, flag=flag).asnumpy()
    except (mx.MXNetError, ValueError, TypeError) as error:
        raise _unreadable(name, where, f"{len(content)} bytes") from error


def image_size(path, where):
    """(width, height) of what :func:`read_image` would return, from the head of the file alone."""
    return encoded_size(_content(path, where), path, where)


def encoded_size(content, name, where):
    """(width, height) of an encoded image's bytes; ``name`` is what an error calls it."""
    image = require("PIL.Image", where)
    try:
        with image.open(io.BytesIO(content)) as found:
            return found.size   # whatever EXIF says of its orientation: MXNet decodes it as it is stored
    except (OSError, SyntaxError, ValueError) as error:
        raise _unreadable(name, where, f"{len(content)} bytes") from error


def _content(path, where):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise OpError(where, f"the image {os.fspath(path)} cannot be read: {error.strerror}",
                      "Put it there, or take it off the list") from error


def _unreadable(name, where, got):
    return OpError(where, f"{name} has {got} that do not decode; expected an image",
                   "Replace it, or take it and its label off the list")
