"""The contract of ``gelu``."""
from ...contract.op import Attr, Choice
from .._activation.contract import activation

OP = activation("gelu", "x times the normal distribution function of x", attrs=(
    Attr("approximation", Choice("erf", "tanh"), "erf",
         "The function itself, or the approximation by a hyperbolic tangent."),))
