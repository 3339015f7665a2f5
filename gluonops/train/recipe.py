"""Settings of a run that follow from the number of images or from a Darknet cfg: its length, its weights, and others.

The defaults of the scripts are for thousands of images. With 60 images they would make 50 updates, and no net learns in
50 updates. So the length of a run is counted in updates. These are the rules. None of them changes a run on thousands
of images.

- **Updates.** Without ``--epochs``, an epoch shows each image so often that the run has :data:`LEAST_UPDATES` updates.
- **Batch norm.** After half of the updates, at most 1 % of the initial running statistics is left.
- **Weights.** With fewer than :data:`SMALL` images, a net starts from the backbone in the package, if there is one.
- **Objects.** Without these weights, the pretraining on the objects makes at least :data:`LEAST_PRETRAINING` updates.
- **Gradients.** A detector limits the norm of its gradients. With few images, the first batches can throw its boxes to
  infinity.
- **Anchors.** At most a fiftieth of the images of a run are used to draw all boxes to the anchors.

A Darknet cfg has its own rules, which :func:`gluonops.darknet.read_training` reads.
"""
from __future__ import annotations

import argparse
import contextlib
import math
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence

import mxnet as mx
import numpy as np
from mxnet import gluon

from .. import data
from ..contract.errors import OpError
from ..darknet import DarknetNet, TrainingOptions, adapt_cfg, load, load_weights, read_training, shorter_policy
from ..darknet.cfg import read_cfg
from .image_sets import classification_batch
from .metrics import accuracy, evaluate_detector
from .optimizers import Schedule, darknet_schedule
from .parameters import blocks_of
from .workers import Workers, updates_per_epoch

__all__ = ["anchor_images", "darknet_anchors", "darknet_augment", "darknet_epochs", "darknet_optimizer",
           "darknet_schedule_from", "darknet_scorer", "fit_batch_norm", "gradient_limit", "hint_for_classifier",
           "hint_for_detector", "initialize_darknet", "is_small", "load_first_layers", "passes_over_objects", "repeats",
           "shorten_cfg", "warning_of_few_updates"]

SMALL = 1000              # images; fewer are a small data set
LEAST_UPDATES = 600       # a run without --epochs makes at least so many
LEAST_PRETRAINING = 300   # the pretraining on objects makes at least so many
OBJECT_BATCH = 32         # objects of a batch of the pretraining
# Fewer updates train nothing from random weights; from trained weights a tenth is enough.
FEW_UPDATES = {"detector": 300, "classifier": 60}
LIMIT = 10.0              # a detector's gradients are scaled to this norm; in the first batches it is about 60
LEFT = 0.01               # share of the initial running statistics after half of the updates
POOR_MAP = 0.05
FIRST_LAYERS = re.compile(r"\.conv\.(\d+)$")   # a file of Darknet's first layers, such as darknet19_448.conv.23
EPOCH_UPDATES = 100   # an epoch has at least so many; AlexeyAB's program does not measure more often
LEAST_SCORE = 0.01     # detections with less are not measured
MOST_DETECTIONS = 100  # further detections of an image are not measured


def is_small(images: int) -> bool:
    """Whether a data set has so few images that its net should start from trained weights."""
    return images < SMALL


def repeats(args: argparse.Namespace, images: int, workers: Workers | None = None) -> int:
    """How often an epoch shows each image.

    Parameters
    ----------
    args : argparse.Namespace
        Has ``epochs``, ``batch_size``, ``accumulate`` and ``repeat``. If ``repeat`` is 0, the rule of this module
        holds.
    images : int
        Number of training images.
    workers : Workers, optional
        The workers of the job.

    Returns
    -------
    int
        The number of times, at least 1.
    """
    if args.repeat:
        return args.repeat
    if args.epochs * updates_per_epoch(images, args.batch_size, workers, args.accumulate) >= LEAST_UPDATES:
        return 1
    images_per_update = args.batch_size * args.accumulate * (workers.count if workers else 1)
    full_updates = math.ceil(LEAST_UPDATES / args.epochs) - 1   # the last one may have fewer images
    return full_updates * images_per_update // images + 1


