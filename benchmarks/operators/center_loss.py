"""center_loss: every sample enters the gradient of its centre."""
from ..harness.cases import NEARLY_AS_FAST_AS_A_COPY, Row

COMMITS = [Row((256, 128), more={"centers": (1000, 128)})]

TYPICAL = [Row((37, 19), more={"centers": (5, 19)}), Row((3, 1031), more={"centers": (7, 1031)})]
SMALL = [Row((7, 5), more={"centers": (4, 5)})]
VARIANTS = [
    Row((5000, 3), more={"centers": (2, 3)}),      # several blocks per centre
    Row((4500, 64), more={"centers": (300, 64)}),
]
GPU = [
    Row((65536, 512), more={"centers": (1000, 512)}),
    Row((65536, 512), more={"centers": (10, 512)}),
]
GPU_TARGETS = NEARLY_AS_FAST_AS_A_COPY
