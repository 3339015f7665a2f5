"""Attributes and kernel arguments of the operators on class labels."""
from __future__ import annotations

from ...core.contract import Attr, Indices, Int, Optional

IGNORE = Attr("ignore_label", Optional(Int()), None, "label of the ignored rows; None ignores no row")
CLASS_LABELS = Indices("classes", ignore="ignore_label")


def ignore_scalars(attrs) -> dict:
    """The kernel arguments for ``ignore_label``: a flag, and the label (0 without one)."""
    return {"ignores": int(attrs.ignore_label is not None), "ignore_label": attrs.ignore_label or 0}
