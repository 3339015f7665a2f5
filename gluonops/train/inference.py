"""Load a detector to evaluate it, or to run it on images: an exported one, or a Darknet cfg with weights."""
from __future__ import annotations

import os
from collections.abc import Sequence

import mxnet as mx

from ..core.errors import OpError
from ..export import LoadedDetector, Preprocessing, load

__all__ = ["load_detector"]

WHERE = "train.load_detector"


def load_detector(exported: str | os.PathLike | None = None, cfg: str | os.PathLike | None = None,
                  weights: str | os.PathLike | None = None, names: str | Sequence[str] | None = None,
                  threshold: float = 0.01, device: mx.Context | None = None) -> LoadedDetector:
    """Load a detector from exported files, or from a Darknet cfg and its weights, as :func:`gluonops.export.load` does.

    Parameters
    ----------
    exported : str or os.PathLike, optional
        Path of the exported files, without ``-symbol.json``, or of an ``.onnx`` file. An exported detector has its own
        threshold, so that ``threshold`` does not change it.
    cfg, weights : str or os.PathLike, optional
        Darknet's files, if there is no ``exported``. Images are letterboxed, also for cfgs of AlexeyAB's Darknet, which
        stretches them.
    names : str or sequence of str, optional
        Names of the classes, or a file with one per line. Exported detectors have them; without names, classes have
        numbers.
    threshold : float, default 0.01
        Least probability of a detection.
    device : mxnet.Context, optional

    Raises
    ------
    OpError
        Not exactly one of ``exported`` and ``cfg`` is given, a file cannot be read, the net is no detector, or it takes
        other images than letterboxed RGB from 0 to 1, which :func:`evaluate_detector` prepares.
    """
    if (exported is None) == (cfg is None):
        raise OpError(WHERE, "exported and cfg are both given" if cfg else "neither exported nor cfg is given",
                      "Name the exported files, or a Darknet cfg with its weights")
    if exported is not None:
        net = load(exported, classes=names, device=device)
    else:
        net = load(cfg, weights, names, threshold=threshold, device=device, resize="letterbox")
    if not isinstance(net, LoadedDetector):
        raise OpError(WHERE, f"{exported or cfg} is a classifier; expected a detector", "Export net.detector()")
    if net.preprocessing != Preprocessing():
        raise OpError(WHERE, f"{exported or cfg} takes images prepared as {net.preprocessing.as_dict()}; expected "
                      f"{Preprocessing().as_dict()}", "Run it with gluonops.export.load")
    return net
