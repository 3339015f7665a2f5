"""A quantized net for MXNet and for ONNX: run, and written."""
from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .. import passes
from ..model import ExportedModel
from ..onnx.quantize import Quantization
from ..onnx.registry import opset_of
from ..onnx.write import save, serialized
from ..running.onnx_net import session
from .running import Batch, Runner

Run = Callable[[Batch], list[np.ndarray]]


class Target(NamedTuple):
    """A net in 8 bits.

    - ``runner``: makes a function from a batch to the net's outputs.
    - ``measured``: makes the same for the outputs that are compared.
    - ``write``: writes the files, and returns their paths.
    - ``is_runnable``: whether it runs here.
    """

    runner: Callable[[], Run]
    measured: Callable[[], Run]
    write: Callable[[], tuple[str, ...]]
    is_runnable: bool = True


def for_mxnet(prefix: str, model: ExportedModel, measured: ExportedModel, quantization: Quantization,
              storage: str) -> Target:
    """The net for MXNet's oneDNN operators.

    - ``model``: the float net.
    - ``measured``: the float net with the outputs that are compared; ``model`` itself where these are its own.
    - ``storage``: 'int8' or 'float32'; type of the weights in the file.
    """
    made = passes.quantize(model, quantization.ranges, quantization.layers)
    made.metadata["quantized"] = sorted(quantization.layers)
    compared = made if measured is model else passes.quantize(measured, quantization.ranges, quantization.layers)
    if storage == "float32":
        made.parameters = {name: value.astype("float32") for name, value in made.parameters.items()}
    return Target(functools.partial(Runner.of, made), functools.partial(Runner.of, compared),
                  functools.partial(made.save, prefix))


def for_onnx(path: str, model: ExportedModel, measured: ExportedModel, quantization: Quantization,
             opset: int | None) -> Target:
    """The net for ONNX. ``model``, ``measured``, ``quantization``: as for :func:`for_mxnet`."""
    opset = opset_of(model.graph, opset)
    content = b"".join(serialized(model, True, opset, {}, quantization))
    compared = content if measured is model else b"".join(serialized(measured, True, opset, {}, quantization))

    def write() -> tuple[str, ...]:
        save(path, [content])
        return path,

    return Target(functools.partial(_in_onnxruntime, content), functools.partial(_in_onnxruntime, compared), write,
                  is_runnable=importlib.util.find_spec("onnxruntime") is not None)


def _in_onnxruntime(content: bytes) -> Run:
    opened = session(content, "export.quantize")
    return lambda batch: opened.run(None, {name: value.asnumpy() for name, value in batch.items()})
