"""A net in 8 bits, for MXNet's oneDNN operators and for ONNX: calibrated, checked against float, and written."""
from __future__ import annotations

import dataclasses
import importlib.util
import os
import pathlib
import warnings
from collections.abc import Iterable
from typing import Any, Callable, Union

import mxnet as mx
import numpy as np

from ..core.errors import OpError
from ..core.files import check_target, replace
from . import passes
from .files import paths_of, shapes_of_inputs
from .graph import Graph
from .model import ExportedModel
from .onnx.quantize import Quantization
from .onnx.write import check_onnx, serialized
from .quantization import (
    METHODS,
    Runner,
    Statistics,
    check_method,
    errors_of_layers,
    layers_of,
    reason_for_float,
    relative_error,
    run,
    simulated,
)
from .quantization.batches import as_arrays, named, split
from .warning import ExportWarning

__all__ = ["Quantized", "QuantizedLayer", "quantize"]

WHERE = "export.quantize"
MXNET, ONNX = "MXNet", "ONNX"
STORAGE = ("int8", "float32")
SENSITIVITY_BATCHES = 4   # that the error of each layer is measured on
UNSTEADY = ("_contrib_box_nms", "_contrib_MultiBoxDetection", "argmax", "argmin", "argsort", "topk", "one_hot")
Predict = Callable[[Any], Union[np.ndarray, list]]


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


def quantize(net: mx.gluon.HybridBlock | str | os.PathLike, prefix: str | os.PathLike | None, calibration: Any,
             held_out: Any = None, *, onnx: str | os.PathLike | None = None, method: str | None = None,
             percentile: float = 99.99, keep: Iterable[str] = (), layer_limit: float = 0.05,
             limit: float | None = None, score: Callable[[Predict], float] | None = None, epoch: int | None = None,
             opset: int = 17, storage: str = "int8") -> Quantized:
    """Write a net with 8-bit convolutions and dense layers: as symbol JSON for MXNet on the CPU, as ONNX, or both.

    Losses go and batch norms are folded. The range of every tensor comes from the calibration data. Weights are stored
    as int8 with a scale for each output channel, so files are about a fourth of the size. Each layer's error is
    measured: that of the net's outputs if this layer alone is quantized. A layer whose error is too large stays in
    float. The result is run on held-out data and compared with the float net before anything is written.

    The JSON needs MXNet 1.9.1 and nothing else. ``mx.mod.Module`` loads it as usual. For a ``SymbolBlock`` the int8
    weights have to be converted: ``block = SymbolBlock.imports(json, ["data"])``, then
    ``block.load_parameters(params, cast_dtype=True)``. The C predict API does not convert: it needs
    ``storage="float32"``.

    Parameters
    ----------
    net : HybridBlock, str or os.PathLike
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
        The largest error of the result on the held-out data; with `score`, how much lower the score may be.
    score : callable, optional
        Takes a function ``predict(data)`` and returns a number, larger for better: accuracy, or mAP. ``predict`` takes
        an array (or a dict of them) and returns the output in NumPy, or a list of several. Called once for the float
        net and for each result.
    epoch : int, optional
        Of the parameter file, where `net` is a path; the highest there is if left out.
    opset : int, default 17
        For `onnx`, 13 to 21.
    storage : {'int8', 'float32'}, default 'int8'
        Type of the weights in the ``.params``. With ``float32`` the file is as large as before and holds the same
        integers, for programs that do not convert types.

    Returns
    -------
    Quantized
        Print it to see the layers, their errors, and which stayed in float.

    Raises
    ------
    OpError
        The result is worse than `limit`, or not finite; no layer can be quantized; the net is not float32; `keep`
        names a layer that there is not; data or files do not fit. Nothing is written then.
    """
    _check_options(prefix, onnx, method, percentile, opset, {"layer_limit": layer_limit, "limit": limit})
    if storage not in STORAGE:
        raise OpError(WHERE, f"storage is {storage!r}; expected {' or '.join(STORAGE)}", "Choose one of them")
    given, held = split(as_arrays("calibration", calibration), held_out)
    model = _float_model(net, given[0], epoch)
    given, held = named(given, model), named(held, model)

    measured, tried = _measured(model), given[:SENSITIVITY_BATCHES]
    able = [layer.name for layer in layers_of(model) if reason_for_float(model, layer) is None]
    method, ranges = _calibrate(model, measured, able, given, method, percentile)
    errors = errors_of_layers(measured, ranges, able, tried)
    layers = _choose(model, errors, set(keep), layer_limit)
    plan = Quantization(frozenset(layer.name for layer in layers if layer.is_quantized), ranges)
    _check_some_layer(layers)

    results = {}
    if prefix is not None:
        results[MXNET] = _ForMXNet(os.fspath(prefix), model, measured, plan, storage)
    if onnx is not None:
        results[ONNX] = _ForONNX(os.fspath(onnx), model, measured, plan, opset)
    ran = {name: result for name, result in results.items() if result.runs}
    expected = run(measured, held)
    errors = {name: relative_error(result.outputs(held), expected) for name, result in ran.items()}
    scores = {} if score is None else _scores(score, model, ran)
    _check(errors, scores, limit, layers)
    paths = [path for result in results.values() for path in result.write()]
    return Quantized(tuple(paths), method, layers, errors, scores)


