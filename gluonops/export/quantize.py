"""Writes a net with 8-bit layers, for MXNet's oneDNN operators and for ONNX."""
from __future__ import annotations

import dataclasses
import importlib.util
import os
from collections.abc import Callable, Iterable
from typing import Any, Union

import mxnet as mx
import numpy as np

from ..contract.errors import OpError
from ..io.files import check_writable
from . import passes
from .locate import paths_of
from .metadata import metadata_of_int8
from .model import ExportedModel
from .onnx.builder import opset_of
from .onnx.qdq import Quantization
from .onnx.write import check_onnx, save, serialized
from .operators.eight_bits import is_of_8_bits
from .quantization.batches import IMAGES, as_arrays, named, split
from .quantization.calibration import METHODS, Statistics, check_method
from .quantization.quantizable import (
    ALL,
    SAFE,
    QuantizedLayer,
    layers_of,
    reason_for_float,
    steady,
    with_corrected_biases,
)
from .quantization.running import Batch, Runner, errors_of_layers, explained, relative_error, run, simulated
from .quantization.verdict import check_outputs, check_result
from .sides import InOnnxruntime
from .warning import warn_of_losses

WHERE = "export.quantize"
MXNET, ONNX = "MXNet", "ONNX"
STORAGE = ("int8", "float32")
SENSITIVITY_BATCHES = 4   # The error of each layer is measured on so many.
Predict = Callable[[Any], Union[np.ndarray, list]]
Net = Union[ExportedModel, bytes]   # MXNet's, or the content of an ONNX file


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


