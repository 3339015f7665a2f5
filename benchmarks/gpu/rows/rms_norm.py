"""rms_norm: over rows."""
from ..cases import Row, Target

# A thread or a few for a row, a block, and slices of the samples.
TYPICAL = [Row((37, 8)), Row((5, 1031)), Row((300, 64))]
SMALL = [Row((9, 33)), Row((130, 24))]
VARIANTS = [Row((3, 5, 2, 7), {"axis": 1}), Row((300, 5), {"axis": 0})]
LARGE = [Row((8192, 1024)), Row((8192, 8192)), Row((65536, 1024), dtype="float16")]
TARGETS = [Target("both", "copy", 0.85)]
