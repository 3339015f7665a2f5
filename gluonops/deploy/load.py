"""Loads a net from files, together with its classes, sizes and preprocessing, which the files contain."""
from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Union

import mxnet as mx
from mxnet import gluon

from .. import darknet
from ..contract.errors import OpError, plural
from ..data.base import class_names
from ..export import passes
from ..export.graph import Graph
from ..export.locate import ARCHIVES, SYMBOL, split
from ..export.metadata import classes_of, metadata_of
from ..export.model import ExportedModel
from ..export.onnx.session import OnnxNet
from ..export.preprocessing import Preprocessing
from ..export.symbol_files import shapes_of_inputs
from ..export.training_parts import ends_in_softmax
from .int8 import check_model, check_onnx
from .nets import LoadedClassifier, LoadedDetector

WHERE = "export.load"
OLDER = "it was exported by an older gluonops, or by another program"
Names = Union[Sequence[str], str, os.PathLike]


def load(path: str | os.PathLike, weights: str | os.PathLike | None = None, classes: Names | None = None,
         preprocessing: Mapping[str, Any] | Preprocessing | None = None, epoch: int | None = None,
         device: mx.Context | None = None, threshold: float | None = None, nms: float | None = None,
         topk: int | None = None, progress: Callable[[Iterable], Iterable] | None = None, resize: str | None = None,
         data_shape: tuple[int, ...] | None = None,
         outputs: Iterable[str] = ()) -> LoadedDetector | LoadedClassifier:
    """Load a net that is ready to run on images.

    Parameters
    ----------
    path : str or os.PathLike
        An exported net: ``out/net`` for ``out/net-symbol.json`` with ``out/net-0000.params``, a folder or an archive
        with one net, or an ``.onnx`` file, which needs onnxruntime. Or a Darknet ``.cfg``.
    weights : str or os.PathLike, optional
        Darknet's ``.weights``, for a cfg.
    classes : sequence of str, str or os.PathLike, optional
        Names of the classes, or a file with one per line. Files that a training script has exported have them.
    preprocessing : dict or Preprocessing, optional
        How images are prepared, for files that do not say it: see :class:`gluonops.export.Preprocessing`.
    epoch : int, optional
        Number of the parameter file. The default is the highest one.
    device : mxnet.Context, optional
        The device to run on. The default is the CPU. An ONNX file always runs on the CPU.
    threshold, nms, topk : optional
        Parameters of :class:`gluonops.darknet.Detector`, for a cfg. In exported files they are fixed.
    progress : callable, optional
        Wraps the sequence of layers, for a cfg: see :func:`gluonops.darknet.load`.
    resize : {"letterbox", "stretch", "crop"}, optional
        How images get the net's size: see :class:`gluonops.export.Preprocessing`. The default is what the file says.
        For a cfg of AlexeyAB's Darknet it is ``stretch``, unless the cfg has ``letter_box=1``. For other cfgs it is
        ``letterbox``.
    data_shape : tuple of int, optional
        Shape of the input, with the batch. It is needed for symbol JSON that does not contain it, or to take images of
        another size.
    outputs : iterable of str, optional
        Nodes to take as outputs, for symbol JSON: as in :func:`gluonops.export.onnx`.

    Returns
    -------
    LoadedDetector or LoadedClassifier
        ``detect`` and ``classify`` take a picture. ``draw`` shows what they find.

    Raises
    ------
    OpError
        A file is missing or damaged, the net is neither a detector nor a classifier, or the file does not say what is
        needed to run it.
    """
    path, device = os.fspath(path), device or mx.cpu()
    for name, value in (("data_shape", data_shape), ("outputs", outputs)):
        if value and path.endswith((".cfg", ".onnx")):
            raise OpError(WHERE, f"{name} was passed for {path}, in which it is fixed", f"Leave {name} out")
    detection = {name: value for name, value in (("threshold", threshold), ("nms", nms), ("topk", topk))
                 if value is not None}
    if path.endswith(".cfg"):
        source = _from_darknet(path, weights, device, detection, progress)
    else:
        if weights is not None:
            raise OpError(WHERE, f"weights were passed for {path}, which is not a .cfg file; expected Darknet's cfg "
                          "with its weights", "Leave the weights out, because an exported net has its own")
        if detection:
            name = next(iter(detection))
            raise OpError(WHERE, f"{name} was passed for the exported net {path}, in which it is fixed",
                          f"Leave {name} out, or export net.detector({name}=...)")
        source = _from_onnx(path) if path.endswith(".onnx") else _from_symbol(path, epoch, device, data_shape,
                                                                                     outputs)
    return _loaded(path, source, classes, preprocessing, resize, device)


class _Source(NamedTuple):
    """A net, the shape of its input, and the metadata of its file."""

    net: Callable
    shape: tuple[int, ...]
    metadata: dict[str, Any]


def is_exported(path: str) -> bool:
    """Whether there are files of an exported net at this path."""
    if os.path.isdir(path):
        return any(name.endswith(SYMBOL) for name in os.listdir(path))
    return os.path.isfile(path if path.endswith((".onnx", *ARCHIVES)) else f"{split(path)[0]}{SYMBOL}")


