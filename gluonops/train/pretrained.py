"""Start a net from existing weights; an output layer keeps the rows of the classes that it knew before."""
from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence

from mxnet import gluon

from ..core.errors import OpError
from ..darknet import load_weights
from ..data.base import class_names
from .checkpoint import net_tensors, read_checkpoint, read_parameters, restore_net
from .darknet_recipe import FIRST_LAYERS
from .recipe import is_small

__all__ = ["describe_pretrained", "load_pretrained_classifier", "load_pretrained_detector", "pretrained_source"]

Path = os.PathLike
AUTO, NONE = "auto", "none"   # --pretrained takes them besides paths


def pretrained_source(words: str | None, net: gluon.Block, images: int) -> str:
    """What ``--pretrained`` means for a net and a data set.

    Parameters
    ----------
    words : str or None
        ``auto``: the backbone in the package. ``none``: random weights. A file. None: ``auto`` for a small data set, if
        the package has weights for this net, and else ``none``.
    net : gluon.Block
        A detector of :mod:`gluonops.models`, or a :class:`gluonops.models.Classifier`.
    images : int
        Number of training images.

    Returns
    -------
    str
        ``auto``, ``none`` or the file.
    """
    if words is not None:
        return words
    return AUTO if is_small(images) and net.has_pretrained_backbone else NONE


def describe_pretrained(source: str, kept: Sequence[str]) -> str:
    """A sentence about the weights that were loaded.

    Parameters
    ----------
    source : str
        Source of :func:`pretrained_source`.
    kept : sequence of str
        The classes whose rows of the output are kept.
    """
    if source == AUTO:
        return "The net starts from the backbone in the package; --pretrained none starts from random weights."
    return f"{source} is loaded. The output is kept for {', '.join(kept) or 'no class'}."


def load_pretrained_classifier(net: gluon.Block, path: str | Path,
                               names: str | Path | Sequence[str] | None = None) -> list[str]:
    """Load weights into a classifier of :func:`gluonops.models.classifier`.

    The rows of the output layer whose class has the same name in the file are reused. The other rows, and an output of
    another width, stay as they are.

    Parameters
    ----------
    net : gluonops.models.Classifier
        Initialized, with known shapes.
    path : str or os.PathLike
        A ``.checkpoint``, a ``.params`` file of such a net, or ``.weights`` of Darknet-19. ``auto``: the backbone in
        the package.
    names : str or sequence of str, optional
        The names of the file's classes, or a file with one per line. A checkpoint has them itself.

    Returns
    -------
    list of str
        The classes whose rows were reused.

    Raises
    ------
    OpError
        The file cannot be read, or is of another net; the names do not fit it.
    """
    where, path = "train.load_pretrained_classifier", pathlib.Path(path)
    if _is_package_backbone(net, path, names, where):
        return []
    tensors, known = _read(path, names, where)
    if tensors is None:
        is_darknet = path.suffix == ".weights"
        tensors = net.darknet_tensors(path, len(known or range(1000))) if is_darknet else read_parameters(path)
    restore_net(tensors, net, path, leave="output")
    if not known or "output.weight" not in tensors:
        return []
    wanted, shape = net._collect_params_with_prefix(), tensors["output.weight"].shape
    if len(known) != shape[0]:
        raise OpError(where, f"{names} has {len(known)} names; expected {shape[0]}, one for each output of {path}",
                      "Name the file with the classes that it was trained on")
    if shape[1:] != wanted["output.weight"].shape[1:]:
        return []
    reused = [name for name in net.classes if name in known]
    for part in ("output.weight", "output.bias"):
        rows = wanted[part].data().copy()
        for name in reused:
            rows[net.classes.index(name)] = tensors[part][known.index(name)]
        wanted[part].set_data(rows)
    return reused


def load_pretrained_detector(net: gluon.Block, path: str | Path,
                             names: str | Path | Sequence[str] | None = None) -> list[str]:
    """Load weights into a detector of :mod:`gluonops.models`: ``yolov2``, ``tiny_yolov2`` or ``region_detector``.

    The output keeps the rows of the classes that have the same name in the file. If it has other classes than the net,
    the rest of the output starts anew.

    Parameters
    ----------
    net : gluonops.models.YOLOv2Base
        Initialized, with known shapes.
    path : str or os.PathLike
        A ``.checkpoint``, a ``.params`` file of such a net, Darknet's ``.weights``, or the first layers of Darknet
        weights, ``.conv.N``. ``auto``: the backbone in the package.
    names : str or sequence of str, optional
        The names of the file's classes, or a file with one per line, such as Darknet's ``data/voc.names``. A
        checkpoint has them itself, and first layers have none.

    Returns
    -------
    list of str
        The classes whose rows were kept.

    Raises
    ------
    OpError
        The file cannot be read, or is of another net; the names are missing or do not fit it.
    """
    where, path = "train.load_pretrained_detector", pathlib.Path(path)
    if _is_package_backbone(net, path, names, where):
        return []
    if FIRST_LAYERS.search(path.name):
        load_weights(net.backbone, path)
        return []
    tensors, known = _read(path, names, where)
    if known is None:
        raise OpError(where, f"{path} does not hold the names of its classes",
                      "Name them with --pretrained-names, a file such as Darknet's data/voc.names")
    wanted = list(net.classes)
    if known != wanted:
        net.reset_class(known)
    if tensors is None:
        net.load_darknet(os.fspath(path))
    else:
        restore_net(tensors, net, path)
    reused = [name for name in wanted if name in known]
    if known != wanted:
        net.reset_class(wanted, reuse_weights=reused or None)
    return reused


def _is_package_backbone(net, path, names, where):
    """Whether this is what ``path`` means: then it is loaded."""
    if path.name != AUTO:
        return False
    _refuse(names, AUTO, "the backbone in the package has no classes", where)
    net.load_pretrained_backbone()
    return True


def _read(path, names, where):
    """(tensors, or None for another file than a checkpoint or ``.params``; names of the classes, or None)"""
    if path.suffix != ".checkpoint":
        known = list(class_names(names, where)) if names else None
        return read_parameters(path) if path.suffix == ".params" else None, known
    _refuse(names, path, "a checkpoint has its classes' names", where)
    tensors, train_state = read_checkpoint(path)
    return net_tensors(tensors), list(train_state["classes"])


def _refuse(names, source, why, where):
    """An OpError if there are names for a source that takes none."""
    if names:
        raise OpError(where, f"--pretrained-names is {names} and --pretrained is {source}; expected a file of "
                      "parameters without names", f"Leave it out: {why}")
