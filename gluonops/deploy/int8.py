"""Checks the metadata of a file in 8 bits, and warns if this processor would compute the net wrongly."""
from __future__ import annotations

import importlib.util
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ..contract.errors import OpError, quoted
from ..export.metadata import ANY, VNNI
from ..export.passes.onednn_int8 import CONVOLUTION, LARGEST
from ..export.quantization.quantizable import SAFE
from ..export.sizes import known_types
from ..export.warning import ExportWarning
from ..runtime import processor

if TYPE_CHECKING:
    from ..export.model import ExportedModel

WHERE = "export.load"


def check_model(path: str, model: ExportedModel) -> None:
    """Check a net of MXNet's operators as it was read.

    ``path`` is for messages. An OpError is raised if the metadata do not fit the layers. An ExportWarning is shown if
    the net needs VNNI, and MXNet does not use VNNI here.
    """
    layers = [node for node in model.graph.nodes() if node.op == CONVOLUTION and node.has("quantized")]
    names = sorted(inner.name for layer in layers for inner in layer.subgraphs[0].nodes() if inner.op == "BatchNorm")
    inputs = [name for name in model.graph.variables() if name not in model.parameters]
    types = known_types(model.graph, dict.fromkeys(inputs, "float32")) if layers else {}
    reads_uint8 = any(types.get(layer.inputs[0]) == np.uint8 for layer in layers)
    weights = (model.parameters[layer.source(1).name].asnumpy() for layer in layers)
    needs_vnni = reads_uint8 or any(((weight % 2 != 0) & (abs(weight) != LARGEST)).any() for weight in weights)
    _check_claims(path, model.metadata, names, needs_vnni)
    _warn(path, processor.MXNET, needs_vnni or model.metadata.get("processor") == VNNI)


def check_onnx(path: str, metadata: dict[str, Any]) -> None:
    """Check an ONNX file whose metadata say that it is in 8 bits. See :func:`check_model`.

    If the package onnx is installed, the weights are compared with the metadata.
    """
    if "quantized" not in metadata and "processor" not in metadata:
        return
    names, needs_vnni = None, metadata.get("processor") == VNNI
    if importlib.util.find_spec("onnx"):
        import onnx
        from onnx import numpy_helper

        stored = {value.name: value for value in onnx.load(path).graph.initializer}
        weights = [numpy_helper.to_array(value).astype(int) for value in stored.values()
                   if value.data_type == onnx.TensorProto.INT8 and len(value.dims) > 1]
        needs_vnni = any((abs(weight) > SAFE[1]).any() for weight in weights)
        names = len(weights)
    _check_claims(path, metadata, names, needs_vnni)
    _warn(path, processor.ONNXRUNTIME, needs_vnni or metadata.get("processor") == VNNI)


def _check_claims(path, metadata, layers, needs_vnni):
    """Check the metadata. ``layers`` are the names of the layers in 8 bits, or their number, or None if unknown."""
    stated = metadata.get("quantized", layers if isinstance(layers, list) else [])
    if not isinstance(stated, list) or not all(isinstance(name, str) for name in stated):
        _refuse(path, f"names the layers {quoted(stated)} as quantized; expected a list of names")
    if isinstance(layers, list) and sorted(stated) != layers:
        _refuse(path, f"names {len(stated)} layers as quantized, and has {len(layers)} in 8 bits: "
                f"{quoted(sorted(set(stated) ^ set(layers)))} differ")
    if isinstance(layers, int) and len(stated) != layers:
        _refuse(path, f"names {len(stated)} layers as quantized, and has {layers} in 8 bits")
    claim = metadata.get("processor")
    if claim not in (None, ANY, VNNI):
        _refuse(path, f"says that it is for the processor {quoted(claim)}; expected {ANY!r} or {VNNI!r}")
    if claim == ANY and needs_vnni:
        _refuse(path, "says that it is right on any processor, and its weights have all 8 bits, which is right with "
                "VNNI only")


def _refuse(path, what):
    raise OpError(WHERE, f"{path} {what}", "Quantize the float net again: the file was changed")


def _warn(path, program, needs_vnni):
    if needs_vnni and processor.saturates(program):
        warnings.warn(f"{path} uses all 8 bits, which is right on processors with VNNI only. {program} uses "
                      f"{processor.used(program)} here: sums of products saturate, and results are wrong. Quantize the "
                      "net without vnni_only (--vnni-only)", ExportWarning, stacklevel=5)
