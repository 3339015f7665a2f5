"""Load a detector to evaluate it, or to run it on images: an exported one, or a Darknet cfg with weights."""
from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import mxnet as mx
from mxnet import gluon

from .. import darknet
from ..core.errors import OpError
from ..data.base import class_names
from ..export import ExportedModel

__all__ = ["LoadedDetector", "load_detector"]

WHERE = "train.load_detector"


class LoadedDetector(NamedTuple):
    """A detector and what it needs.

    Attributes
    ----------
    detector : callable
        Images (B, 3, H, W), RGB from 0 to 1, to ids (B, N, 1), scores (B, N, 1) and boxes (B, N, 4).
    classes : tuple of str
        Names of the classes.
    size : tuple of int
        (width, height) of the input that it was exported with, or that the cfg has.
    """

    detector: Callable
    classes: tuple[str, ...]
    size: tuple[int, int]


def load_detector(exported: str | os.PathLike | None = None, cfg: str | os.PathLike | None = None,
                  weights: str | os.PathLike | None = None, names: str | Sequence[str] | None = None,
                  threshold: float = 0.01, device: mx.Context | None = None) -> LoadedDetector:
    """Load a detector from exported files, or from a Darknet cfg and its weights.

    Parameters
    ----------
    exported : str or os.PathLike, optional
        Path of the exported files, without ``-symbol.json``. An exported detector has its own threshold, so that
        ``threshold`` can only leave out more.
    cfg, weights : str or os.PathLike, optional
        Darknet's files, if there is no ``exported``.
    names : str or sequence of str, optional
        Names of the classes, or a file with one per line. Exported detectors have them; without names, classes have
        numbers.
    threshold : float, default 0.01
        Least probability of a detection.
    device : mxnet.Context, optional

    Returns
    -------
    LoadedDetector

    Raises
    ------
    OpError
        Not exactly one of ``exported`` and ``cfg`` is given, a file cannot be read, or the net is no detector.
    """
    device = device or mx.cpu()
    if (exported is None) == (cfg is None):
        raise OpError(WHERE, "exported and cfg are both given" if cfg else "neither exported nor cfg is given",
                      "Name the exported files, or a Darknet cfg with its weights")
    if exported is not None:
        return _from_files(os.fspath(exported), names, device)
    if weights is None:
        raise OpError(WHERE, f"{cfg} has no weights", "Name its weights, too")
    net = darknet.load(cfg, weights, device)
    detector = net.detector(threshold)
    detector.hybridize(static_alloc=True)
    _, height, width = net.input_shape
    return LoadedDetector(detector, _names(names, detector.classes), (width, height))


def _from_files(prefix, names, device):
    model = ExportedModel.from_files(prefix, where=WHERE)
    shape = model.inputs.get("data", ())
    classes = model.metadata.get("classes")
    count = len(model.graph.symbol().list_outputs())
    if count != 3 or len(shape) != 4:
        raise OpError(WHERE, f"{prefix}-symbol.json has {count} outputs for data of shape {shape}; expected ids, "
                      "scores and boxes for images", "Export net.detector() with gluonops.export.symbol")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")   # that MXNet cannot decide the type of the data
        detector = gluon.SymbolBlock(model.graph.symbol(), [mx.sym.var("data")])
    for name, parameter in detector.collect_params().items():
        parameter._load_init(model.parameters[name], device, cast_dtype=True)   # int8 weights are float32 in the graph
    detector.hybridize(static_alloc=True)
    if names is None and isinstance(classes, list):
        names = classes
    return LoadedDetector(detector, _names(names, classes), (shape[3], shape[2]))


def _names(names, count):
    """The names of the classes; numbers where there are none."""
    count = len(count) if isinstance(count, (list, tuple)) else count
    if names is None:
        if count is None:
            raise OpError(WHERE, "the exported files do not have the number of classes", "Pass names")
        return tuple(map(str, range(count)))
    found = class_names(names, WHERE)
    if count is not None and len(found) != count:
        raise OpError(WHERE, f"there are {len(found)} names; the net has {count} classes", "Pass its own names")
    return found
