"""The contract of ``l2_normalize``."""
from .._rms.contract import scaled_rows

OP = scaled_rows("l2_normalize", "rows divided by their Euclidean length, and scaled",
                 by_mean=False, axis=1, eps=1e-10)
