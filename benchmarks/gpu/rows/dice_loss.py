"""dice_loss: of segmented images."""
from ..cases import Row, Target

TYPICAL = [Row((2, 3, 5, 7)), Row((1, 4, 1031))]
SMALL = [Row((3, 5, 33))]
VARIANTS = [Row((2, 4, 37), {"squared": False, "smooth": 1.0}), Row((2, 4, 37), {"ignore_label": 1}), Row((70, 3))]
LARGE = [Row((4, 21, 512, 512)), Row((4, 21, 512, 512), dtype="float16")]
TARGETS = [Target("both", "copy", 0.85)]
