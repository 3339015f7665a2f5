"""The contract of ``rms_norm``."""
from .._rms.contract import scaled_rows

OP = scaled_rows("rms_norm", "rows divided by the root of the mean of their squares, and scaled",
                 by_mean=True, axis=-1, eps=1e-6)
