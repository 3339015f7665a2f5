"""Runs models on batches, in float and as layers of 8 bits would compute, and compares their outputs."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import mxnet as mx
import numpy as np

from ...contract.errors import OpError
from ..graph import Node
from ..model import ExportedModel
from ..sizes import last_line
from .quantizable import (
    ALL,
    SAFE,
    last_activation,
    layers_of,
    per_channel,
    quantized_weight,
    tensor_names,
    with_corrected_biases,
)

Batch = dict[str, mx.nd.NDArray]
Ranges = dict[str, tuple[float, float]]   # lowest and highest value of tensors, by MXNet's names


@contextlib.contextmanager
def explained(where: str) -> Iterator[None]:
    """Make an OpError of what MXNet says of a net that it does not run, such as one with a CustomOp that fails."""
    try:
        yield
    except mx.MXNetError as error:
        reason = "a CustomOp of the net fails, and its traceback is printed above" if "custom.cc" in str(error) else \
            last_line(error)
        raise OpError(where, f"MXNet does not run the net: {reason}", "Correct what it names") from error


class Runner:
    """A symbol with its parameters, called on batches.

    - ``parameters``: integers stand for floats, as a Module loads them.
    - ``mode``: that of its graph, as a context.
    """

    def __init__(self, symbol: mx.sym.Symbol, parameters: dict[str, mx.nd.NDArray], mode: Callable):
        self._mode = mode
        self._names = symbol.list_inputs()
        self._values = {name: parameters[name] for name in self._names if name in parameters}
        for name, value in self._values.items():
            if value.dtype == np.int8:
                self._values[name] = value.astype("float32")
        self._run = mx.nd.CachedOp(symbol, [("static_alloc", True), ("static_shape", True)])

    @classmethod
    def of(cls, model: ExportedModel) -> Runner:
        return cls(model.graph.symbol(), model.parameters, model.graph.mode)

    def __call__(self, batch: Batch) -> list[np.ndarray]:
        with self._mode():
            results = self._run(*[batch[name] if name in batch else self._values[name] for name in self._names])
        return [result.asnumpy() for result in (results if isinstance(results, list) else [results])]


def run(model: ExportedModel, batches: Sequence[Batch]) -> list[list[np.ndarray]]:
    """The outputs of every batch."""
    return [*map(Runner.of(model), batches)]


def relative_error(got: Sequence[Sequence[np.ndarray]], expected: Sequence[Sequence[np.ndarray]]) -> float:
    """The root of the mean squared error of an output, divided by that output's root mean square; the worst output's.

    ``got`` and ``expected``: outputs of every batch. The result is 0 where both are equal; infinite where an output of
    zeros is not reproduced, or something is not finite.
    """
    return max(_relative_error_of_one(ours, theirs) for ours, theirs in zip(zip(*got), zip(*expected)))


def _relative_error_of_one(got, expected):
    got = np.concatenate([array.ravel() for array in got]).astype(np.float64)
    expected = np.concatenate([array.ravel() for array in expected]).astype(np.float64)
    difference, size = np.linalg.norm(got - expected), np.linalg.norm(expected)
    if not np.isfinite(difference):
        return float("inf")
    if not difference:
        return 0.0
    return float(difference / size) if size else float("inf")


def symmetric(ranges: Ranges) -> Ranges:
    """The ranges around zero, with which MXNet has int8 for every tensor, also where no value is negative."""
    return {name: (min(low, -high), high) for name, (low, high) in ranges.items()}


def simulated(model: ExportedModel, ranges: Ranges, names: Iterable[str], means: dict[str, np.ndarray] | None = None,
              vnni_only: bool = False) -> ExportedModel:
    """A float model that computes what MXNet's 8-bit layers would: their inputs, weights and outputs are rounded.

    ``model``: for inference, of MXNet's operators only. ``names`` are those of the layers. ``means`` are those of
    :class:`.calibration.Statistics`, to correct the biases. ``vnni_only``: as
    :func:`gluonops.export.passes.onednn_int8` takes it.
    """
    names = set(names)
    ranges, levels = (ranges, ALL) if vnni_only else (symmetric(ranges), SAFE)
    model = model.copy() if means is None else with_corrected_biases(model, names, means, levels)
    tensors = tensor_names(model.graph)
    for layer in layers_of(model):
        if layer.name in names:
            weight = layer.source(1).name
            integers, scale = quantized_weight(model.parameters[weight].asnumpy(), levels)
            model.parameters[weight] = mx.nd.array(integers * per_channel(scale, integers.ndim), dtype="float32")
            entry, last = layer.inputs[0], last_activation(model.graph, layer)
            if (entry[0].name, entry[1]) in tensors:   # else it is another layer's rounded output
                layer.inputs[0] = _rounded(layer, entry, *ranges[tensors[entry[0].name, entry[1]]])
            output = _rounded(last, (last, 0), *ranges[tensors[last.name, 0]])
            model.graph.replace({(last, 0): output})
            output[0].source().inputs = [(last, 0)]
    return model


def _rounded(node, entry, low, high):
    """A tensor in 8 bits, as MXNet's quantizer rounds it: symmetric around 0, or without a sign."""
    side = "input" if entry[0] is not node else "output"
    attrs = {"out_type": "auto", "min_calib_range": repr(low), "max_calib_range": repr(high)}
    quantized = Node("_contrib_quantize_v2", f"{node.name}_{side}_quantized", attrs, [entry])
    return Node("_contrib_dequantize", f"{node.name}_{side}_rounded", {"out_type": "float32"},
                [(quantized, 0), (quantized, 1), (quantized, 2)]), 0


def errors_of_layers(model: ExportedModel, ranges: Ranges, names: Sequence[str], batches: Sequence[Batch],
                     means: dict[str, np.ndarray] | None = None, vnni_only: bool = False) -> dict[str, float]:
    """The error of the outputs if one layer alone is quantized, for each of the named layers. See :func:`simulated`."""
    expected = run(model, batches)
    return {name: relative_error(run(simulated(model, ranges, [name], means, vnni_only), batches), expected)
            for name in names}
