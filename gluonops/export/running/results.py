"""What a net finds in an image."""
from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Detection", "Prediction"]


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
        """``name``, ``class``, ``score`` and ``box``, rounded, for JSON."""
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
        """``name``, ``class`` and ``score``, rounded, for JSON."""
        return {"name": self.name, "class": self.class_id, "score": round(self.score, 6)}
