"""Load a net to evaluate it, or to run it on images: an exported one, or a Darknet cfg with weights."""
from __future__ import annotations

import os
from collections.abc import Sequence

import mxnet as mx

from ..core.errors import OpError
from ..darknet import read_training
from ..export import LoadedClassifier, LoadedDetector, Preprocessing, load

__all__ = ["load_net"]

WHERE = "train.load_net"


def load_net(path: str | os.PathLike, weights: str | os.PathLike | None = None,
             names: str | Sequence[str] | None = None, threshold: float = 0.01,
             device: mx.Context | None = None) -> LoadedDetector | LoadedClassifier:
    """Load a net from exported files, or from a Darknet cfg and its weights, as :func:`gluonops.export.load` does.

    An OpError if a file cannot be read, or a detector takes other images than letterboxed RGB from 0 to 1, which
    :func:`evaluate_detector` prepares.

    Parameters
    ----------
    path, weights, names, device
        As :func:`gluonops.export.load` takes them. A detector gets letterboxed images, also if its cfg is for
        AlexeyAB's Darknet, which stretches them.
    threshold : float, default 0.01
        Least probability of a detection. An exported detector has its own threshold, so that this does not change it.
    """
    path = os.fspath(path)
    options = {}
    if path.endswith(".cfg") and read_training(path).task == "detection":
        options = {"threshold": threshold, "resize": "letterbox"}
    net = load(path, weights, names, device=device, **options)
    if isinstance(net, LoadedDetector) and net.preprocessing != Preprocessing():
        raise OpError(WHERE, f"{path} takes images prepared as {net.preprocessing.as_dict()}; expected "
                      f"{Preprocessing().as_dict()}", "Run it with gluonops.export.load")
    return net
