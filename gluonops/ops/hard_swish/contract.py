"""The contract of ``hard_swish``."""
from .._activation.contract import activation

OP = activation("hard_swish", "x sigmoid(x), with a sigmoid of three straight lines", "HardSwish()")
