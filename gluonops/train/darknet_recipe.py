"""Trains a cfg as Darknet does: what follows from :func:`gluonops.darknet.read_training`."""
from __future__ import annotations

import math
import os
import pathlib
import re
from collections.abc import Callable, Sequence

import mxnet as mx
import numpy as np
from mxnet import gluon

from .. import data
from ..core.errors import OpError
from ..darknet import DarknetNet, TrainingOptions, adapt_cfg, load, load_weights, read_training, shorter_policy
from ..darknet.cfg import read_cfg
from ..data.anchors import box_sizes
from .images import classification_batch
from .metrics import accuracy, evaluate_detector
from .optimizers import Schedule, darknet_schedule
from .workers import Workers, updates_per_epoch

__all__ = ["darknet_anchors", "darknet_augment", "darknet_epochs", "darknet_optimizer",
           "darknet_schedule_from", "darknet_scorer", "initialize_darknet", "load_first_layers", "shorten_cfg"]

FIRST_LAYERS = re.compile(r"\.conv\.(\d+)$")   # a file of Darknet's first layers, such as darknet19_448.conv.23
LEAST_UPDATES = 100   # an epoch has at least so many; AlexeyAB's program does not measure more often
LEAST_SCORE = 0.01     # detections with less are not measured
MOST_DETECTIONS = 100  # further detections of an image are not measured


def darknet_augment(options: TrainingOptions) -> data.Augment:
    """How the training images of a cfg change.

    Parameters
    ----------
    options : TrainingOptions

    Returns
    -------
    Augment
        :class:`gluonops.data.Turn` for classifiers, :class:`gluonops.data.Crop` for AlexeyAB's detectors, else
        :class:`gluonops.data.Augment` itself.
    """
    common = {"flip": 0.5 if options.flip else 0, "hue": options.hue, "saturation": options.saturation,
              "exposure": options.exposure}
    if options.task == "classification":
        return data.Turn(options.angle, options.aspect, options.crops, **common)
    if options.dialect == "pjreddie":
        return data.Augment(options.jitter, (1, 1), **common)
    return data.Crop(options.jitter, options.resize, options.letter_box, options.mosaic, options.mosaic_bound, **common)


def darknet_optimizer(options: TrainingOptions) -> tuple[str, dict]:
    """(name, arguments) for :func:`gluonops.train.make_trainer`."""
    return ("sgd", {"momentum": options.momentum}) if options.adam is None else ("adam", options.adam)


def darknet_anchors(cfg: str | os.PathLike, dataset: data.DetectionDataset, seed: int = 0) -> list | None:
    """Anchors of a data set, by k-means, as many as a cfg has, and in its unit. None for ``[detection]``, without any.

    Parameters
    ----------
    cfg : str or os.PathLike
    dataset : gluonops.data.DetectionDataset
    seed : int, default 0
        Seed of k-means.

    Returns
    -------
    list, optional
        Pairs of a width and a height, in pixels for ``[yolo]``, in cells for ``[region]``.
    """
    size = read_training(cfg).size
    head = read_cfg(cfg)[-1]
    if head.kind == "detection":
        return None
    stride = load(cfg)._detections[-1].stride if head.kind == "region" else 1
    anchors, _ = data.kmeans(box_sizes(dataset, size) / stride, head.integer("num", 1, 1), seed)
    return anchors.tolist()


def shorten_cfg(cfg: str | os.PathLike, images: int, batches: int | None, epochs: int | None,
                workers: Workers | None = None) -> None:
    """Give a cfg a run of another length: so many updates, or passes over the images. Neither: it stays as it is."""
    if epochs is not None:
        options = read_training(cfg)
        batches = epochs * updates_per_epoch(images, options.mini_batch, workers, options.subdivisions)
    if batches is not None:
        adapt_cfg(cfg, cfg, net=shorter_policy(cfg, batches))


def _images_per_update(options, workers):
    """All workers' images: each takes the batch of the cfg. With dist_async an update has the images of one."""
    return options.batch * (workers.count if workers and workers.in_step else 1)


