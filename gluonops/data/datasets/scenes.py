"""Scenes with digits to detect, composed from scikit-learn's digits when they are read: nothing is downloaded.

A scene has a background (flat, a gradient, stripes or blotches), clutter (lines, and fragments of digits that are no
objects), one to four digits of varied size, slant, width and colour, lighter than the background, some of which
overlap, thin lines across, and noise. Scenes to train on are made of the digits that
:func:`gluonops.data.digits` has for training alone, those of ``val`` of the held-out ones, fragments included.
"""
from __future__ import annotations

import numpy as np

from ...core.attributes import Attr, Choice, Int
from ..base import COLUMNS, SPLITS, Detection
from .digits import digits

__all__ = ["DigitScenes"]

COUNT = {"train": 2000, "val": 200}
SIDE = (0.75, 1.0)       # of a scene's shorter side, as a share of the longer
DIGIT = (0.32, 0.56)      # height of a digit, as a share of ``size``
COVERED = 0.15           # largest share of the smaller of two boxes that the other may cover
DARK = 0.6               # largest value of a background's colours
CONTRAST = 0.35          # least difference of luma between a digit and its background
TRIES = 30               # places tried for a digit before it is left out
LUMA = np.array([0.299, 0.587, 0.114], "float32")


class DigitScenes(Detection):
    """Digits to detect; see this module, and :class:`gluonops.data.Detection` for the items.

    A scene depends on ``seed``, ``split`` and ``index`` only, not on the thread or the order of reads.

    Parameters
    ----------
    split : {"train", "val"}
    size : int, default 160
        Longer side of a scene in pixels; the other is 0.75 to 1 of it.
    count : int, optional
        Number of scenes; 2000 to train on, 200 held out.
    objects : int, default 4
        Largest number of digits in a scene; the smallest is 1.
    seed : int, default 0
        Seed of the scenes; the split of the digits does not depend on it.

    Raises
    ------
    OpError
        An argument is out of range, or scikit-learn is not installed.
    """

    def __init__(self, split: str = "train", size: int = 160, count: int | None = None, objects: int = 4,
                 seed: int = 0):
        where = "data.scenes"
        split = Attr("split", Choice(*SPLITS), "train", "split").parse(where, split)
        self._size = Attr("size", Int(48), 160, "longer side").parse(where, size)
        self._count = Attr("count", Int(1), 1, "scenes").parse(where, COUNT[split] if count is None else count)
        self._objects = Attr("objects", Int(1), 4, "most digits").parse(where, objects)
        self._key = [Attr("seed", Int(0), 0, "seed").parse(where, seed), SPLITS.index(split)]
        super().__init__(where, [str(digit) for digit in range(10)])
        self._digits, self._numbers = digits(size=8)[SPLITS.index(split)]

    def __len__(self):
        return self._count

    def __getitem__(self, index):
        shape, placed = self._layout(index)
        return self._paint(index, shape, placed), _label(placed)

    def label(self, index: int) -> np.ndarray:
        """Only the boxes, float32 (digits, 6); nothing is painted."""
        return _label(self._layout(index)[1])

    def image(self, index: int) -> np.ndarray:
        """Only the image, uint8 (height, width, 3)."""
        return self._paint(index, *self._layout(index))

    def size(self, index: int) -> tuple[int, int]:
        """(width, height) of the scene."""
        return self._layout(index)[0][::-1]

    def name(self, index: int) -> str:
        """The name of the scene in errors."""
        return f"scene {index}"

    def _rng(self, index, stage):
        if not 0 <= index < len(self):
            raise IndexError(f"scene {index} of {len(self)}")
        return np.random.RandomState([*self._key, int(index), stage])

    def _layout(self, index):
        """The scene's (height, width), and its digits as (class, left, top, mask)."""
        rng = self._rng(index, 0)
        sides = [self._size, int(self._size * rng.uniform(*SIDE))]
        height, width = sides if rng.rand() < 0.5 else sides[::-1]
        placed = []
        for _ in range(rng.randint(1, self._objects + 1)):
            index_of_digit = rng.randint(len(self._digits))
            mask = _render(rng, self._digits[index_of_digit, 0], self._size * rng.uniform(*DIGIT))
            rows, columns = mask.shape
            for _ in range(TRIES):
                left, top = rng.randint(0, width - columns + 1), rng.randint(0, height - rows + 1)
                if all(_covered(left, top, mask, other) <= COVERED for other in placed):
                    placed.append((self._numbers[index_of_digit], left, top, mask))
                    break
        return (height, width), placed

    def _paint(self, index, shape, placed):
        rng = self._rng(index, 1)
        image = _background(rng, *shape)
        for _ in range(rng.randint(0, 5)):
            _draw_line(rng, image, rng.uniform(0.4, 1))
        for _ in range(rng.randint(2, 7)):
            self._draw_fragment(rng, image)
        for _, left, top, mask in placed:
            _blend(image, left, top, mask, _ink(rng, image, left, top, mask))
        for _ in range(rng.randint(0, 3)):
            _draw_line(rng, image, rng.uniform(0.2, 0.6))
        image += (rng.randint(-64, 64, image.shape, "int8") * rng.uniform(0, 0.0014)).astype("float32")
        return (np.clip(image, 0, 1) * 255 + 0.5).astype("uint8")

    def _draw_fragment(self, rng, image):
        """A quarter of a digit, smaller than any object."""
        row, column = rng.randint(0, 5, 2)
        part = self._digits[rng.randint(len(self._digits)), 0, row:row + 4, column:column + 4]
        mask = _render(rng, part, self._size * rng.uniform(0.05, DIGIT[0] / 2))
        if mask is not None:
            top, left = (rng.randint(0, all_ - part) for all_, part in zip(image.shape, mask.shape))
            _blend(image, left, top, mask * rng.uniform(0.5, 1), rng.rand(3))


