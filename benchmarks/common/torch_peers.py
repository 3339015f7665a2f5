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


def _tile(attrs, ndim):
    if not isinstance(attrs["tiles"], int):
        return None
    counts = [1] * ndim
    counts[attrs["axis"]] = attrs["tiles"]
    return lambda torch, data: torch.tile(data, counts)


_FUNCTIONS = {
    "abs": _abs,
    "reorg": _reorg,
    "softmax": _softmax,
    "softmax_cross_entropy": _softmax_cross_entropy,
    "tile": _tile,
}
