"""Draws what a net has found into pictures. Needs Pillow."""
from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...core.optional import require
from .results import Detection

if TYPE_CHECKING:   # Pillow is optional
    from PIL.Image import Image

__all__ = ["colour", "draw_boxes", "draw_caption"]

WHERE = "export.draw"
SMALLEST_TEXT = 12     # pixels
SMALLEST_WIDTH = 224   # a picture with a caption is enlarged to it


def draw_boxes(pixels: np.ndarray, detections: Sequence[Detection]) -> Image:
    """A picture with boxes and their names. The box with the highest score is on top.

    - ``pixels``: uint8 (H, W, 3) in RGB, or (H, W, 1) in grey.
    - ``detections``: sorted by score.

    The result is RGB, of the same size.
    """
    picture = _picture(pixels)
    pen = require("PIL.ImageDraw", WHERE).Draw(picture)
    line_width = max(2, min(picture.size) // 200)
    font = _font(max(SMALLEST_TEXT, min(picture.size) // 40))
    for found in reversed(detections):
        ink = colour(found.class_id)
        pen.rectangle(found.box, outline=ink, width=line_width)
        _draw_label(pen, picture.size, f"{found.name}: {found.score:.2f}", found.box, ink, font)
    return picture


def _draw_label(pen, size, text, box, ink, font):
    """Text on a coloured field: above the box, or inside if there is no room, and within the picture."""
    left, top, right, bottom = pen.textbbox((0, 0), text, font=font)
    width, height = right - left + 4, bottom - top + 4
    x = min(max(box[0], 0), max(size[0] - width, 0))
    y = box[1] - height if box[1] >= height else box[1]
    pen.rectangle([x, y, x + width, y + height], fill=ink)
    red, green, blue = ink
    is_dark = 0.299 * red + 0.587 * green + 0.114 * blue < 128
    pen.text((x + 2 - left, y + 2 - top), text, fill="white" if is_dark else "black", font=font)


def draw_caption(pixels: np.ndarray, lines: Sequence[str]) -> Image:
    """A picture with lines of text on white below it. A small picture is enlarged.

    ``pixels``: uint8 (H, W, 3) in RGB, or (H, W, 1) in grey. The result is RGB.
    """
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
    """(red, green, blue) from 0 to 255 for a class id. Steps of the golden ratio make the hues of neighbours differ."""
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
