"""The batches of an epoch, the same after a run is resumed, and shared among workers."""
from __future__ import annotations

import math

import mxnet as mx
import numpy as np

from ..core.errors import OpError
from .devices import Workers

__all__ = ["plan", "set_seeds", "updates_per_epoch"]


def set_seeds(seed: int) -> None:
    """Seed the random numbers of MXNet and NumPy, from which weights are initialized."""
    mx.random.seed(seed)
    np.random.seed(seed)


def plan(images: int, batch_size: int, seed: int, epoch: int, workers: Workers | None = None) -> list:
    """The batches of an epoch, in order.

    Every worker draws the same order and takes its part of each batch. The parts never overlap, and together they are
    every image once. Images that are left over at the end make a smaller batch. If that batch would leave a device
    without an image, they join the batch before.

    Parameters
    ----------
    images, batch_size : int
        Number of training images, and images of a batch on each worker.
    seed, epoch : int
        The order depends on them only. Epochs count from 0.
    workers : Workers, optional

    Returns
    -------
    list of (list of int, int)
        For each batch the indices for this worker, and the number of images over all workers.

    Raises
    ------
    OpError
        A batch has fewer images than there are devices.
    """
    workers = workers or Workers()
    order = np.random.RandomState([seed, epoch]).permutation(images)
    size = batch_size * workers.count
    at_least = workers.count * workers.devices
    if min(size, images) < at_least:
        raise OpError("train.plan", f"there are {min(size, images)} images in a batch for {at_least} devices",
                      "Use larger batches, or fewer devices")
    cuts = list(range(size, images, size))
    if cuts and images - cuts[-1] < at_least:
        cuts.pop()
    return [(part[workers.rank::workers.count].tolist(), len(part)) for part in np.split(order, cuts)]


def updates_per_epoch(images: int, batch_size: int, workers: Workers | None = None, accumulate: int = 1) -> int:
    """Number of updates of the parameters in an epoch; schedules count updates.

    Parameters
    ----------
    images, batch_size, workers
        As in :func:`plan`.
    accumulate : int, default 1
        Batches whose gradients are added up for one update.
    """
    workers = workers or Workers()
    updates = math.ceil(len(plan(images, batch_size, 0, 0, workers)) / accumulate)
    return updates * workers.count if workers.update_on_servers else updates
