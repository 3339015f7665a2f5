"""Reads pictures, and draws what a net has found into them. Drawing needs Pillow."""
from __future__ import annotations

import colorsys
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import mxnet as mx
import numpy as np

from ..contract.errors import OpError
from ..data.images import EXTENSIONS, FORMATS, read_image
from ..io.optional import require

if TYPE_CHECKING:   # Pillow is optional
    from PIL.Image import Image

WHERE = "export.draw"
SMALLEST_TEXT = 12     # pixels
SMALLEST_WIDTH = 224   # a picture with a caption is enlarged to it


class Detection(NamedTuple):
    """An object in an image.

    Attributes
    ----------
    name : str
        Name of its class.
    class_id : int
        Place of the class in ``detector.classes``.
    score : float
        Probability, from 0 to 1.
    box : tuple of float
        (left, top, right, bottom) in pixels of the image.
    """

    name: str
    class_id: int
    score: float
    box: tuple[float, float, float, float]

    def __repr__(self) -> str:
        box = ", ".join(f"{side:.1f}" for side in self.box)
        return f"Detection({self.name!r}, {self.score:.3f}, box=({box}))"

    def as_dict(self) -> dict[str, Any]:
        """A dict with ``name``, ``class``, ``score`` and ``box``, rounded, for JSON."""
        return {"name": self.name, "class": self.class_id, "score": round(self.score, 6),
                "box": [round(side, 2) for side in self.box]}


class Prediction(NamedTuple):
    """A class that an image may have.

    Attributes
    ----------
    name : str
        Name of the class.
    class_id : int
        Place of the class in ``classifier.classes``.
    score : float
        Probability, from 0 to 1.
    """

    name: str
    class_id: int
    score: float

    def __repr__(self) -> str:
        return f"Prediction({self.name!r}, {self.score:.3f})"

    def as_dict(self) -> dict[str, Any]:
        """A dict with ``name``, ``class`` and ``score``, rounded, for JSON."""
        return {"name": self.name, "class": self.class_id, "score": round(self.score, 6)}


def read_picture(image: object, where: str) -> np.ndarray:
    """The pixels of an image, uint8 (H, W, 3) or (H, W, 1).

    ``image`` is a file, or pixels: uint8 (H, W, 3) in RGB, (H, W, 1) or (H, W) in grey. A file is read as the data sets
    read it, and turned upright. If its name does not say JPEG, PNG or BMP, it may have any format that Pillow knows. An
    OpError is raised if the file cannot be read, or the pixels have another shape or type.
    """
    if isinstance(image, (str, os.PathLike)):
        path = os.fspath(image)
        return read_image(path, where, formats=FORMATS if path.lower().endswith(EXTENSIONS) else None)
    if hasattr(image, "convert"):   # Pillow's, whatever its mode; it may be decoded only now
        try:
            return np.asarray(image.convert("RGB"))
        except Exception as error:   # a damaged file makes Pillow raise nearly any class
            raise OpError(where, f"Pillow does not decode the image: {error}", "Pass another picture") from error
    pixels = image.asnumpy() if isinstance(image, mx.nd.NDArray) else np.asarray(image)
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3) or 0 in pixels.shape or pixels.dtype != np.uint8:
        raise OpError(where, f"image is {pixels.dtype} of shape {pixels.shape}; expected a file, or uint8 pixels of "
                      "shape (height, width, 3) or (height, width)",
                      "Pass the picture as it was read, without preprocessing")
    return pixels


def draw_boxes(pixels: np.ndarray, detections: Sequence[Detection]) -> Image:
    """Draw detections into a picture, in RGB: boxes and names. They are sorted by score, and the first is on top."""
    picture = _picture(pixels)
    pen = require("PIL.ImageDraw", WHERE).Draw(picture)
    line_width = max(2, min(picture.size) // 200)
    font = _font(max(SMALLEST_TEXT, min(picture.size) // 40))
    for detection in reversed(detections):
        ink = colour(detection.class_id)
        pen.rectangle(detection.box, outline=ink, width=line_width)
        _draw_label(pen, picture.size, f"{detection.name}: {detection.score:.2f}", detection.box, ink, font)
    return picture


def _draw_label(pen, size, text, box, ink, font):
    """Draw a text on a coloured field. It is above the box, or inside if there is no room, and within the picture."""
    left, top, right, bottom = pen.textbbox((0, 0), text, font=font)
    width, height = right - left + 4, bottom - top + 4
    x = min(max(box[0], 0), max(size[0] - width, 0))
    y = box[1] - height if box[1] >= height else box[1]
    pen.rectangle([x, y, x + width, y + height], fill=ink)
    red, green, blue = ink
    is_dark = 0.299 * red + 0.587 * green + 0.114 * blue < 128
    pen.text((x + 2 - left, y + 2 - top), text, fill="white" if is_dark else "black", font=font)


def draw_caption(pixels: np.ndarray, lines: Sequence[str]) -> Image:
    """Draw lines of text on white below a picture, in RGB. A small picture is enlarged."""
    image = require("PIL.Image", WHERE)
    picture = _picture(pixels)
    factor = -(-SMALLEST_WIDTH // picture.width)
    if factor > 1:
        picture = picture.resize((picture.width * factor, picture.height * factor), image.NEAREST)
    text_size = max(SMALLEST_TEXT, picture.width // 28)
    step = round(1.4 * text_size)
    page = image.new("RGB", (picture.width, picture.height + step * len(lines) + text_size), "white")
    page.paste(picture)
    pen = require("PIL.ImageDraw", WHERE).Draw(page)
    for number, line in enumerate(lines):
        pen.text((text_size // 2, picture.height + text_size // 2 + number * step), line, fill=(0, 0, 0),
                 font=_font(text_size))
    return page


def colour(class_id: int) -> tuple[int, ...]:
    """The colour of a class, as (red, green, blue) from 0 to 255. Hues are steps of the golden ratio apart."""
    hue = class_id * 0.618034 % 1
    return tuple(int(255 * part) for part in colorsys.hsv_to_rgb(hue, 0.9, 0.9))


def _picture(pixels):
    return require("PIL.Image", WHERE).fromarray(np.repeat(pixels, 3, 2) if pixels.shape[2] == 1 else pixels.copy())


def _font(size):
    font = require("PIL.ImageFont", WHERE)
    try:
        return font.load_default(size)
    except TypeError:   # Pillow before 10.1 has one size
        return font.load_default()