def passes_over_objects(objects: int, passes: int) -> int:
    """How many passes :func:`gluonops.train.pretrain_backbone` should make over the objects.

    Parameters
    ----------
    objects, passes : int
        Number of objects, and passes of a large data set.
    """
    return max(passes, math.ceil(LEAST_PRETRAINING / updates_per_epoch(max(1, objects), OBJECT_BATCH)))


def anchor_images(most: int, images: int) -> int:
    """The number of images at the start of a run that draw all boxes to the anchors.

    It is ``most``, or a fiftieth of the images of the run if that is less.
    """
    return min(most, images // 50)


def gradient_limit(images: int) -> float:
    """The largest norm of the gradients of a detector, as ``--clip`` takes it. If there are many images it is 0, which
    means no limit."""
    return LIMIT if is_small(images) else 0.0


def fit_batch_norm(net: gluon.Block, updates: int) -> None:
    """Lower the momentum of the running statistics of batch norms for a run of few updates.

    A batch norm begins with mean 0 and variance 1, and keeps the share ``momentum`` of them in each update. With
    Darknet's momentum of 0.99, 66 % of them are left after 42 updates, and the net that is validated is not the one
    that was trained.

    Parameters
    ----------
    net : gluon.Block
        A net that is not hybridized yet, or that will be traced again.
    updates : int
        Number of updates of the run.
    """
    momentum = LEFT ** (2 / max(updates, 2))
    for block in _batch_norms(net):
        block._kwargs["momentum"] = min(block._kwargs["momentum"], momentum)


@contextlib.contextmanager
def fitted_batch_norm(net: gluon.Block, updates: int) -> Iterator[None]:
    """Apply :func:`fit_batch_norm` within the ``with`` block. After it, the momentums are as before."""
    before = [(block, block._kwargs["momentum"]) for block in _batch_norms(net)]
    fit_batch_norm(net, updates)
    try:
        yield
    finally:
        for block, momentum in before:
            block._kwargs["momentum"] = momentum


def _batch_norms(net):
    return [block for block in blocks_of(net) if isinstance(block, gluon.nn.BatchNorm)]


def warning_of_few_updates(updates: int, epochs: int, is_pretrained: bool, task: str) -> str | None:
    """A sentence about a run that is probably too short to train anything, or None.

    Parameters
    ----------
    updates, epochs : int
        Numbers of updates and epochs of the run.
    is_pretrained : bool
        Whether the net starts from trained weights. Then a tenth of the updates is enough.
    task : {"detector", "classifier"}
        What is trained.
    """
    enough = FEW_UPDATES[task] // 10 if is_pretrained else FEW_UPDATES[task]
    if updates >= enough:
        return None
    needed = math.ceil(LEAST_UPDATES * epochs / updates)
    start = "" if is_pretrained else " from random weights"
    other = "" if is_pretrained else ", or start from weights: --pretrained auto"
    count = "1 update is" if updates == 1 else f"{updates} updates are"
    return (f"Warning: {count} seldom enough to train a {task}{start}. Leave --epochs out, or pass --epochs "
            f"{needed}{other}.")


def hint_for_detector(score: float, updates: int, is_pretrained: bool) -> str | None:
    """A sentence about what to do if a detector finds next to nothing, or None if it finds more.

    Parameters
    ----------
    score : float
        The mAP of the detector.
    updates : int
        Number of updates of its run.
    is_pretrained : bool
        Whether it started from trained weights.
    """
    if score >= POOR_MAP:
        return None
    return f"Hint: an mAP below {POOR_MAP:g} means that the net has not learned. {_remedies(updates, is_pretrained)}"


def hint_for_classifier(labels: np.ndarray, logits: np.ndarray, updates: int, is_pretrained: bool) -> str | None:
    """A sentence about what to do if a classifier is no better than chance, or None if it is better.

    Chance means that the most frequent class is always named. An accuracy of up to two standard deviations above that
    counts as chance as well.

    Parameters
    ----------
    labels, logits : numpy.ndarray
        (N,), and (N, classes).
    updates, is_pretrained
        As in :func:`hint_for_detector`.
    """
    if logits.shape[1] < 2:
        return None
    share = np.bincount(labels.astype(int)).max() / len(labels)
    limit = share + 2 * math.sqrt(share * (1 - share) / len(labels))
    score = accuracy(logits, labels)
    if score > limit:
        return None
    return f"Hint: {score:.4f} is chance, so the net has not learned. {_remedies(updates, is_pretrained)}"


def _remedies(updates, is_pretrained):
    remedies = []
    if updates < LEAST_UPDATES:
        remedies.append(f"train longer than {updates} updates, without --epochs or with more")
    if not is_pretrained:
        remedies.append("start from weights, --pretrained auto")
    remedies += ["pass a tenth of --lr if the loss rises", "look at the labels in the picture of the results"]
    return f"In this order: {'; '.join(remedies)}."


def darknet_augment(options: TrainingOptions) -> data.Augment:
    """The augmentation of the training images of a cfg.

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


def darknet_anchors(cfg: str | os.PathLike, dataset: data.DetectionDataset, seed: int = 0) -> list:
    """Compute anchors of a data set by k-means: as many as a cfg has, and in its unit.

    Parameters
    ----------
    cfg : str or os.PathLike
    dataset : gluonops.data.DetectionDataset
    seed : int, default 0
        Seed of k-means.

    Returns
    -------
    list
        Pairs of a width and a height, in pixels for ``[yolo]``, in cells for ``[region]``.
    """
    size = read_training(cfg).size
    head = read_cfg(cfg)[-1]
    stride = load(cfg)._detections[-1].stride if head.kind == "region" else 1
    return data.anchors_of(dataset, head.integer("num", 1, 1), size, stride, seed)[0].tolist()


def shorten_cfg(cfg: str | os.PathLike, images: int, batches: int | None, epochs: int | None,
                workers: Workers | None = None) -> None:
    """Change the length of a cfg's run to a number of updates, or to a number of passes over the images.

    If neither is given, the cfg stays as it is.
    """
    if epochs is not None:
        options = read_training(cfg)
        batches = epochs * updates_per_epoch(images, options.mini_batch, workers, options.subdivisions)
    if batches is not None:
        adapt_cfg(cfg, cfg, net=shorter_policy(cfg, batches))


def _images_per_update(options, workers):
    """The number of images of an update. Each worker takes the batch of the cfg.

    With ``dist_async`` an update has the images of one worker, and otherwise those of all workers.
    """
    return options.batch * (workers.count if workers and workers.in_step else 1)


def darknet_epochs(options: TrainingOptions, images: int, seen: int = 0,
                   workers: Workers | None = None) -> tuple[int, int]:
    """The number of epochs of a run, and how often an epoch shows each image. The run has ``max_batches`` updates.

    An epoch has about 100 updates or more, or as many as the run has. The last epoch is not cut short, so the run may
    have a few more updates. An OpError is raised if the cfg does not say how long it is trained, or the net has been
    trained so long.

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
        raise OpError(where, "the cfg has no max_batches; expected the number of updates to train for",
                      "Add max_batches, or pass --batches or --epochs")
    batch = _images_per_update(options, workers)
    left = options.max_batches - seen // batch
    if left <= 0:
        raise OpError(where, f"the weights have seen {seen} images, {seen // batch} batches; expected fewer than "
                      f"max_batches, which is {options.max_batches}",
                      "Pass --clear to start from the beginning, or more --batches")
    repeats = max(1, round(min(EPOCH_UPDATES, left) * batch / images))
    updates = updates_per_epoch(repeats * images, options.mini_batch, workers, options.subdivisions)
    return math.ceil(left / updates), repeats


def darknet_scorer(net: DarknetNet, images: gluon.data.Dataset, options: TrainingOptions, device: mx.Context,
                   classes: Sequence[str], threads: int = 0) -> Callable[[], dict[str, float]]:
    """A function that measures a net. It returns the summary of :class:`gluonops.train.DetectionMetrics`, or
    ``accuracy``.

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
    """Draw random weights as Darknet does: normally distributed, with a variance of 2 / (number of inputs)."""
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
    """The schedule of a cfg for a net that has been trained on ``seen`` images. See :func:`darknet_schedule`."""
    rates = darknet_schedule(cfg)
    rates.start = seen // _images_per_update(read_training(cfg), workers)
    return rates
