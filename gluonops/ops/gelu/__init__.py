"""gelu: x times the probability that a normal number is smaller than x, element by element.

- ``approximation="erf"``: ``output = x / 2 (1 + erf(x / sqrt(2)))``; the gradient is ``output_grad * (P(x) +
  x p(x))`` with the normal distribution function P and its density p.
- ``approximation="tanh"``: ``output = x / 2 (1 + tanh(u))`` with ``u = sqrt(2 / pi) (x + 0.044715 x^3)``. It differs by
  up to 0.0005 from the first, and is what BERT and GPT-2 were trained with.

The kernels compute the probability without a difference: it keeps its digits where x is far below 0. The smallest value
is -0.17, at x = -0.75. At minus infinity the formula is ``-inf * 0``, so the output is NaN, as in PyTorch. The gradient
at an infinity is not defined.

float16 is computed in float32, except in a builtin graph of variables with unknown types.

Work, in bytes of the tensor: forward moves 2 (read, write) and backward 3. Only the input stays in memory for backward.

Sources: Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016), section 2; ``torch.nn.functional.gelu``. The
attribute has the name and the values of MXNet 2's ``gluon.nn.GELU``.
"""
from __future__ import annotations

from ...core.backend import Array, call
from .contract import OP

__all__ = ["gelu"]


def gelu(data: Array, approximation: str = "erf", name: str | None = None) -> Array:
    """``x P(x)`` of every element, with the normal distribution function P.

    Parameters
    ----------
    data : NDArray or Symbol
        Any shape; float16, float32 or float64.
    approximation : {'erf', 'tanh'}, default 'erf'
        The function itself, or the approximation by a hyperbolic tangent.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        The shape and dtype of ``data``.

    Raises
    ------
    OpError
        The dtype is not a float, or ``approximation`` is unknown.
    """
    return call(OP, locals())