class _ForMXNet:
    """The net for MXNet's oneDNN operators."""

    runs = True

    def __init__(self, prefix, model, measured, plan, storage):
        self._prefix = prefix
        self._model = passes.quantize(model, plan.ranges, plan.layers)
        self._model.metadata["quantized"] = sorted(plan.layers)
        if storage == "float32":
            values = self._model.parameters
            self._model.parameters = {name: value.astype("float32") for name, value in values.items()}
        self._measured = self._model if measured is model else passes.quantize(measured, plan.ranges, plan.layers)

    def outputs(self, batches):
        """Of every batch, what is measured."""
        return run(self._measured, batches)

    def runner(self):
        """A function from a batch to the outputs."""
        return Runner(self._model.graph.symbol(), self._model.parameters)

    def write(self):
        """The paths."""
        return self._model.save(self._prefix)


class _ForONNX:
    """The net for ONNX."""

    def __init__(self, path, model, measured, plan, opset):
        self._path = path
        self._content = serialized(model, True, opset, {}, plan)
        self._measured = self._content if measured is model else serialized(measured, True, opset, {}, plan)
        self.runs = importlib.util.find_spec("onnxruntime") is not None

    def outputs(self, batches):
        """Of every batch, what is measured."""
        return list(map(_onnx_runner(self._measured), batches))

    def runner(self):
        """A function from a batch to the outputs."""
        return _onnx_runner(self._content)

    def write(self):
        """The paths."""
        replace(WHERE, {self._path: lambda temporary: pathlib.Path(temporary).write_bytes(self._content)})
        return [self._path]


def _onnx_runner(content):
    import onnxruntime
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return lambda batch: session.run(None, {name: value.asnumpy() for name, value in batch.items()})


def _check_options(prefix, onnx, method, percentile, opset, limits):
    if prefix is None and onnx is None:
        raise OpError(WHERE, "prefix and onnx are None; expected a file to write", "Pass one of them, or both")
    check_method("naive" if method is None else method, percentile)
    for name, value in limits.items():
        if value is not None and not value >= 0:
            raise OpError(WHERE, f"{name} is {value!r}; expected a number of at least 0", "Pass for instance 0.05")
    if prefix is not None:
        check_target(WHERE, *paths_of(os.fspath(prefix), 0))
    if onnx is not None:
        check_onnx(opset)
        check_target(WHERE, os.fspath(onnx))


def _float_model(net, batch, epoch):
    """The net as MXNet's operators for inference, batch norms folded."""
    shapes = {name or "data": (1, *array.shape[1:]) for name, array in batch.items()}
    if isinstance(net, (str, os.PathLike)):
        model = ExportedModel.from_files(net, epoch, WHERE)
        shape = shapes["data"] if None in batch else shapes
        model.inputs = shapes_of_inputs(WHERE, model.graph, model.parameters, model.inputs, shape)
    else:
        model = ExportedModel.from_net(net, shapes, where=WHERE)
    _check_float(model)
    model = passes.inference(model)
    if model.notes:
        warnings.warn(f"exported for inference, without {', '.join(model.notes)}", ExportWarning, stacklevel=3)
    return passes.prepare_for_fusion(passes.lower(passes.fold_batch_norm(model), "builtin"))


