"""What follows from the number of images: how long a run is, how fast batch norm forgets, where weights come from.

The defaults of the scripts are for thousands of images. Of 60 images they would make 50 updates, and no net learns in
50 updates. So a run is counted in updates. The rules are these, and each leaves a run on thousands of images alone:

- **Updates.** Without ``--epochs``, an epoch shows each image as often as makes :data:`LEAST_UPDATES` in all.
- **Batch norm.** Of the initial running statistics, 1 % or less is left after half of the updates.
- **Weights.** A data set of fewer than :data:`SMALL` images starts from the backbone in the package, if the net has it.
- **Objects.** Without these weights, the pretraining on the objects makes :data:`LEAST_PRETRAINING` updates or more.
- **Gradients.** A detector limits their norm: from few images the first batches can throw its boxes to infinity.
- **Anchors.** The images that draw all boxes to the anchors are a fiftieth of those of the run, or fewer.
"""
from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Iterator

import numpy as np
from mxnet import gluon

from .parameters import blocks_of
from .workers import Workers, updates_per_epoch

__all__ = ["anchor_images", "fit_batch_norm", "gradient_limit", "hint_for_classifier", "hint_for_detector", "is_small",
           "passes_over_objects", "repeats", "warning_of_few_updates"]

SMALL = 1000              # images; fewer are a small data set
LEAST_UPDATES = 600       # a run without --epochs makes at least so many
LEAST_PRETRAINING = 300   # the pretraining on objects makes at least so many
OBJECT_BATCH = 32         # objects of a batch of the pretraining
# Fewer updates train nothing from random weights; from trained weights a tenth is enough.
FEW_UPDATES = {"detector": 300, "classifier": 60}
LIMIT = 10.0              # a detector's gradients are scaled to this norm; in the first batches it is about 60
LEFT = 0.01               # share of the initial running statistics after half of the updates
POOR_MAP = 0.05


def is_small(images: int) -> bool:
    """Whether a data set has so few images that its net should start from trained weights."""
    return images < SMALL


def repeats(args: argparse.Namespace, images: int, workers: Workers | None = None) -> int:
    """How often an epoch shows each image.

    Parameters
    ----------
    args : argparse.Namespace
        With ``epochs``, ``batch_size``, ``accumulate``, and ``repeat``: 0 for the rule of this module.
    images : int
        Number of training images.
    workers : Workers, optional

    Returns
    -------
    int
        At least 1.
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
    """How many images at the start of a run draw all boxes to the anchors: ``most``, or a fiftieth of the run's."""
    return min(most, images // 50)


def gradient_limit(images: int) -> float:
    """The largest norm of the gradients of a detector, as ``--clip`` has it: 0, for any, if the images are many."""
    return LIMIT if is_small(images) else 0.0


def fit_batch_norm(net: gluon.Block, updates: int) -> None:
    """Lower the momentum of the running statistics of batch norms for a run of few updates.

    A batch norm begins with mean 0 and variance 1, and keeps ``momentum`` of them in each update. Darknet's is 0.99:
    after 42 updates it has 66 % of them still, and the net that is validated is not the one that was trained.

    Parameters
    ----------
    net : gluon.Block
        Not hybridized yet, or to be traced again.
    updates : int
        Updates of the run.
    """
    momentum = LEFT ** (2 / max(updates, 2))
    for block in _batch_norms(net):
        block._kwargs["momentum"] = min(block._kwargs["momentum"], momentum)


@contextlib.contextmanager
def fitted_batch_norm(net: gluon.Block, updates: int) -> Iterator[None]:
    """:func:`fit_batch_norm` within it. Afterwards the momentums are as before, for the run that follows."""
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
    """A sentence about a run that is too short to train anything, or None.

    Parameters
    ----------
    updates, epochs : int
        Updates and epochs of the run.
    is_pretrained : bool
        Whether it starts from trained weights: then a tenth of the updates is enough.
    task : {"detector", "classifier"}
    """
    enough = FEW_UPDATES[task] // 10 if is_pretrained else FEW_UPDATES[task]
    if updates >= enough:
        return None
    needed = math.ceil(LEAST_UPDATES * epochs / updates)
    start = "" if is_pretrained else " from random weights"
    other = "" if is_pretrained else ", or start from weights: --pretrained auto"
    return (f"Warning: {updates} update{'s' * (updates != 1)} cannot train a {task}{start}. Leave --epochs out, or "
            f"pass --epochs {needed}{other}.")


def hint_for_detector(score: float, updates: int, is_pretrained: bool) -> str | None:
    """What to do about a detector that finds next to nothing, or None.

    Parameters
    ----------
    score : float
        Its mAP.
    updates : int
        Updates of its run.
    is_pretrained : bool
        Whether it started from trained weights.
    """
    if score >= POOR_MAP:
        return None
    return f"Hint: an mAP below {POOR_MAP:g} means that the net has not learned. {_remedies(updates, is_pretrained)}"


def hint_for_classifier(labels: np.ndarray, logits: np.ndarray, updates: int, is_pretrained: bool) -> str | None:
    """What to do about a classifier that is no better than chance, or None.

    Chance is to name the most frequent class always. It is chance up to two standard deviations above that.

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
    score = float((logits.argmax(1) == labels).mean())
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
