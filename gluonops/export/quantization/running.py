"""Runs models on batches, and compares their outputs."""
from __future__ import annotations

from collections.abc import Sequence

import mxnet as mx
import numpy as np

from ..model import ExportedModel

Batch = dict[str, mx.nd.NDArray]


class Runner:
    """A symbol with its parameters, called on batches.

    ``parameters``: integers stand for floats, as a Module loads them.
    """

    def __init__(self, symbol: mx.sym.Symbol, parameters: dict[str, mx.nd.NDArray]):
        self._names = symbol.list_inputs()
        self._values = {name: parameters[name] for name in self._names if name in parameters}
        for name, value in self._values.items():
            if value.dtype == np.int8:
                self._values[name] = value.astype("float32")
        self._run = mx.nd.CachedOp(symbol, [("static_alloc", True), ("static_shape", True)])

    @classmethod
    def of(cls, model: ExportedModel) -> Runner:
        """A model that is called."""
        return cls(model.graph.symbol(), model.parameters)

    def __call__(self, batch: Batch) -> list[np.ndarray]:
        """The outputs."""
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
