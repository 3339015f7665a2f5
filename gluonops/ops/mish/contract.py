"""The contract of ``mish``."""
from __future__ import annotations

from .._activation.contract import activation

OP = activation("mish", "x tanh(softplus(x))")
