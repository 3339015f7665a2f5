"""iou_loss: a number per box."""
from ..cases import Row

TYPICAL = [Row((37, 19, 4))]
SMALL = [Row((7, 4))]
VARIANTS = [Row((7, 4), {"kind": kind, "format": box_format}) for kind in ("iou", "giou", "diou", "ciou")
            for box_format in ("corner", "center")]
LARGE = [Row((256, 8732, 4)), Row((256, 8732, 4), {"kind": "ciou"})]
