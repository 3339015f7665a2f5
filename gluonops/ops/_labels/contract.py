"""Attributes and kernel arguments of the operators on class labels."""
from __future__ import annotations

from ...core.contract import Attr, Indices, Int, Numbers, Optional

IGNORE = Attr("ignore_label", Optional(Int()), None, "label of the ignored rows; None ignores no row")
CLASS_WEIGHT = Attr("class_weight", Optional(Numbers(0)), None, "a weight for each class, or one for all; None: 1")
CLASS_LABELS = Indices("classes", ignore="ignore_label")


def ignore_scalars(attrs) -> dict:
    """The kernel arguments for ``ignore_label``: a flag, and the label (0 without one)."""
    return {"ignores": int(attrs.ignore_label is not None), "ignore_label": attrs.ignore_label or 0}


def expanded(numbers: tuple | None, size: int) -> tuple:
    """A number for each of ``size`` places, from as many or a single one. Without numbers a 1."""
    if numbers is None:
        return (1.0,)
    return numbers * size if len(numbers) == 1 else numbers


def weight_scalars(name: str, numbers: tuple | None, classes: int) -> dict:
    """The kernel arguments for weights of the classes: a flag, and the weights under the attribute's name."""
    return {"weighted": int(numbers is not None), name: expanded(numbers, classes)}
