"""Attributes of the operators on boxes."""
from ...contract.op import Attr, Choice

FORMATS = ("corner", "center")
KINDS = ("iou", "giou", "diou", "ciou")

FORMAT = Attr("format", Choice(*FORMATS), "corner", "What the four numbers of a box are: (xmin, ymin, xmax, ymax), or "
              "(centre x, centre y, width, height).")
