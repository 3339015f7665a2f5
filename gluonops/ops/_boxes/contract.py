"""Attributes of the operators on boxes."""
from __future__ import annotations

from ...core.contract import Attr, Choice

FORMATS = ("corner", "center")
KINDS = ("iou", "giou", "diou", "ciou")

FORMAT = Attr("format", Choice(*FORMATS), "corner")