def _check_float(model):
    if any(node.op == "_contrib_quantize_v2" for node in model.graph.nodes()):
        raise OpError(WHERE, "the net is quantized already", "Pass the float net")
    dtype = model.metadata.setdefault("dtype", "float32")
    if dtype != "float32":
        raise OpError(WHERE, f"the net computes in {dtype}; expected float32", "Cast it: net.cast('float32')")


def _measured(model):
    """The model whose outputs are compared: the last layers', where the outputs jump from one value to another."""
    if not any(node.op in UNSTEADY for node in model.graph.nodes()):
        return model
    model = model.copy()
    layers = layers_of(model)
    model.graph.heads = [(layer, 0) for layer in layers if not _is_behind_another(layer, layers)]
    return model


def _is_behind_another(layer, layers):
    """Whether another layer is computed from a layer."""
    return any(layer in Graph([(other, 0)], {}).nodes() for other in layers if other is not layer)


def _calibrate(model, measured, layers, batches, method, percentile):
    """The method and its ranges: the one asked for, or that whose simulated error is least."""
    statistics = Statistics.of(model, batches)
    if method is not None:
        return method, statistics.ranges(method, percentile)
    tried = batches[:SENSITIVITY_BATCHES]
    expected = run(measured, tried)
    ranges = {name: statistics.ranges(name, percentile) for name in METHODS}
    errors = {name: relative_error(run(simulated(measured, ranges[name], layers), tried), expected) for name in METHODS}
    best = min(METHODS, key=errors.get)
    return best, ranges[best]


def _choose(model, errors, keep, layer_limit):
    """The table of layers: which are quantized, and why the others are not."""
    layers = layers_of(model)
    unknown = keep.difference(layer.name for layer in layers)
    if unknown:
        raise OpError(WHERE, f"keep names {sorted(unknown)[0]!r}, which is no layer of the net; it has "
                      f"{', '.join(layer.name for layer in layers)}", "Use these names")
    rows = []
    for layer in layers:
        error = errors.get(layer.name)
        reason = reason_for_float(model, layer) or ""
        if layer.name in keep:
            reason = "asked for"
        elif error is not None and not error <= layer_limit:
            reason = f"its error is above {layer_limit:g}"
        rows.append(QuantizedLayer(layer.name, layer.op, error, reason))
    return tuple(rows)


def _check_some_layer(layers):
    if not any(layer.is_quantized for layer in layers):
        table = Quantized((), "", layers, {}, {})
        raise OpError(WHERE, f"no layer can be quantized:\n{table}\n",
                      "Raise layer_limit, or calibrate with data like that which the net was trained on")


def _scores(score, model, results):
    """The user's score of the float net and of the results."""
    runners = {"float": Runner(model.graph.symbol(), model.parameters)}
    runners.update((name, result.runner()) for name, result in results.items())
    return {name: float(score(_predict(runner, model))) for name, runner in runners.items()}


def _predict(runner, model):
    """The function that a score calls."""
    def predict(data):
        outputs = []
        for batch in named(as_arrays("the argument of predict", data), model):
            outputs.append(runner(batch))
        joined = [np.concatenate(parts) for parts in zip(*outputs)]
        return joined[0] if len(joined) == 1 else joined
    return predict


def _check(errors, scores, limit, layers):
    """Raise where a result is worse than it may be."""
    for name, error in errors.items():
        lost = scores["float"] - scores[name] if scores else error
        if np.isfinite(error) and (limit is None or lost <= limit):
            continue
        worst = max((layer for layer in layers if layer.is_quantized), key=lambda layer: layer.error)
        if scores:
            what = f"the score for {name} is {scores[name]:.5g} on the held-out data, {lost:.5g} below the float net's"
        else:
            what = f"the result for {name} has an error of {error:.5g} on the held-out data"
        raise OpError(WHERE, f"{what}; expected at most {limit}",
                      f"Lower layer_limit, or keep layers in float: {worst.name!r} has the largest error "
                      f"({worst.error:.5g}). More calibration data, or another method, may help too")
