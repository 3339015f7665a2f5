"""Attributes of the operators on class labels."""
from ...core.contract import Attr, Indices, Int, Numbers, Optional

IGNORE = Attr("ignore_label", Optional(Int()), None)
CLASS_WEIGHT = Attr("class_weight", Optional(Numbers(0)), None)
CLASS_LABELS = Indices("classes", ignore="ignore_label")
