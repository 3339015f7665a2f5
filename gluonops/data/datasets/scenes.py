"""Scenes with digits or coloured shapes, for detection. They are painted when they are read, and need no files.

A scene consists of

- a background: one colour, a gradient, stripes or blotches,
- clutter: lines, and fragments of digits or spots smaller than any shape, which are not objects,
- one to four objects of different size, slant or angle, width and colour. They may overlap,
- thin lines on top of them, and noise.

Scenes for training use only the training digits of :func:`gluonops.data.digits`. Scenes for validation use only the
held-out digits. The same holds for the fragments.

The outline of a shape is a function of the angle: the distance of the edge from the centre. So every shape without
hidden corners is one line of arithmetic, :data:`OUTLINES`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...contract.attributes import Attr, Bool, Choice, Int, parsed
from ...contract.errors import OpError
from ..base import COLUMNS, SPLITS, DetectionDataset
from .digits import digits

COUNT = {"train": 2000, "val": 200}
SHORT_SIDE = (0.75, 1.0)   # range of the shorter side, as a fraction of the longer side
MAX_OVERLAP = 0.15         # largest fraction of the smaller of two boxes that the other may cover
MIN_CONTRAST = 0.35        # smallest difference of luma between a digit and its background
TRIES = 30                 # positions or colours that are tried for a digit
VISIBLE = 0.5              # opacity above which a box has a pixel
OPTIONS = {"split": Choice(*SPLITS), "size": Int(48), "count": Int(1), "objects": Int(1), "seed": Int(0)}
LUMA = np.array([0.299, 0.587, 0.114], "float32")


class Style(NamedTuple):
    """The difficulty of scenes."""
    heights: tuple[float, float]   # range of the height of an object, as a fraction of ``size``
    brightest: float               # largest value of the background's colours
    darker_objects: bool           # whether objects may be darker than their background


EASY = Style(heights=(0.32, 0.56), brightest=0.6, darker_objects=False)
HARD = Style(heights=(0.24, 0.5), brightest=1.0, darker_objects=True)
OF_SHAPES = Style(heights=(0.18, 0.45), brightest=1.0, darker_objects=True)
SPOT = (0.02, 0.06)       # range of the radius of a spot, as a fraction of the scene's size
STRETCH = (0.85, 1.15)    # range of a shape's width relative to its height
Outline = Callable[[np.ndarray], np.ndarray]   # angles to distances of the edge, of which the largest is about 1


class Scenes(DetectionDataset):
    """Scenes with painted objects.

    A subclass has ``_object(rng)``, which returns a random object: its class id, and its opacity, float32 (height,
    width). Its ``_draw_clutter(rng, image)`` paints something into the image that is not an object.

    ``style`` is their difficulty. The other arguments, and what a scene depends on: see :class:`DigitScenes`.
    """

    def __init__(self, where: str, classes: Sequence[str], split: str, size: int, count: int, objects: int, seed: int,
                 style: Style):
        split, self._size, self._count, self._objects, seed = parsed(where, OPTIONS, split=split, size=size,
                                                                     count=count, objects=objects, seed=seed).values()
        self._style, self._key = style, [seed, SPLITS.index(split)]
        super().__init__(where, classes)

    def __len__(self):
        return self._count

    def __getitem__(self, index):
        shape, placed = self._layout(index)
        return self._paint(index, shape, placed), _label(placed)

    def label(self, index: int) -> np.ndarray:
        """The boxes of a scene, float32 (objects, 6). The scene is not painted."""
        return _label(self._layout(index)[1])

    def image(self, index: int) -> np.ndarray:
        """The image without its label, uint8 (height, width, 3)."""
        return self[index][0]

    def size(self, index: int) -> tuple[int, int]:
        """(width, height) of the scene."""
        return self._shape(self._rng(index, 0))[::-1]

    def name(self, index: int) -> str:
        """The name of the scene in errors."""
        return f"scene {index}"

    def _rng(self, index, stage):
        """The random numbers of a scene's layout (stage 0) or painting (stage 1)."""
        if not 0 <= index < len(self):
            raise IndexError(f"scene {index} of {len(self)}")
        return np.random.RandomState([*self._key, int(index), stage])

    def _shape(self, rng):
        """(height, width) of a scene: what its layout draws first."""
        # Both margins of the scene in a square canvas are whole pixels.
        margin = (self._size - int(self._size * rng.uniform(*SHORT_SIDE))) // 2
        sides = self._size, self._size - 2 * margin
        return sides if rng.rand() < 0.5 else sides[::-1]

    def _layout(self, index):
        """The scene's (height, width), and its objects as (class id, left, top, mask)."""
        rng = self._rng(index, 0)
        height, width = self._shape(rng)
        placed = []
        for _ in range(rng.randint(1, self._objects + 1)):
            class_id, mask = self._object(rng)
            position = _free_position(rng, height, width, mask, placed)
            if position is not None:
                placed.append((class_id, *position, mask))
        return (height, width), placed

    def _paint(self, index, shape, placed):
        rng = self._rng(index, 1)
        image = _background(rng, *shape, self._style.brightest)
        for _ in range(rng.randint(0, 5)):
            _draw_line(rng, image, rng.uniform(0.4, 1))
        for _ in range(rng.randint(2, 7)):
            self._draw_clutter(rng, image)
        for _, left, top, mask in placed:
            _blend(image, left, top, mask, self._ink(rng, image, left, top, mask))
        for _ in range(rng.randint(0, 3)):
            _draw_line(rng, image, rng.uniform(0.2, 0.6))
        image += (rng.randint(-64, 64, image.shape, "int8") * rng.uniform(0, 0.0014)).astype("float32")
        return (np.clip(image, 0, 1) * 255 + 0.5).astype("uint8")

    def _ink(self, rng, image, left, top, mask):
        """A random colour with enough contrast to the background of the object."""
        background = image[top:top + mask.shape[0], left:left + mask.shape[1]] @ LUMA
        darkest, lightest = np.percentile(background, (10, 90))
        for _ in range(TRIES):
            colour = rng.rand(3)
            luma = colour @ LUMA
            is_lighter = luma > lightest + MIN_CONTRAST
            is_darker = luma < darkest - MIN_CONTRAST
            if is_lighter or (self._style.darker_objects and is_darker):
                return colour
        is_light_background = darkest + lightest > 1
        return np.zeros(3) if self._style.darker_objects and is_light_background else np.ones(3)


