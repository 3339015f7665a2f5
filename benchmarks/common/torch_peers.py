"""torch's functions that compute what our operators do; the benchmarks on the CPU and on a GPU share them."""
from typing import Any, Callable, Optional


def function(op: str, attrs: dict[str, Any], ndim: int) -> Optional[Callable]:
    """torch's function for an operator, or None if torch has none for these attributes.

    Parameters
    ----------
    op : str
        The operator's name.
    attrs : dict
        Every attribute.
    ndim : int
        Of the data.

    Returns
    -------
    callable or None
        ``run(torch, data)``, or ``run(torch, data, label)`` for an operator with labels. torch is an argument, so
        this works where it is not installed.
    """
    return _FUNCTIONS[op](attrs, ndim) if op in _FUNCTIONS else None


def _abs(attrs, ndim):
    return lambda torch, data: torch.abs(data)


def _gelu(attrs, ndim):
    name = {"erf": "none", "tanh": "tanh"}[attrs["approximation"]]
    return lambda torch, data: torch.nn.functional.gelu(data, approximate=name)


def _hard_swish(attrs, ndim):
    return lambda torch, data: torch.nn.functional.hardswish(data)


def _mish(attrs, ndim):
    return lambda torch, data: torch.nn.functional.mish(data)


def _reorg(attrs, ndim):
    """torch has one of the three layouts, and not its inverse."""
    if attrs["mode"] != "CRD" or attrs["reverse"]:
        return None
    return lambda torch, data: torch.nn.functional.pixel_unshuffle(data, attrs["stride"])


def _softmax(attrs, ndim):
    if attrs["temperature"] != 1:
        return None
    return lambda torch, data: torch.softmax(data, attrs["axis"])


def _softmax_cross_entropy(attrs, ndim):
    plain = attrs["sparse_label"] and not attrs["smoothing"] and attrs["ignore_label"] is None
    if not plain or attrs["axis"] % ndim != 1:   # torch's classes are at axis 1
        return None
    return lambda torch, data, label: torch.nn.functional.cross_entropy(data, label, reduction="none")


def _swiglu(attrs, ndim):
    def swiglu(torch, data):
        gate, value = data.chunk(2, attrs["axis"])
        return torch.nn.functional.silu(gate) * value

    return swiglu


def _swish(attrs, ndim):
    """torch has it with beta 1."""
    if attrs["beta"] != 1:
        return None
    return lambda torch, data: torch.nn.functional.silu(data)


def _tile(attrs, ndim):
    if not isinstance(attrs["tiles"], int):
        return None
    counts = [1] * ndim
    counts[attrs["axis"]] = attrs["tiles"]
    return lambda torch, data: torch.tile(data, counts)


_FUNCTIONS = {
    "abs": _abs,
    "gelu": _gelu,
    "hard_swish": _hard_swish,
    "mish": _mish,
    "reorg": _reorg,
    "softmax": _softmax,
    "softmax_cross_entropy": _softmax_cross_entropy,
    "swiglu": _swiglu,
    "swish": _swish,
    "tile": _tile,
}
