"""Scenes with coloured shapes, for detection. They are painted when they are read, and need no files.

Backgrounds, colours, clutter and noise are those of hard digit scenes: see :mod:`gluonops.data.datasets.scenes`.
A shape has any angle, and one colour. Its clutter are short lines and spots, smaller than any shape.

The outline of a shape is a function of the angle: the distance of the edge from the centre. So every shape without
hidden corners is one line of arithmetic, :data:`OUTLINES`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...core.errors import OpError
from .scenes import Scenes, Style, _blend, cropped

Outline = Callable[[np.ndarray], np.ndarray]   # angles to distances of the edge, of which the largest is about 1
STYLE = Style(heights=(0.18, 0.45), brightest=1.0, darker_objects=True)
SPOT = (0.02, 0.06)       # range of the radius of a spot, as a fraction of the scene's size
STRETCH = (0.85, 1.15)    # range of a shape's width relative to its height


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
                          "Pass such names")
        super().__init__(where, classes, split, size, count, objects, seed, STYLE)

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
