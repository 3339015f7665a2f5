"""The contract of ``mish``."""
from .._activation.contract import activation

OP = activation("mish", "x tanh(softplus(x))", "Mish()")
