"""The contract of ``swish``."""
from __future__ import annotations

from ...core.contract import Attr, Float
from .._activation.contract import activation


def scalars(attrs) -> dict:
    """The kernels' argument."""
    return {"beta": attrs.beta}


OP = activation("swish", "x sigmoid(beta x)", scalars=scalars,
                attrs=(Attr("beta", Float(low=0, below=1000), 1.0, "factor of x in the sigmoid"),))
