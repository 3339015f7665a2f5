"""l2_normalize: over the channels of feature maps."""
from ..cases import Row, Target

TYPICAL = [Row((2, 5, 3, 7)), Row((9, 64, 6, 6))]
SMALL = [Row((3, 33, 5, 1))]
VARIANTS = [Row((37, 8), {"axis": -1})]
LARGE = [Row((64, 512, 38, 38)), Row((64, 512, 38, 38), dtype="float16")]
TARGETS = [Target("both", "copy", 0.85)]
