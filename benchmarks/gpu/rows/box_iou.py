"""box_iou: every box of one set with every box of another."""
from ..cases import Row

TYPICAL = [Row((2, 19, 4), more={"rhs": (2, 37, 4)})]
SMALL = [Row((3, 4), more={"rhs": (5, 4)})]
VARIANTS = [Row((2, 9, 4), {"format": "center"}, {"rhs": (2, 7, 4)})]
LARGE = [Row((32, 8732, 4), more={"rhs": (32, 50, 4)})]
