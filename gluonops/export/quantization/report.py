"""What quantizing a net gives: the layers, their errors, and the table of them."""
from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class QuantizedLayer:
    """A row of the table.

    Attributes
    ----------
    name, operator : str
    error : float or None
        The relative error of the net's outputs if this layer alone is quantized; None if it cannot be.
    reason : str
        Why it stays in float; empty where it is quantized.
    """

    name: str
    operator: str
    error: float | None
    reason: str

    @property
    def is_quantized(self) -> bool:
        return not self.reason


@dataclasses.dataclass(frozen=True)
class Quantized:
    """What :func:`quantize` wrote and measured. Printed, it is a table.

    Attributes
    ----------
    paths : tuple of str
        The files.
    method : str
        How the ranges were chosen.
    layers : tuple of QuantizedLayer
        All layers with a weight, in the order of the graph.
    errors : dict of str to float
        ``MXNet`` and ``ONNX``, as far as written and run: the relative error on the held-out data.
    scores : dict of str to float
        ``float``, ``MXNet`` and ``ONNX``: what ``score`` returned. Empty without it.
    """

    paths: tuple[str, ...]
    method: str
    layers: tuple[QuantizedLayer, ...]
    errors: dict[str, float]
    scores: dict[str, float]

    def __str__(self) -> str:
        rows = [("layer", "operator", "error", "")]
        for layer in self.layers:
            error = "" if layer.error is None else f"{layer.error:.5f}"
            rows.append((layer.name, layer.operator, error, f"float: {layer.reason}" if layer.reason else "int8"))
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        lines += [f"ranges by the method: {self.method}"] if self.method else []
        lines += [f"error on held-out data, {name}: {error:.5f}" for name, error in self.errors.items()]
        lines += [f"score on held-out data, {name}: {score:.5f}" for name, score in self.scores.items()]
        return "\n".join(lines)
