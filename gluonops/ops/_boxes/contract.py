"""Attributes of the operators on boxes."""
from ...core.contract import Attr, Choice

FORMATS = ("corner", "center")
KINDS = ("iou", "giou", "diou", "ciou")

FORMAT = Attr("format", Choice(*FORMATS), "corner")