def darknet_epochs(options: TrainingOptions, images: int, seen: int = 0,
                   workers: Workers | None = None) -> tuple[int, int]:
    """(epochs, times that an epoch shows each image) of a run up to ``max_batches`` updates.

    An epoch has about 100 updates or more, or as many as the run has. The last epoch is not cut short, so the run may
    have some more. An OpError if the cfg does not say how long it is trained, or the net has been trained so long.

    Parameters
    ----------
    options : TrainingOptions
    images : int
        Number of training images.
    seen : int, default 0
        Number of images that the net has been trained on.
    workers : Workers, optional
        Workers of the job. Each of them takes the batch of the cfg.
    """
    where = "train.darknet_epochs"
    if not options.max_batches:
        raise OpError(where, "the cfg has no max_batches; expected the number of updates",
                      "Add it, or pass --batches or --epochs")
    batch = _images_per_update(options, workers)
    left = options.max_batches - seen // batch
    if left <= 0:
        raise OpError(where, f"the weights have seen {seen} images, {seen // batch} batches; expected less "
                      f"than max_batches, {options.max_batches}",
                      "Pass --clear to start from the beginning, or more --batches")
    repeats = max(1, round(min(LEAST_UPDATES, left) * batch / images))
    updates = updates_per_epoch(repeats * images, options.mini_batch, workers, options.subdivisions)
    return math.ceil(left / updates), repeats


def darknet_scorer(net: DarknetNet, images: gluon.data.Dataset, options: TrainingOptions, device: mx.Context,
                   classes: Sequence[str], threads: int = 0) -> Callable[[], dict[str, float]]:
    """A function that measures a net: the summary of :class:`gluonops.train.DetectionMetrics`, or ``accuracy``.

    Parameters
    ----------
    net : DarknetNet
        Initialized.
    images : gluon.data.Dataset
        Held out. They are letterboxed or stretched, as ``net.preprocessing`` says.
    options : TrainingOptions
    device : mxnet.Context
    classes : sequence of str
    threads : int, default 0
        Threads that read images ahead.
    """
    stretched = net.preprocessing["resize"] == "stretch"
    fitted = data.Stretched(images, options.size) if stretched else data.Letterboxed(images, options.size)
    batchify = data.validation_batch if options.task == "detection" else classification_batch
    loader = gluon.data.DataLoader(fitted, options.mini_batch, batchify_fn=batchify, num_workers=threads,
                                   thread_pool=True)
    if options.task == "detection":
        detector = net.detector(threshold=LEAST_SCORE, topk=MOST_DETECTIONS)
        return lambda: evaluate_detector(detector, loader, options.size, device, classes,
                                         stretched=stretched).summary()

    def score():
        outputs = [(net(batch.as_in_context(device)).flatten().asnumpy(), labels.asnumpy())
                   for batch, labels in loader]
        return {"accuracy": accuracy(*map(np.concatenate, zip(*outputs)))}

    return score


def initialize_darknet(net: DarknetNet) -> None:
    """Random weights as Darknet draws them: normal, with a variance of 2 by the number of inputs."""
    net.initialize(mx.init.Xavier("gaussian", "in", magnitude=2))


def load_first_layers(net: DarknetNet, path: str | os.PathLike, layers: int | None = None) -> int:
    """Load the weights of a Darknet file, or those of its first layers.

    Parameters
    ----------
    net : DarknetNet
        Initialized.
    path : str or os.PathLike
        ``.weights``, or ``.conv.N``, the first N layers.
    layers : int, optional
        How many layers to load. The default is N, or all of them.

    Returns
    -------
    int
        Number of images that the weights have seen; 0 for first layers, as in Darknet.

    Raises
    ------
    OpError
        The file cannot be read, or does not fit.
    """
    match = FIRST_LAYERS.search(pathlib.Path(path).name)
    if layers is None and match:
        layers = int(match.group(1))
    header = load_weights(net, path, layers=layers)
    return header.seen if layers is None else 0


def darknet_schedule_from(cfg: str | os.PathLike, seen: int, workers: Workers | None = None) -> Schedule:
    """The learning rate of a cfg, for a net that has seen so many images. See :func:`darknet_schedule`."""
    rates = darknet_schedule(cfg)
    rates.start = seen // _images_per_update(read_training(cfg), workers)
    return rates