class DigitScenes(Scenes):
    """Scenes with digits. The module describes the scenes, and :class:`gluonops.data.DetectionDataset` the items.

    A scene depends only on the arguments and its index. It does not depend on the thread or on the order of reads.

    Parameters
    ----------
    split : {"train", "val"}
    size : int, default 160
        Longer side of a scene in pixels, at least 48. The shorter side is about 0.75 to 1 times as long.
    count : int, optional
        Number of scenes. The default is 2000 for training and 200 for validation.
    objects : int, default 4
        Largest number of digits in a scene, at least 1. The smallest number is 1.
    seed : int, default 0
        Seed of the scenes, at least 0. The split of the digits does not depend on it.
    hard : bool, default False
        False: digits have heights of 0.32 to 0.56 times ``size``, and are lighter than the dark background. True: their
        heights are 0.24 to 0.5 times ``size``, the background has any brightness, and digits are lighter or darker.
    """

    def __init__(self, split: str = "train", size: int = 160, count: int | None = None, objects: int = 4,
                 seed: int = 0, hard: bool = False):
        where = "data.scenes"
        split = Attr("split", Choice(*SPLITS), "train").parse(where, split)
        style = HARD if Attr("hard", Bool(), False).parse(where, hard) else EASY
        classes = [str(digit) for digit in range(10)]
        super().__init__(where, classes, split, size, COUNT[split] if count is None else count, objects, seed, style)
        self._digits, self._numbers = digits(size=8)[SPLITS.index(split)]

    def _object(self, rng):
        digit = rng.randint(len(self._digits))
        mask = _render(rng, self._digits[digit, 0], self._size * rng.uniform(*self._style.heights))
        return self._numbers[digit], mask

    def _draw_clutter(self, rng, image):
        """A quarter of a digit, smaller than any object."""
        row, column = rng.randint(0, 5, 2)
        part = self._digits[rng.randint(len(self._digits)), 0, row:row + 4, column:column + 4]
        mask = _render(rng, part, self._size * rng.uniform(0.05, self._style.heights[0] / 2))
        if mask is not None:
            top = rng.randint(0, image.shape[0] - mask.shape[0])
            left = rng.randint(0, image.shape[1] - mask.shape[1])
            _blend(image, left, top, mask * rng.uniform(0.5, 1), rng.rand(3))


def _free_position(rng, height, width, mask, placed):
    """A random (left, top) where a digit overlaps no other digit too much; None if none is found."""
    rows, columns = mask.shape
    for _ in range(TRIES):
        left = rng.randint(0, width - columns + 1)
        top = rng.randint(0, height - rows + 1)
        if all(_overlap(left, top, mask, other) <= MAX_OVERLAP for other in placed):
            return left, top
    return None


def _label(placed):
    """The label of a scene, float32 (digits, 6)."""
    boxes = [(left, top, left + mask.shape[1], top + mask.shape[0], class_id, 0)
             for class_id, left, top, mask in placed]
    return np.array(boxes, "float32").reshape(-1, COLUMNS)


def _overlap(left, top, mask, other):
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
    return cropped(mask) if mask.max() > VISIBLE else None


def cropped(mask: np.ndarray) -> np.ndarray:
    """The part of an opacity that is visible; some of it has to be."""
    visible = mask > VISIBLE
    rows, columns = np.flatnonzero(visible.any(1)), np.flatnonzero(visible.any(0))
    return mask[rows[0]:rows[-1] + 1, columns[0]:columns[-1] + 1]


