"""What the contracts of the operators on class labels share."""
from ...core.contract import Attr, Indices, Int, Optional

IGNORE = Attr("ignore_label", Optional(Int()), None, "label of the rows that do not count")
CLASS_LABELS = Indices("classes", ignore="ignore_label")


def ignore_scalars(attrs):
    """How the kernels are told about ``ignore_label``."""
    return {"ignores": int(attrs.ignore_label is not None), "ignore_label": attrs.ignore_label or 0}
