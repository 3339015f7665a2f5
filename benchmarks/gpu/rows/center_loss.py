"""center_loss: every sample enters the gradient of its centre."""
from ..cases import Row

TYPICAL = [Row((37, 19), more={"centers": (5, 19)}), Row((3, 1031), more={"centers": (7, 1031)})]
SMALL = [Row((7, 5), more={"centers": (4, 5)})]
LARGE = [Row((65536, 512), more={"centers": (1000, 512)})]