def _from_symbol(path, epoch, device, data_shape, outputs):
    model = ExportedModel.from_files(path, epoch, WHERE, outputs)
    check_model(path, model)
    prefix, _ = split(path)
    if data_shape is not None:
        model.inputs = shapes_of_inputs(WHERE, model.graph, model.parameters, model.inputs, data_shape)
    model.write_legacy_names()
    if model.has_label():
        model = passes.inference(model)
    model = passes.describe(passes.detections(model))   # older files have less metadata
    inputs = [name for name in model.graph.variables() if name not in model.parameters]
    if len(inputs) != 1:
        raise OpError(WHERE, f"{prefix}-symbol.json has the inputs {', '.join(inputs) or 'none'}; expected one input, "
                      "the images", "Export a net that takes only images")
    if inputs[0] not in model.inputs:
        raise OpError(WHERE, f"{prefix}-symbol.json does not contain the shape of its input: {OLDER}",
                      "Pass data_shape, or --data-shape; or export the net with gluonops.export.symbol")
    graph = passes.lower(model, "auto").graph
    with graph.mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")   # MXNet warns that it cannot decide the type of the data.
        net = gluon.SymbolBlock(graph.symbol(), [mx.sym.var(inputs[0])])
        for name, parameter in net.collect_params().items():
            parameter._load_init(model.parameters[name], device, cast_dtype=True)   # those of 8-bit layers are int8
    net.hybridize(static_alloc=True)
    return _Source(_InMode(net, graph), model.inputs[inputs[0]], model.metadata)


class _InMode:
    """Calls a net with legacy arrays in the mode of its graph, whether or not the process is in NumPy mode."""

    def __init__(self, net: gluon.SymbolBlock, graph: Graph):
        self._net, self._graph = net, graph

    def __call__(self, batch: mx.nd.NDArray) -> mx.nd.NDArray | list[mx.nd.NDArray]:
        with self._graph.mode():
            return self._net(batch)


def _from_onnx(path):
    net = OnnxNet(path, WHERE)
    check_onnx(path, net.metadata)
    task = {1: "classification", 3: "detection"}.get(net.outputs)   # older files do not say it
    return _Source(net, net.shape, {"task": task, **net.metadata, "dtype": net.dtype})


def _from_darknet(path, weights, device, options, progress):
    if weights is None:
        raise OpError(WHERE, f"no weights were passed for {path}; expected the path of its weights file",
                      "Pass the path of the .weights file, too")
    net = darknet.load(path, weights, device, **({"progress": progress} if progress else {}))
    shape = 1, *net.input_shape
    if net._detections:
        net = net.detector(**options)
        task = "detection"
    elif options:
        raise OpError(WHERE, f"{next(iter(options))} was passed for {path}, which is not a detector",
                      f"Leave {next(iter(options))} out")
    else:
        task = "classification"
    net.hybridize(static_alloc=True)
    metadata = {**metadata_of(net), "task": task}
    if task == "classification":
        is_probability = ends_in_softmax(ExportedModel.from_net(net, shape, where=WHERE).graph)
        metadata["output"] = "probabilities" if is_probability else "logits"
    return _Source(net, shape, metadata)


def _loaded(path, source, classes, preprocessing, resize, device):
    """The net, with its names, sizes and preprocessing checked."""
    task = source.metadata.get("task")
    if len(source.shape) != 4 or task not in ("detection", "classification"):
        raise OpError(WHERE, f"{path} takes data of shape {source.shape}, and is neither a detector nor a classifier "
                      "of images", "Export net.detector(), or a net that returns a score for each class")
    if preprocessing is None:
        preprocessing = source.metadata.get("preprocessing")
    if preprocessing is None:
        raise OpError(WHERE, f"{path} does not say how images are prepared for it: {OLDER}",
                      "Export the net again with this gluonops; or pass it as preprocessing, or --preprocessing "
                      "'{\"colours\": \"RGB\", \"range\": [0, 1], \"resize\": \"letterbox\"}'")
    preprocessing = Preprocessing.from_metadata(preprocessing)
    if resize is not None:
        preprocessing = dataclasses.replace(preprocessing, resize=resize)
    channels, height, width = source.shape[1:]
    if preprocessing.layout == "NHWC":
        height, width, channels = source.shape[1:]
    if channels != preprocessing.channels:
        raise OpError(WHERE, f"{path} takes images of {channels} channels, and its preprocessing has colours "
                      f"{preprocessing.colours!r}",
                      "Pass a preprocessing with as many colours as the net has input channels")
    arguments = (source.net, _names(path, source, classes), (width, height), preprocessing, device,
                 source.metadata.get("dtype", "float32"))
    if task == "detection":
        threshold = source.metadata.get("threshold")
        loaded = LoadedDetector(*arguments, threshold=threshold if isinstance(threshold, (int, float)) else 0.0)
    else:
        loaded = LoadedClassifier(*arguments, returns=source.metadata.get("output", "logits"))
    loaded.source = path
    return loaded


def _names(path, source, wanted):
    """The names of the classes. If neither the caller nor the file has names, they are numbers."""
    stored = source.metadata.get("classes")
    names = None if stored is None else classes_of(WHERE, path, stored)
    if wanted is not None:
        wanted = class_names(wanted, WHERE)
        if names is not None and len(wanted) != len(names):
            raise OpError(WHERE, f"classes has {plural(len(wanted), 'name')}; expected {len(names)}, one for each "
                          "class of the net", "Pass the names of the net's own classes")
        return wanted
    if names is None:
        raise OpError(WHERE, f"{path} does not contain the names of its classes: {OLDER}",
                      "Export the net again with this gluonops; or pass classes, or --names FILE")
    return names
