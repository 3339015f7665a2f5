"""Attributes of the operators on class labels."""
from __future__ import annotations

from ...core.contract import Attr, Indices, Int, Numbers, Optional

IGNORE = Attr("ignore_label", Optional(Int()), None, "label of the ignored rows; None ignores no row")
CLASS_WEIGHT = Attr("class_weight", Optional(Numbers(0)), None, "a weight for each class, or one for all; None: 1")
CLASS_LABELS = Indices("classes", ignore="ignore_label")
