"""The contract of ``gelu``."""
from __future__ import annotations

from ...core.contract import Attr, Choice
from .._activation.contract import activation


def scalars(attrs) -> dict:
    """The kernels' argument."""
    return {"is_tanh": int(attrs.approximation == "tanh")}


OP = activation("gelu", "x times the normal distribution function of x", scalars=scalars,
                attrs=(Attr("approximation", Choice("erf", "tanh"), "erf",
                            "erf: the function itself; tanh: Hendrycks' approximation"),))