@explained(WHERE)
def quantize(net: mx.gluon.Block | str | os.PathLike, prefix: str | os.PathLike | None, calibration: Any,
             held_out: Any = None, *, onnx: str | os.PathLike | None = None, method: str | None = None,
             percentile: float = 99.99, keep: Iterable[str] = (), layer_limit: float = 0.05,
             limit: float | None = None, score: Callable[[Predict], float] | None = None, epoch: int | None = None,
             opset: int | None = None, storage: str = "int8", vnni_only: bool = False,
             outputs: Iterable[str] = (), inputs: Any = None) -> Quantized:
    """Write a net with 8-bit convolutions and dense layers: as symbol JSON for MXNet on the CPU, as ONNX, or both.

    Losses are removed and batch norms are folded. The range of every tensor comes from the calibration data. Weights
    are stored as int8 with a scale for each output channel, so files are about a fourth of the size. Each layer's error
    is measured: that of the net's outputs if this layer alone is quantized. A layer whose error is too large stays in
    float. The result is run on held-out data and compared with the float net before anything is written.

    The files compute the same on every processor. One without VNNI adds products of 8 bits in pairs and cuts each sum
    to 16 bits. So weights have 7 bits, whose sums fit, unless `vnni_only` asks for all 8.

    The JSON needs MXNet 1.9.1 and nothing else. ``mx.mod.Module`` loads it as usual. For a ``SymbolBlock`` the int8
    weights have to be converted: ``block = SymbolBlock.imports(json, ["data"])``, then
    ``block.load_parameters(params, cast_dtype=True)``. The C predict API does not convert: it needs
    ``storage="float32"``.

    Parameters
    ----------
    net : HybridBlock, Block, str or os.PathLike
        An initialized net; or the path, without ``-symbol.json``, of an exported one. float32.
    prefix : str, os.PathLike or None
        Path of ``prefix-symbol.json`` and ``prefix-0000.params``; None to write only ONNX. The folder must exist.
    calibration : array, or iterable of array, tuple or dict of str to array
        Examples as the net takes them, preprocessed, along the first axis: a few dozen to a few hundred. It may be a
        DataLoader: of a tuple the first is taken. Nets with several inputs take dicts by name.
    held_out : as `calibration`, optional
        Other examples, to check the result with. By default every fifth batch of 4 of `calibration` is held out.
    onnx : str or os.PathLike, optional
        Path of an ONNX file to write, with QuantizeLinear and DequantizeLinear. It is checked if onnxruntime is
        installed.
    method : {'entropy', 'percentile', 'naive'}, optional
        How a range is chosen; see :mod:`gluonops.export.quantization.calibration`. By default all are tried on the
        calibration data, and the one with the least error is taken.
    percentile : float, default 99.99
        For the method of that name.
    keep : iterable of str
        Names of layers that stay in float.
    layer_limit : float, default 0.05
        The largest error of a layer that is quantized. An error is the root mean square of the difference, divided by
        that of the float output. Where outputs come out of non-maximum suppression or the like, the outputs of the
        last layers are compared instead.
    limit : float, optional
        The largest error of the result on the held-out data; with `score`, how much lower the score may be. By default
        an error above 0.1 is an OpError, and one above 0.03 an ExportWarning.
    score : callable, optional
        Takes a function ``predict(data)`` and returns a number, larger for better: accuracy, or mAP. ``predict`` takes
        an array (or a dict of them) and returns the output in NumPy, or a list of several. Called once for the float
        net and for each result.
    epoch, opset, outputs, inputs
        As in :func:`gluonops.export.onnx`. A net that is recorded with `inputs` may take their batch size alone. Then
        the examples are cut into batches of that size, and the rest of a batch is left out.
    storage : {'int8', 'float32'}, default 'int8'
        Type of the weights in the ``.params``. With ``float32`` the file is as large as before and holds the same
        integers, for programs that do not convert types.
    vnni_only : bool, default False
        Use all 8 bits, for processors with VNNI only (or Arm's). On others sums saturate, and results are wrong. The
        files' metadata say so, and :func:`gluonops.export.load` warns there.

    Returns
    -------
    Quantized
        Print it to see the layers, their errors, and which stayed in float.

    Raises
    ------
    OpError
        The result is worse than `limit`, or not finite; every output is zero; no layer can be quantized; the net is not
        float32; `keep` names a layer that there is not; data or files do not fit. Nothing is written then.
    """
    _check_options(prefix, onnx, method, percentile, opset, storage, layer_limit=layer_limit, limit=limit)
    if inputs is None:
        batches, held = split(as_arrays("calibration", calibration), held_out)
        model = _float_model(net, epoch, outputs, data_shape=_shapes_of(batches[0]))
    else:
        model = _float_model(net, epoch, outputs, inputs=inputs)
        size = model.fixed_batch()
        batches, held = split(as_arrays("calibration", calibration, size), held_out, size)
    batches, held = named(batches, model), named(held, model)
    measured, tried = steady(model), batches[:SENSITIVITY_BATCHES]
    expected = run(measured, held)
    check_outputs(expected, limit)

    able = [layer.name for layer in layers_of(model) if reason_for_float(model, layer) is None]
    statistics = Statistics.of(model, batches)
    method, ranges = _calibrate(statistics, measured, able, tried, method, percentile, vnni_only)
    errors = errors_of_layers(measured, ranges, able, tried, statistics.means, vnni_only)
    layers = _choose(model, errors, set(keep), layer_limit)
    quantization = Quantization(frozenset(layer.name for layer in layers if layer.is_quantized), ranges, vnni_only)

    written = {name: os.fspath(path) for name, path in ((MXNET, prefix), (ONNX, onnx)) if path is not None}
    made, compared = _made(model, measured, quantization, statistics.means, opset, written)
    runnable = [name for name in written if name == MXNET or importlib.util.find_spec("onnxruntime")]
    errors = {name: relative_error([*map(_runner(compared[name]), held)], expected) for name in runnable}
    scores = {}
    if score is not None:
        nets = {"float": model, **{name: made[name] for name in runnable}}
        scores = {name: float(score(_predict(_runner(net), model))) for name, net in nets.items()}
    check_result(errors, scores, limit, layers, ranges)
    paths = [file for name, path in written.items() for file in _write(made[name], path, storage)]
    return Quantized(tuple(paths), method, layers, errors, scores)


def _made(model: ExportedModel, measured: ExportedModel, quantization: Quantization, means: dict[str, np.ndarray],
          opset: int | None, names: Iterable[str]) -> tuple[dict[str, Net], dict[str, Net]]:
    """The net in 8 bits for MXNet's oneDNN operators, for ONNX, or both; and the same for what is compared.

    ``measured`` is the float net with the outputs that are compared; ``model`` itself where these are its own.
    """
    layers, vnni_only = quantization.layers, quantization.vnni_only

    def make(name: str, net: ExportedModel) -> Net:
        net = with_corrected_biases(net, layers, means, ALL if vnni_only else SAFE)
        net.metadata.update(metadata_of_int8(layers, vnni_only))
        if name == MXNET:
            return passes.quantize(net, quantization.ranges, layers, vnni_only)
        takes_any_batch = model.fixed_batch() is None
        return b"".join(serialized(net, takes_any_batch, opset_of(model.graph, opset), {}, quantization))

    made = {name: make(name, model) for name in names}
    return made, made if measured is model else {name: make(name, measured) for name in names}