def _label(placed):
    boxes = [(left, top, left + mask.shape[1], top + mask.shape[0], number, 0) for number, left, top, mask in placed]
    return np.array(boxes, "float32").reshape(-1, COLUMNS)


def _covered(left, top, mask, other):
    """The intersection of two boxes as a fraction of the smaller one."""
    _, other_left, other_top, other_mask = other
    rows, columns = mask.shape
    other_rows, other_columns = other_mask.shape
    width = min(left + columns, other_left + other_columns) - max(left, other_left)
    height = min(top + rows, other_top + other_rows) - max(top, other_top)
    return max(width, 0) * max(height, 0) / min(mask.size, other_mask.size)


def _render(rng, glyph, height):
    """The opacity of a glyph that is scaled to ``height`` pixels, rotated, slanted and stretched at random.

    The result is float32, cropped to the visible part. It is None if nothing is visible.
    """
    angle, slant, stretch = rng.uniform(-0.12, 0.12), rng.uniform(-0.12, 0.12), rng.uniform(0.8, 1.2)
    rows = len(glyph)
    side = int(np.ceil(height * 1.7))

    # The position in the glyph of each pixel of the result. The glyph has a border of zeros.
    y, x = (np.mgrid[:side, :side] - (side - 1) / 2) * (rows / height)
    x, y = (x * np.cos(angle) + y * np.sin(angle)) / stretch, y * np.cos(angle) - x * np.sin(angle)
    middle = rows / 2 + 0.5
    x, y = (np.clip(value + middle, 0, rows + 0.999) for value in (x + slant * y, y))
    ink = _sample(np.pad(glyph, 1), x, y)

    # A smooth step makes the edges of the strokes sharper.
    step = np.clip((ink - 0.35) / 0.3, 0, 1)
    mask = (step * step * (3 - 2 * step)).astype("float32")
    visible = mask > 0.5
    if not visible.any():
        return None
    columns, lines = np.flatnonzero(visible.any(0)), np.flatnonzero(visible.any(1))
    return mask[lines[0]:lines[-1] + 1, columns[0]:columns[-1] + 1]


def _sample(image, x, y):
    """Bilinear interpolation of a square image at the positions (x, y)."""
    last = len(image) - 1
    column, row = x.astype(int), y.astype(int)
    right, below = np.minimum(column + 1, last), np.minimum(row + 1, last)
    x, y = x - column, y - row
    upper = image[row, column] * (1 - x) + image[row, right] * x
    lower = image[below, column] * (1 - x) + image[below, right] * x
    return upper * (1 - y) + lower * y


def _background(rng, height, width):
    kind = rng.randint(4)
    first = rng.uniform(0, DARK, 3)
    second = np.clip(first + rng.uniform(-DARK / 3, DARK / 3, 3), 0, DARK)
    y, x = np.mgrid[:height, :width].astype("float32") / max(height, width)
    angle = rng.uniform(0, 2 * np.pi)
    along = x * np.cos(angle) + y * np.sin(angle)
    if kind == 0:     # one colour
        weight = np.zeros_like(x)
    elif kind == 1:   # a gradient
        weight = (along - along.min()) / np.ptp(along)
    elif kind == 2:   # stripes
        weight = np.sin(along * rng.uniform(15, 60)) / 2 + 0.5
    else:             # blotches
        frequencies, phases = rng.uniform(-12, 12, (4, 2)), rng.uniform(0, 2 * np.pi, 4)
        waves = (np.sin(x * a + y * b + phase) for (a, b), phase in zip(frequencies, phases))
        weight = sum(waves) / 8 + 0.5
    return (first + weight[..., None] * (second - first)).astype("float32")


def _draw_line(rng, image, opacity):
    """Draw a random line into the image."""
    ends = rng.randint(0, image.shape[1::-1], (2, 2)).astype("float32")
    thickness = rng.uniform(0.8, 1.6)
    left, top = np.maximum(ends.min(0) - 2, 0).astype(int)
    right, bottom = ends.max(0).astype(int) + 3
    rows, columns = image[top:bottom, left:right].shape[:2]

    # The distance of each pixel from the line, relative to its first end.
    x = np.arange(columns) + left - ends[0, 0]
    y = np.arange(rows, dtype="float32")[:, None] + top - ends[0, 1]
    direction = ends[1] - ends[0]
    position = np.clip((x * direction[0] + y * direction[1]) / max(direction @ direction, 1), 0, 1)
    distance = np.hypot(x - position * direction[0], y - position * direction[1])

    mask = np.clip(thickness - distance, 0, 1).astype("float32") * np.float32(opacity)
    _blend(image, left, top, mask, rng.rand(3))


def _ink(rng, image, left, top, mask):
    """A colour lighter than the background of the digit."""
    behind = image[top:top + mask.shape[0], left:left + mask.shape[1]] @ LUMA
    min_luma = np.percentile(behind, 90) + CONTRAST
    for _ in range(TRIES):
        colour = rng.rand(3)
        if colour @ LUMA > min_luma:
            return colour
    return np.ones(3)


def _blend(image, left, top, mask, colour):
    """Paint a colour into the image, with the opacity ``mask``."""
    part = image[top:top + mask.shape[0], left:left + mask.shape[1]]
    part += mask[..., None] * (np.float32(colour) - part)
