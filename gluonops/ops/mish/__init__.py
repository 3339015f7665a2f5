"""mish: a smooth activation without an upper bound, element by element.

``output = x tanh(softplus(x))`` with ``softplus(x) = ln(1 + exp(x))``. The gradient is ``output_grad * (t + x (1 - t^2)
sigmoid(x))`` with ``t = tanh(softplus(x))``. The smallest value is -0.309, at x = -1.19. Neither overflows: with ``e =
exp(-|x|)``, t is a fraction of polynomials in e. At minus infinity the formula is ``-inf * 0``, so the output is NaN,
as in PyTorch. The gradient at an infinity is not defined.

float16 is computed in float32, except in a builtin graph of variables with unknown types.

Work, in bytes of the tensor: forward moves 2 (read, write) and backward 3. Only the input stays in memory for backward.
MXNet's composition ``x * tanh(softrelu(x))`` keeps three tensors.

Sources: Misra, "Mish" (2019), equation 1; ``torch.nn.functional.mish``.
"""
from __future__ import annotations

from ...core.backend import Array, call
from .contract import OP

__all__ = ["mish"]


def mish(data: Array, name: str | None = None) -> Array:
    """``x tanh(softplus(x))`` of every element.

    Parameters
    ----------
    data : NDArray or Symbol
        Any shape; float16, float32 or float64.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        The shape and dtype of ``data``.

    Raises
    ------
    OpError
        The dtype is not a float.
    """
    return call(OP, locals())
