"""The layer ``gluonops.nn.RMSNorm``."""
from .. import rms_norm as _rms_norm
from .._rms.block import ScaledRows


class RMSNorm(ScaledRows, function=_rms_norm):
    """Rows divided by the root mean square of their elements, with a learned scale."""
