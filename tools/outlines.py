"""Outlines for tools/pretrain_backbone.py. An outline maps angles to distances of the edge; the largest is 1.

:data:`NAMED` are outlines to learn from; those of gluonops.data.ShapeScenes are among them. :data:`UNSEEN` are never
learned from: they show whether what was learned is of use for other outlines.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from gluonops.data.datasets.scenes import OUTLINES, regular_polygon

__all__ = ["NAMED", "UNSEEN", "Polygon", "Waves", "random_outline"]


class Polygon:
    """A polygon around the origin. Every corner is visible from there.

    Parameters
    ----------
    corners : array_like
        (corners, 2): x and y, in any order of the angles.
    """

    def __init__(self, corners: npt.ArrayLike):
        corners = np.asarray(corners, "float64")
        corners = corners / np.hypot(*corners.T).max()
        self.starts = np.mod(np.arctan2(corners[:, 1], corners[:, 0]), 2 * np.pi)
        order = np.argsort(self.starts)
        self.starts, self.corners = self.starts[order], corners[order]

    def __call__(self, angle: np.ndarray) -> np.ndarray:
        angle = np.mod(angle, 2 * np.pi)
        side = np.searchsorted(self.starts, angle, side="right") - 1
        first, second = self.corners[side], self.corners[(side + 1) % len(self.corners)]
        edge = second - first
        across = edge[..., 1] * np.cos(angle) - edge[..., 0] * np.sin(angle)
        distance = (edge[..., 1] * first[..., 0] - edge[..., 0] * first[..., 1]) / np.where(across == 0, 1, across)
        return np.clip(distance, 0.05, 1)


class Waves:
    """A circle with waves.

    Parameters
    ----------
    waves : sequence of tuple
        (waves around the circle, height, phase)
    """

    def __init__(self, waves: Sequence[tuple]):
        self.waves, self.largest = waves, 1.0
        self.largest = float(self(np.linspace(0, 2 * np.pi, 720)).max())

    def __call__(self, angle: np.ndarray) -> np.ndarray:
        distance = 1 + sum(height * np.cos(count * angle + phase) for count, height, phase in self.waves)
        return np.maximum(distance, 0.15) / self.largest


def random_outline(seed: int) -> Polygon | Waves:
    """Return a random outline. One in three is a polygon, and the others have waves."""
    rng = np.random.RandomState([7, seed])
    if seed % 3 == 0:
        count = rng.randint(3, 9)
        angles = (np.arange(count) + rng.uniform(-0.3, 0.3, count)) * 2 * np.pi / count
        return Polygon(np.stack([np.cos(angles), np.sin(angles)], 1) * rng.uniform(0.35, 1, (count, 1)))
    return Waves([(count, rng.uniform(0, 0.9 / count), rng.uniform(0, 2 * np.pi)) for count in range(2, 8)])


def _star(points, inner):
    angles = np.arange(2 * points) * np.pi / points
    radii = np.where(np.arange(2 * points) % 2, inner, 1)
    return Polygon(np.stack([radii * np.cos(angles), radii * np.sin(angles)], 1))


def _ellipse(ratio):
    def outline(angle):
        return ratio / np.hypot(ratio * np.cos(angle), np.sin(angle))

    return outline


def _flower(petals):
    return Waves([(petals, 0.35, 0)])


NAMED = {
    **OUTLINES,
    "ellipse": _ellipse(0.5),
    **{f"polygon {count}": regular_polygon(count) for count in (5, 6)},
    **{f"star {count}": _star(count, 0.5) for count in (4, 6, 8)},
    **{f"flower {count}": _flower(count) for count in (3, 4, 6)},
    "rectangle": Polygon([(2, 1), (-2, 1), (-2, -1), (2, -1)]),
    "bar": Polygon([(4, 1), (-4, 1), (-4, -1), (4, -1)]),
    "right triangle": Polygon([(-1, -1), (2, -1), (-1, 2)]),
    "thin triangle": Polygon([(2, 0), (-1, 0.75), (-1, -0.75)]),
    "rhombus": Polygon([(2, 0), (0, 1), (-2, 0), (0, -1)]),
    "parallelogram": Polygon([(2, 1), (-1, 1), (-2, -1), (1, -1)]),
    "house": Polygon([(0, 1.6), (-1, 0.6), (-1, -1), (1, -1), (1, 0.6)]),
    "drop": Waves([(1, 0.6, 0), (2, 0.25, 0)]),
    "letter T": Polygon([(1.2, 1), (-1.2, 1), (-1.2, 0.3), (-0.35, 0.3), (-0.35, -1.4), (0.35, -1.4), (0.35, 0.3),
                         (1.2, 0.3)]),
}

UNSEEN = {
    "heart": Waves([(1, -0.35, np.pi / 2), (2, -0.25, 0), (3, 0.2, np.pi / 2)]),
    "arrow": Polygon([(1.5, 0), (0.2, 1), (0.2, 0.4), (-1.2, 0.4), (-1.2, -0.4), (0.2, -0.4), (0.2, -1)]),
    "cross": Polygon([(3, 1), (1, 1), (1, 3), (-1, 3), (-1, 1), (-3, 1), (-3, -1), (-1, -1), (-1, -3), (1, -3),
                      (1, -1), (3, -1)]),
    "half disc": Polygon([(np.cos(a), np.sin(a) - 0.4) for a in np.linspace(0, np.pi, 24)]),
    "kite": Polygon([(1.6, 0), (0, 1), (-0.7, 0), (0, -1)]),
    "flower 5": _flower(5),
    "fan": Polygon([(-0.9, 0), *((np.cos(a) - 0.3, np.sin(a)) for a in np.linspace(-0.7, 0.7, 12))]),
    "trapezium": Polygon([(2, -1), (1, 1), (-1, 1), (-2, -1)]),
}