def _sample(image, x, y):
    """Bilinear interpolation of a square image at the positions (x, y)."""
    side = len(image)
    last = side - 1
    column, row = x.astype(int), y.astype(int)
    right, below = np.minimum(column + 1, last), np.minimum(row + 1, last)
    x, y = x - column, y - row
    row *= side
    below *= side
    pixel = image.ravel().take   # much faster than an index of two arrays
    upper = pixel(row + column) * (1 - x) + pixel(row + right) * x
    lower = pixel(below + column) * (1 - x) + pixel(below + right) * x
    return upper * (1 - y) + lower * y


def _background(rng, height, width, brightest):
    """A background in two colours, float32 (height, width, 3)."""
    kind = rng.randint(4)
    first = rng.uniform(0, brightest, 3)
    second = np.clip(first + rng.uniform(-brightest / 3, brightest / 3, 3), 0, brightest)
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


def _blend(image, left, top, mask, colour):
    """Paint a colour into the image, with the opacity ``mask``."""
    part = image[top:top + mask.shape[0], left:left + mask.shape[1]]
    part += mask[..., None] * (np.float32(colour) - part)


def regular_polygon(corners: int) -> Outline:
    """The outline of a regular polygon with a circumscribed circle of radius 1."""
    def radius(angle):
        within = np.mod(angle, 2 * np.pi / corners) - np.pi / corners
        return np.cos(np.pi / corners) / np.cos(within)

    return radius


def _star(angle):
    """Five points; the inner corners are at 0.45 of the outer ones."""
    share = np.abs(np.mod(angle, 2 * np.pi / 5) / (np.pi / 5) - 1)   # 1 at a point, 0 between two
    inner, width = 0.45, np.pi / 5
    # The straight line from an inner corner, at the angle 0, to a point, at the angle ``width``.
    along = share * width
    return inner * np.sin(width) / (np.sin(width - along) + inner * np.sin(along))


OUTLINES: dict[str, Outline] = {
    "circle": np.ones_like, "square": regular_polygon(4), "triangle": regular_polygon(3), "star": _star}


def paint_outline(outline: Outline, radius: float, angle: float = 0, stretch: float = 1) -> np.ndarray:
    """The opacity of a filled outline, float32 (height, width), cropped to what is visible.

    ``radius``: pixels of the distance 1. ``angle``: rotation in radians. ``stretch``: factor of the width, after it.
    """
    side = int(np.ceil(radius * max(1, stretch))) + 1
    y, x = np.mgrid[-side:side + 1, -side:side + 1].astype("float32")
    x = x / np.float32(stretch)
    distance = np.hypot(x, y)
    edge = outline(np.arctan2(y, x) + angle) * radius
    return cropped(np.clip(edge - distance + 0.5, 0, 1).astype("float32"))   # an edge of one pixel is soft


class ShapeScenes(Scenes):
    """Scenes with coloured shapes. The module describes them, and :class:`gluonops.data.DetectionDataset` the items.

    What a scene depends on, and the other parameters: see :class:`gluonops.data.DigitScenes`.

    Parameters
    ----------
    split : {"train", "val"}, default "train"
        The split. The two have no scene in common.
    classes : sequence of str, optional
        Which shapes: of ``circle``, ``square``, ``triangle`` and ``star``. By default all of them.
    """

    def __init__(self, split: str = "train", size: int = 240, count: int = 60, objects: int = 3, seed: int = 0,
                 classes: Sequence[str] = tuple(OUTLINES)):
        where = "data.ShapeScenes"
        unknown = [name for name in classes if name not in OUTLINES]
        if unknown or not len(classes):
            raise OpError(where, f"classes are {tuple(classes)}; expected some of {', '.join(OUTLINES)}",
                          "Pass names of these outlines")
        super().__init__(where, classes, split, size, count, objects, seed, OF_SHAPES)

    def _object(self, rng):
        class_id = rng.randint(len(self.classes))
        radius = self._size * rng.uniform(*self._style.heights) / 2
        angle, stretch = rng.uniform(0, 2 * np.pi), rng.uniform(*STRETCH)
        return class_id, paint_outline(OUTLINES[self.classes[class_id]], radius, angle, stretch)

    def _draw_clutter(self, rng, image):
        """A spot, smaller than any shape."""
        heights, phases = rng.uniform(-0.3, 0.3, 3), rng.uniform(0, 2 * np.pi, 3)

        def wavy_circle(angle):
            waves = (height * np.cos((k + 2) * angle + phase) for k, (height, phase) in enumerate(zip(heights, phases)))
            return (1 + sum(waves)) / 1.9

        mask = paint_outline(wavy_circle, max(1.5, self._size * rng.uniform(*SPOT)))
        top = rng.randint(0, image.shape[0] - mask.shape[0] + 1)
        left = rng.randint(0, image.shape[1] - mask.shape[1] + 1)
        _blend(image, left, top, mask * rng.uniform(0.5, 1), rng.rand(3))
