"""Scenes with digits to detect, composed from scikit-learn's digits when they are read: nothing is downloaded.

A scene has a background (flat, a gradient, stripes or blotches), clutter (lines, and fragments of digits that are no
objects), one to four digits of varied size, slant, width and colour, lighter than the background, some of which
overlap, thin lines across, and noise. In hard scenes digits are smaller, the background has any brightness, and digits
are lighter or darker than it. Scenes to train on are made of the digits that
:func:`gluonops.data.digits` has for training alone, those of ``val`` of the held-out ones, fragments included.
"""
from __future__ import annotations

import collections

import numpy as np

from ...core.attributes import Attr, Bool, Choice, Int
from ..base import COLUMNS, SPLITS, Detection
from .digits import digits

__all__ = ["DigitScenes"]

COUNT = {"train": 2000, "val": 200}
SIDE = (0.75, 1.0)       # of a scene's shorter side, as a share of the longer
COVERED = 0.15           # largest share of the smaller of two boxes that the other may cover
CONTRAST = 0.35          # least difference of luma between a digit and its background
TRIES = 30               # places tried for a digit before it is left out
# heights: of digits, as shares of ``size``. brightest: largest value of a background's colours.
# darker_digits: whether digits may be darker than their background.
Style = collections.namedtuple("Style", "heights brightest darker_digits")
STYLES = {False: Style((0.32, 0.56), 0.6, False), True: Style((0.24, 0.5), 1.0, True)}   # by ``hard``
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
    hard : bool, default False
        Digits of 0.24 to 0.5 of ``size``, instead of 0.32 to 0.56; backgrounds of any brightness, and digits lighter or
        darker than them, instead of light digits on dark backgrounds.

    Raises
    ------
    OpError
        An argument is out of range, or scikit-learn is not installed.
    """

    def __init__(self, split: str = "train", size: int = 160, count: int | None = None, objects: int = 4,
                 seed: int = 0, hard: bool = False):
        where = "data.scenes"
        split = Attr("split", Choice(*SPLITS), "train", "split").parse(where, split)
        self._size = Attr("size", Int(48), 160, "longer side").parse(where, size)
        self._count = Attr("count", Int(1), 1, "scenes").parse(where, COUNT[split] if count is None else count)
        self._objects = Attr("objects", Int(1), 4, "most digits").parse(where, objects)
        self._style = STYLES[Attr("hard", Bool(), False, "hard scenes").parse(where, hard)]
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
        margins = (self._size - int(self._size * rng.uniform(*SIDE))) // 2   # of the scene in a square: whole pixels
        sides = [self._size, self._size - 2 * margins]
        height, width = sides if rng.rand() < 0.5 else sides[::-1]
        placed = []
        for _ in range(rng.randint(1, self._objects + 1)):
            index_of_digit = rng.randint(len(self._digits))
            mask = _render(rng, self._digits[index_of_digit, 0], self._size * rng.uniform(*self._style.heights))
            rows, columns = mask.shape
            for _ in range(TRIES):
                left, top = rng.randint(0, width - columns + 1), rng.randint(0, height - rows + 1)
                if all(_covered(left, top, mask, other) <= COVERED for other in placed):
                    placed.append((self._numbers[index_of_digit], left, top, mask))
                    break
        return (height, width), placed

    def _paint(self, index, shape, placed):
        rng = self._rng(index, 1)
        image = _background(rng, *shape, self._style.brightest)
        for _ in range(rng.randint(0, 5)):
            _draw_line(rng, image, rng.uniform(0.4, 1))
        for _ in range(rng.randint(2, 7)):
            self._draw_fragment(rng, image)
        for _, left, top, mask in placed:
            _blend(image, left, top, mask, self._ink(rng, image, left, top, mask))
        for _ in range(rng.randint(0, 3)):
            _draw_line(rng, image, rng.uniform(0.2, 0.6))
        image += (rng.randint(-64, 64, image.shape, "int8") * rng.uniform(0, 0.0014)).astype("float32")
        return (np.clip(image, 0, 1) * 255 + 0.5).astype("uint8")

    def _draw_fragment(self, rng, image):
        """A quarter of a digit, smaller than any object."""
        row, column = rng.randint(0, 5, 2)
        part = self._digits[rng.randint(len(self._digits)), 0, row:row + 4, column:column + 4]
        mask = _render(rng, part, self._size * rng.uniform(0.05, self._style.heights[0] / 2))
        if mask is not None:
            top, left = (rng.randint(0, all_ - part) for all_, part in zip(image.shape, mask.shape))
            _blend(image, left, top, mask * rng.uniform(0.5, 1), rng.rand(3))


    def _ink(self, rng, image, left, top, mask):
        """A colour that stands out from the background of the digit."""
        behind = image[top:top + mask.shape[0], left:left + mask.shape[1]] @ LUMA
        darkest, lightest = np.percentile(behind, (10, 90))
        for _ in range(TRIES):
            colour = rng.rand(3)
            luma = colour @ LUMA
            if luma > lightest + CONTRAST or self._style.darker_digits and luma < darkest - CONTRAST:
                return colour
        return np.zeros(3) if self._style.darker_digits and darkest + lightest > 1 else np.ones(3)


def _label(placed):
    boxes = [(left, top, left + mask.shape[1], top + mask.shape[0], number, 0) for number, left, top, mask in placed]
    return np.array(boxes, "float32").reshape(-1, COLUMNS)


def _covered(left, top, mask, other):
    """The intersection of two boxes as a share of the smaller one."""
    _, its_left, its_top, its_mask = other
    (rows, columns), (its_rows, its_columns) = mask.shape, its_mask.shape
    across = min(left + columns, its_left + its_columns) - max(left, its_left)
    down = min(top + rows, its_top + its_rows) - max(top, its_top)
    return max(across, 0) * max(down, 0) / min(mask.size, its_mask.size)


def _render(rng, glyph, height):
    """A glyph enlarged to ``height`` pixels, turned, slanted and stretched: opacity, cut to its ink; None without."""
    turn, slant, stretch = rng.uniform(-0.12, 0.12), rng.uniform(-0.12, 0.12), rng.uniform(0.8, 1.2)
    rows = len(glyph)
    side = int(np.ceil(height * 1.7))
    y, x = (np.mgrid[:side, :side] - (side - 1) / 2) * (rows / height)
    x, y = (x * np.cos(turn) + y * np.sin(turn)) / stretch, y * np.cos(turn) - x * np.sin(turn)
    middle = rows / 2 + 0.5   # of the glyph within its border of zeros
    x, y = (np.clip(value + middle, 0, rows + 0.999) for value in (x + slant * y, y))
    padded = np.pad(glyph, 1)
    column, row = x.astype(int), y.astype(int)
    x, y = x - column, y - row
    right, below = np.minimum(column + 1, rows + 1), np.minimum(row + 1, rows + 1)
    ink = ((padded[row, column] * (1 - x) + padded[row, right] * x) * (1 - y)
           + (padded[below, column] * (1 - x) + padded[below, right] * x) * y)
    step = np.clip((ink - 0.35) / 0.3, 0, 1)
    mask = (step * step * (3 - 2 * step)).astype("float32")   # strokes with edges, in place of a blur
    inside = mask > 0.5
    if not inside.any():
        return None
    across, down = np.flatnonzero(inside.any(0)), np.flatnonzero(inside.any(1))
    return mask[down[0]:down[-1] + 1, across[0]:across[-1] + 1]


def _background(rng, height, width, brightest):
    kind = rng.randint(4)
    first = rng.uniform(0, brightest, 3)
    second = np.clip(first + rng.uniform(-brightest / 3, brightest / 3, 3), 0, brightest)
    y, x = np.mgrid[:height, :width].astype("float32") / max(height, width)
    angle = rng.uniform(0, 2 * np.pi)
    along = x * np.cos(angle) + y * np.sin(angle)
    if kind == 0:
        share = np.zeros_like(x)
    elif kind == 1:
        share = (along - along.min()) / np.ptp(along)
    elif kind == 2:
        share = np.sin(along * rng.uniform(15, 60)) / 2 + 0.5
    else:
        waves = rng.uniform(-12, 12, (4, 2)), rng.uniform(0, 2 * np.pi, 4)
        share = sum(np.sin(x * a + y * b + phase) for (a, b), phase in zip(*waves)) / 8 + 0.5
    return (first + share[..., None] * (second - first)).astype("float32")


def _draw_line(rng, image, opacity):
    ends = rng.randint(0, image.shape[1::-1], (2, 2)).astype("float32")
    thick = rng.uniform(0.8, 1.6)
    left, top = np.maximum(ends.min(0) - 2, 0).astype(int)
    right, bottom = ends.max(0).astype(int) + 3
    rows, columns = image[top:bottom, left:right].shape[:2]
    y, x = np.arange(rows, dtype="float32")[:, None] + top - ends[0, 1], np.arange(columns) + left - ends[0, 0]
    along = ends[1] - ends[0]
    place = np.clip((x * along[0] + y * along[1]) / max(along @ along, 1), 0, 1)
    distance = np.hypot(x - place * along[0], y - place * along[1])
    _blend(image, left, top, np.clip(thick - distance, 0, 1).astype("float32") * np.float32(opacity), rng.rand(3))


def _blend(image, left, top, mask, colour):
    part = image[top:top + mask.shape[0], left:left + mask.shape[1]]
    part += mask[..., None] * (np.float32(colour) - part)
