"""Darknet's preprocessing: resize and letterbox an image to exactly the tensor that Darknet computes.

An image is resized bilinearly in float32, first along the rows, then along the columns; the corner pixels of both
images coincide. A letterboxed image keeps its proportions and lies in the middle of a grey canvas (0.5). OpenCV's
resize and gluoncv's letterbox give other numbers. Published weights were trained on Darknet's, so they are computed
here.

Source: pjreddie/darknet ``src/image.c`` and ``src/region_layer.c``, commit f6afaabc, recorded in
``tests/golden/darknet/letterbox.npz``.
"""
from typing import Union

import mxnet as mx
import numpy as np
import numpy.typing as npt

from ...contract.attributes import Attr, Int
from ...contract.errors import OpError
from ...io.params import as_numpy

Image = Union[np.ndarray, mx.nd.NDArray]
GREY = np.float32(0.5)


def resize(image: Image, width: int, height: int) -> Image:
    """Resize as Darknet's ``resize_image`` does.

    Parameters
    ----------
    image : numpy.ndarray or NDArray
        (H, W, channels): uint8, which is divided by 255, or floats, which are taken as they are. Darknet's are RGB.
    width, height : int
        Width and height of the result, at least 1.

    Returns
    -------
    numpy.ndarray or NDArray
        float32, (channels, height, width); of the kind of `image`.

    Raises
    ------
    OpError
        The image has not three dimensions, or no pixel, or another type; or a size is below 1.
    """
    pixels = _pixels("data.resize", image)
    return _like(image, _resized(pixels, *_checked("data.resize", width, height)))


def letterbox(image: Image, width: int, height: int) -> Image:
    """Fit an image into a field of grey as Darknet's ``letterbox_image`` does, keeping its proportions.

    Parameters
    ----------
    image, width, height
        As in :func:`gluonops.data.resize`.

    Returns
    -------
    numpy.ndarray or NDArray
        float32, (channels, height, width); of the kind of `image`.

    Raises
    ------
    OpError
        As ``resize``; or the image is so narrow that its shorter side would have no pixel.
    """
    pixels = _pixels("data.letterbox", image)
    width, height = _checked("data.letterbox", width, height)
    inner = _inner("data.letterbox", (pixels.shape[1], pixels.shape[0]), (width, height))
    left, top = (width - inner[0]) // 2, (height - inner[1]) // 2
    field = np.full((pixels.shape[2], height, width), GREY)
    field[:, top:top + inner[1], left:left + inner[0]] = _resized(pixels, *inner)
    return _like(image, field)


def letterbox_boxes(boxes: npt.ArrayLike, image_size: tuple[int, int], size: tuple[int, int]) -> np.ndarray:
    """Where boxes of an image lie in its letterbox.

    Parameters
    ----------
    boxes : array_like or NDArray
        (..., 4 or more): left, top, right, bottom in pixels of the image; further columns are kept. Rows of -1 stay.
    image_size, size : tuple of int
        (width, height) of the image and of the letterbox.

    Returns
    -------
    numpy.ndarray
        float32, shape of `boxes`: pixels of the letterbox.

    Raises
    ------
    OpError
        ``boxes`` has not four columns, or the image does not fit.
    """
    scale, offset = _placement(image_size, size)
    return _moved("data.letterbox_boxes", boxes, lambda corners: corners * scale + offset)


def unletterbox_boxes(boxes: npt.ArrayLike, image_size: tuple[int, int], size: tuple[int, int]) -> np.ndarray:
    """Where boxes of a letterbox lie in its image: Darknet's ``correct_region_boxes``, in pixels.

    Parameters
    ----------
    boxes : array_like or NDArray
        (..., 4 or more): left, top, right, bottom in pixels of the letterbox, as ``net.detect`` returns them; further
        columns are kept. Rows of -1 stay.
    image_size, size : tuple of int
        (width, height) of the image and of the letterbox.

    Returns
    -------
    numpy.ndarray
        float32, shape of `boxes`: pixels of the image. A box may reach beyond it.

    Raises
    ------
    OpError
        ``boxes`` has not four columns, or the image does not fit.
    """
    scale, offset = _placement(image_size, size)
    return _moved("data.unletterbox_boxes", boxes, lambda corners: (corners - offset) / scale)