def _runner(net: Net) -> Callable[[Batch], list[np.ndarray]]:
    """A function from a batch to the outputs of a net."""
    if isinstance(net, ExportedModel):
        return Runner.of(net)
    opened = InOnnxruntime(WHERE, net)
    return lambda batch: opened({name: value.asnumpy() for name, value in batch.items()})


def _write(net: Net, path: str, storage: str) -> tuple[str, ...]:
    """Write the files of a net in 8 bits. Returns their paths."""
    if not isinstance(net, ExportedModel):
        save(path, [net])
        return path,
    if storage == "float32":
        net.parameters = {name: value.astype("float32") for name, value in net.parameters.items()}
    return net.save(path)


def _check_options(prefix, onnx, method, percentile, opset, storage, **limits):
    if prefix is None and onnx is None:
        raise OpError(WHERE, "prefix and onnx are both None; expected a file to write", "Pass one of them, or both")
    check_method("naive" if method is None else method, percentile)
    if storage not in STORAGE:
        raise OpError(WHERE, f"storage is {storage!r}; expected {' or '.join(STORAGE)}", "Choose one of them")
    if prefix is not None:
        check_writable(WHERE, *paths_of(os.fspath(prefix), 0))
    if onnx is not None:
        check_onnx(opset)
        check_writable(WHERE, os.fspath(onnx))
    for name, value in limits.items():
        if value is not None and not value >= 0:
            raise OpError(WHERE, f"{name} is {value!r}; expected a number of at least 0", "Pass for instance 0.05")


def _shapes_of(batch):
    """The shapes of one example of a batch: by name, or of the only input."""
    shapes = {name: (1, *array.shape[1:]) for name, array in batch.items()}
    return shapes.get(None, shapes)


def _float_model(net, epoch, outputs, **sizes):
    """The net as MXNet's operators for inference, batch norms folded. ``sizes``: ``data_shape`` or ``inputs``."""
    model = ExportedModel.of(WHERE, net, epoch=epoch, outputs=outputs, **sizes)
    if any(is_of_8_bits(node.op) for node in model.graph.nodes()):
        raise OpError(WHERE, "the net is quantized already", "Pass the float net")
    if model.metadata["dtype"] != "float32":
        raise OpError(WHERE, f"the net computes in {model.metadata['dtype']}; expected float32",
                      "Cast it: net.cast('float32')")
    model = passes.inference(model)
    model.check_shapes(WHERE)
    warn_of_losses(model.notes, stacklevel=4)
    model = passes.lower(passes.describe(passes.fold_batch_norm(model)), "builtin")
    return passes.prepare_for_fusion(model)


def _calibrate(statistics, measured, layers, tried, method, percentile, vnni_only):
    """The method and its ranges: the one asked for, or that whose simulated error is least."""
    if method is not None:
        return method, statistics.ranges(method, percentile)
    expected = run(measured, tried)
    ranges = {name: statistics.ranges(name, percentile) for name in METHODS}

    def error(name):
        net = simulated(measured, ranges[name], layers, statistics.means, vnni_only)
        return relative_error(run(net, tried), expected)

    errors = {name: error(name) for name in METHODS}
    best = min(METHODS, key=errors.get)
    return best, ranges[best]


def _choose(model, errors, keep, layer_limit):
    """The table of layers: which are quantized, and why the others are not."""
    layers = layers_of(model)
    unknown = keep.difference(layer.name for layer in layers)
    if unknown:
        raise OpError(WHERE, f"keep names {sorted(unknown)[0]!r}, which is not a layer of the net; it has "
                      f"{', '.join(layer.name for layer in layers)}", "Pass some of these names")
    rows = []
    for layer in layers:
        error = errors.get(layer.name)
        reason = reason_for_float(model, layer) or ""
        if layer.name in keep:
            reason = "asked for"
        elif error is not None and not error <= layer_limit:
            reason = f"its error is above {layer_limit:g}"
        rows.append(QuantizedLayer(layer.name, layer.op, error, reason))
    if not any(row.is_quantized for row in rows):
        raise OpError(WHERE, f"no layer can be quantized:\n{Quantized((), '', tuple(rows), {}, {})}\n",
                      "Raise layer_limit, or calibrate with data like that which the net was trained on")
    return tuple(rows)


def _predict(runner, model):
    """The function that a score calls."""
    def predict(data):
        size = model.fixed_batch()
        batches = as_arrays("the argument of predict", data, size or IMAGES)
        joined = [np.concatenate(parts) for parts in zip(*map(runner, named(batches, model)))]
        return joined[0] if len(joined) == 1 else joined
    return predict
