"""ohem: of the losses of a batch, which is read once for each digit of the losses' bits, and of each sample."""
from ..cases import Row

TYPICAL = [Row((7, 149)), Row((1, 4099), {"keep": 1000})]
SMALL = [Row((3, 33), {"per_sample": True})]
VARIANTS = [Row((5, 67), {"threshold": 1.0}), Row((2, 1031), {"ratio": 0.5, "per_sample": True})]
LARGE = [Row((4, 512, 512)), Row((4096, 4096), {"per_sample": True})]
EXACT = ("output", "data_grad")