class Resize:
    """:func:`gluonops.data.resize` as a transform, for ``dataset.transform_first``.

    Parameters
    ----------
    width, height : int
    """

    _fit = staticmethod(resize)

    def __init__(self, width: int, height: int):
        self._size = _checked(f"data.{type(self).__name__}", width, height)

    def __call__(self, image):
        return self._fit(image, *self._size)


class Letterbox(Resize):
    """:func:`gluonops.data.letterbox` as a transform, for ``dataset.transform_first``.

    Parameters
    ----------
    width, height : int
    """

    _fit = staticmethod(letterbox)


def _resized(pixels, width, height):
    """(H, W, C) to (C, height, width)."""
    rows, columns, _ = pixels.shape
    left, weight = _steps(columns, width)
    right = np.minimum(left + 1, columns - 1)
    weight = weight[None, :, None]
    part = (1 - weight) * pixels[:, left] + weight * pixels[:, right]
    part[:, -1] = pixels[:, -1]
    top, weight = _steps(rows, height)
    below = np.minimum(top + 1, rows - 1)
    weight = weight[:, None, None]
    # Darknet adds nothing to the last row, which is right if that falls on the image's last row. If rounding puts it a
    # little above, the weight of the row before is almost 0, and so is the result. We do the same, because nets were
    # trained on it.
    first, second = (1 - weight) * part[top], weight * part[below]
    second[-1] = 0
    return np.ascontiguousarray((first + second).transpose(2, 0, 1))


def _steps(old, new):
    """The old pixel at or before every new pixel, and the weight of the next old pixel."""
    if new == 1 or old == 1:
        return np.zeros(new, int), np.zeros(new, "float32")
    at = np.arange(new, dtype="float32") * (np.float32(old - 1) / np.float32(new - 1))
    before = at.astype(int)
    return before, at - before.astype("float32")


def _inner(where, old, new):
    """(width, height) of the image inside its letterbox."""
    (width, height), (field_width, field_height) = old, new
    if np.float32(field_width) / np.float32(width) < np.float32(field_height) / np.float32(height):
        inner = field_width, height * field_width // width
    else:
        inner = width * field_height // height, field_height
    if min(inner) < 1:
        raise OpError(where, f"an image of {width} x {height} would be reduced to {inner[0]} x {inner[1]} in "
                      f"{field_width} x {field_height}; expected at least one pixel each way",
                      "Crop the image, or choose a larger size")
    return inner


def _placement(image_size, size):
    """(scale, offset) of corners, from the image into its letterbox."""
    image_size, size = (_checked("data.letterbox", *pair) for pair in (image_size, size))
    inner = np.array(_inner("data.letterbox", image_size, size), "float64")
    # The margin may have half a pixel: Darknet rounds it for the image, but not for the boxes.
    return np.tile(inner / image_size, 2), np.tile((size - inner) / 2, 2)


def _moved(where, boxes, move):
    boxes = as_numpy(boxes)
    if boxes.ndim < 1 or boxes.shape[-1] < 4:
        raise OpError(where, f"boxes has shape {boxes.shape}; expected (..., 4 or more)",
                      "Pass the corners of the boxes in pixels, in the last axis")
    moved = boxes.astype("float32")
    is_padding = (moved[..., :4] == -1).all(-1, keepdims=True)
    moved[..., :4] = np.where(is_padding, moved[..., :4], move(moved[..., :4].astype("float64")))
    return moved


def _checked(where, width, height):
    sides = (("width", width), ("height", height))
    return tuple(Attr(name, Int(1), None).parse(where, side) for name, side in sides)


def _pixels(where, image):
    pixels = as_numpy(image)
    if pixels.ndim != 3 or 0 in pixels.shape:
        raise OpError(where, f"image has shape {pixels.shape}; expected (height, width, channels)",
                      "Convert grey images with np.stack([image] * 3, -1)")
    if pixels.dtype == np.uint8:
        return pixels.astype("float32") / np.float32(255)
    if pixels.dtype.kind != "f":
        raise OpError(where, f"image is {pixels.dtype}; expected uint8, 0 to 255, or floats, 0 to 1",
                      "Convert it with astype")
    return pixels.astype("float32")


def _like(image, pixels):
    return mx.nd.array(pixels, ctx=image.context) if isinstance(image, mx.nd.NDArray) else pixels
