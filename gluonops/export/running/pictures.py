"""Reads pictures, from files and from what programs have in memory."""
from __future__ import annotations

import os

import mxnet as mx
import numpy as np

from ...core.errors import OpError
from ...data.images import EXTENSIONS, FORMATS, read_image

__all__ = ["read_picture"]


def read_picture(image: object, where: str) -> np.ndarray:
    """The pixels of an image.

    ``image``: a file, or pixels: uint8 (H, W, 3) in RGB, (H, W, 1) or (H, W) in grey. A file is read as the data sets
    read it, upright, and may have any format that Pillow knows if its name does not say JPEG, PNG or BMP. The result is
    uint8 (H, W, 3) or (H, W, 1). An OpError if the file cannot be read, or the pixels have another shape or type.
    """
    if isinstance(image, (str, os.PathLike)):
        path = os.fspath(image)
        return read_image(path, where, formats=FORMATS if path.lower().endswith(EXTENSIONS) else None)
    if hasattr(image, "convert"):   # Pillow's, whatever its mode
        return _pixels(image, where)
    pixels = image.asnumpy() if isinstance(image, mx.nd.NDArray) else np.asarray(image)
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3) or 0 in pixels.shape or pixels.dtype != np.uint8:
        raise OpError(where, f"image is {pixels.dtype} of shape {pixels.shape}; expected a file, or uint8 pixels of "
                      "shape (height, width, 3) or (height, width)",
                      "Pass the picture as it was read, without preprocessing")
    return pixels


def _pixels(image, where):
    """The pixels of Pillow's image, which it may decode only now."""
    try:
        return np.asarray(image.convert("RGB"))
    except Exception as error:   # a damaged file makes Pillow raise nearly any class
        raise OpError(where, f"Pillow does not decode the image: {error}", "Pass another picture") from error
