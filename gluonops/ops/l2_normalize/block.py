"""The layer ``gluonops.nn.L2Normalize``."""
from .. import l2_normalize as _l2_normalize
from .._rms.block import ScaledRows


class L2Normalize(ScaledRows, function=_l2_normalize):
    """Rows divided by their Euclidean length, with a learned scale. SSD starts with a scale of 20."""
