"""A quantized net for MXNet and for ONNX: run, and written."""
from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence

import numpy as np

from .. import passes
from ..model import ExportedModel
from ..onnx.quantize import Quantization
from ..onnx.registry import opset_of
from ..onnx.write import save, serialized
from .running import Batch, Runner, run


class ForMXNet:
    """The net for MXNet's oneDNN operators.

    - ``model``: the float net.
    - ``measured``: the float net with the outputs that are compared; ``model`` itself where these are its own.
    - ``storage``: 'int8' or 'float32'; type of the weights in the file.
    """

    is_runnable = True

    def __init__(self, prefix: str, model: ExportedModel, measured: ExportedModel, quantization: Quantization,
                 storage: str):
        self._prefix = prefix
        self._model = passes.quantize(model, quantization.ranges, quantization.layers)
        self._model.metadata["quantized"] = sorted(quantization.layers)
        self._measured = self._model
        if measured is not model:
            self._measured = passes.quantize(measured, quantization.ranges, quantization.layers)
        if storage == "float32":
            parameters = self._model.parameters
            self._model.parameters = {name: value.astype("float32") for name, value in parameters.items()}

    def outputs(self, batches: Sequence[Batch]) -> list[list[np.ndarray]]:
        """The outputs that are compared, of every batch."""
        return run(self._measured, batches)

    def runner(self) -> Callable[[Batch], list[np.ndarray]]:
        """A function from a batch to the net's outputs."""
        return Runner(self._model.graph.symbol(), self._model.parameters)

    def write(self) -> tuple[str, ...]:
        """Write the files. Return their paths."""
        return self._model.save(self._prefix)


class ForONNX:
    """The net for ONNX. ``model``, ``measured``, ``quantization``: as for :class:`ForMXNet`."""

    def __init__(self, path: str, model: ExportedModel, measured: ExportedModel, quantization: Quantization,
                 opset: int | None):
        self._path = path
        opset = opset_of(model.graph, opset)
        self._content = b"".join(serialized(model, True, opset, {}, quantization))
        self._measured = self._content
        if measured is not model:
            self._measured = b"".join(serialized(measured, True, opset, {}, quantization))

    @property
    def is_runnable(self) -> bool:
        """Whether onnxruntime is installed."""
        return importlib.util.find_spec("onnxruntime") is not None

    def outputs(self, batches: Sequence[Batch]) -> list[list[np.ndarray]]:
        """The outputs that are compared, of every batch."""
        runner = _onnx_runner(self._measured)
        return [runner(batch) for batch in batches]

    def runner(self) -> Callable[[Batch], list[np.ndarray]]:
        """A function from a batch to the net's outputs."""
        return _onnx_runner(self._content)

    def write(self) -> tuple[str, ...]:
        """Write the file. Return its path."""
        save(self._path, [self._content])
        return self._path,


def _onnx_runner(content):
    import onnxruntime
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return lambda batch: session.run(None, {name: value.asnumpy() for name, value in batch.items()})
