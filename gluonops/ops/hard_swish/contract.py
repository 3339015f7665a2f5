"""The contract of ``hard_swish``."""
from __future__ import annotations

from .._activation.contract import activation

OP = activation("hard_swish", "x sigmoid(x), with a sigmoid of three straight lines")
