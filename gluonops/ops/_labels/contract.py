"""Attributes of the operators on class labels."""
from ...contract.op import Arg, Attr, Indices, Int, Numbers, Optional

IGNORE = Attr("ignore_label", Optional(Int()), None,
              "Rows, pixels or elements with this label have no loss and no gradient.")
CLASS_WEIGHT = Attr("class_weight", Optional(Numbers(0)), None,
                    "A weight for each class, at least 0, or a single one for all. The default is 1.")
LABEL = Arg("label", "L", gradient=False, values=Indices("classes", ignore="ignore_label"))
