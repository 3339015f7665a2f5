"""Reads pictures, from files and from what programs have in memory."""
from __future__ import annotations

import os

import mxnet as mx
import numpy as np

from ...core.errors import OpError
from ...core.optional import require
from ...data.images import EXTENSIONS, read_image

__all__ = ["read_picture"]


def read_picture(image: object, where: str) -> np.ndarray:
    """The pixels of an image.

    Parameters
    ----------
    image : str, os.PathLike, numpy.ndarray, NDArray or PIL.Image.Image
        A file, or pixels: uint8 (H, W, 3) in RGB, (H, W, 1) or (H, W) in grey. JPEG, PNG and BMP are read as the data
        sets read them, and other formats by Pillow.
    where : str
        The caller, for errors.

    Returns
    -------
    numpy.ndarray
        uint8 (H, W, 3) or (H, W, 1).

    Raises
    ------
    OpError
        The file cannot be read, or the pixels have another shape or type.
    """
    if isinstance(image, (str, os.PathLike)):
        path = os.fspath(image)
        return read_image(path, where) if path.lower().endswith(EXTENSIONS) else _opened_by_pillow(path, where)
    if hasattr(image, "convert"):   # Pillow's, whatever its mode
        return np.asarray(image.convert("RGB"))
    pixels = image.asnumpy() if isinstance(image, mx.nd.NDArray) else np.asarray(image)
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3) or 0 in pixels.shape or pixels.dtype != np.uint8:
        raise OpError(where, f"image is {pixels.dtype} of shape {pixels.shape}; expected a file, or uint8 pixels of "
                      "shape (height, width, 3) or (height, width)",
                      "Pass the picture as it was read, without preprocessing")
    return pixels


def _opened_by_pillow(path, where):
    pillow = require("PIL.Image", where)
    try:
        with pillow.open(path) as opened:
            return np.asarray(opened.convert("RGB"))
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError) as error:
        reason = getattr(error, "strerror", None) or "Pillow does not know its format"
        raise OpError(where, f"the image {path} cannot be read: {reason}",
                      "Pass a JPEG, a PNG or another image") from error
