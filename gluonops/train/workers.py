"""The devices of a run, its place among the workers of a job, and its part of the batches."""
from __future__ import annotations

import dataclasses
import math
import os
import re
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import gluon

from ..contract.attributes import Attr, Choice
from ..contract.errors import OpError, plural

__all__ = ["KVSTORES", "Workers", "devices", "join_workers", "plan", "set_seeds", "updates_per_epoch"]

KVSTORES = ("device", "local", "dist_sync", "dist_async")


def devices(names: str = "cpu:0") -> list[mx.Context]:
    """The devices of a list such as ``cpu:0,cpu:1`` or ``gpu:0,gpu:1``. Every batch is split among them.

    Parameters
    ----------
    names : str, default "cpu:0"
        ``cpu`` or ``gpu`` with a number below 1000, separated by commas. A number alone means a GPU.

    Raises
    ------
    OpError
        A name is unknown or occurs twice, or there is no such GPU.
    """
    where = "train.devices"
    contexts = []
    for name in names.replace(" ", "").split(","):
        match = re.fullmatch(r"(?:(cpu|gpu)(?::(\d{1,3}))?|(\d{1,3}))", name)
        if not match:
            raise OpError(where, f"the device {name!r} is unknown; expected cpu or gpu with a number below 1000",
                          "Write for instance cpu:0,cpu:1 or gpu:0,gpu:1")
        kind = match[1] or "gpu"
        contexts.append(mx.Context(kind, int(match[2] or match[3] or 0)))
        if kind == "gpu" and contexts[-1].device_id >= mx.context.num_gpus():
            raise OpError(where, f"there is no {contexts[-1]}: MXNet sees {plural(mx.context.num_gpus(), 'GPU')}",
                          "Run `gluonops doctor`, or choose the device cpu")
    if len(set(contexts)) < len(contexts):
        raise OpError(where, f"{names} names a device twice", "Name each device once")
    return contexts


@dataclasses.dataclass
class Workers:
    """The place of a process among the workers of a job.

    Attributes
    ----------
    kvstore : str or mxnet.kvstore.KVStore
        For ``gluon.Trainer``.
    rank : int
        Number of this worker, from 0. The first one validates, writes and reports.
    count, devices : int
        Number of workers, and of the devices of each.
    kind : str
        Name of the kvstore: one of ``KVSTORES``.
    """

    kvstore: Any = "device"
    rank: int = 0
    count: int = 1
    devices: int = 1
    kind: str = "device"

    @property
    def in_step(self) -> bool:
        """Whether other workers wait for this one in every update."""
        return self.kind == "dist_sync"

    @property
    def update_on_servers(self) -> bool:
        """Whether the parameter servers update the parameters, each time that one worker is done with a batch."""
        return self.kind == "dist_async"


def join_workers(kvstore: str = "device", device_count: int = 1) -> Workers:
    """Join the job that this process belongs to, and wait until every worker is there.

    An OpError is raised if the kvstore is unknown, or the process was not started as a worker of a job.

    Parameters
    ----------
    kvstore : {"device", "local", "dist_sync", "dist_async"}, default "device"
        Where gradients are summed. ``device`` and ``local`` are for one process. ``dist_sync`` and ``dist_async`` need
        MXNet's parameter server; see the page about several machines.
    device_count : int, default 1
        Number of devices of this process.
    """
    where = "train.join_workers"
    Attr("kvstore", Choice(*KVSTORES), None).parse(where, kvstore)
    if not kvstore.startswith("dist"):
        return Workers(kvstore, devices=device_count, kind=kvstore)
    if "DMLC_ROLE" not in os.environ:
        raise OpError(where, f"the kvstore is {kvstore}, and the process was started without a parameter server",
                      "Start it with examples/launch_local.py, or as docs/several_machines.md says")
    store = mx.kv.create(kvstore)
    return Workers(store, store.rank, store.num_workers, device_count, kvstore)


def share_parameters(trainer: gluon.Trainer) -> None:
    """Give all workers the parameters of the first worker now, and wait until they have them.

    Otherwise the trainer would send the parameters in its first step, and the gradients right after. MXNet's engine may
    do this in the other order. The server keeps both in the same tensor, so it would then answer with gradients.
    """
    trainer._init_kvstore()
    trainer._init_params()
    mx.nd.waitall()


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
        raise OpError("train.plan", f"a batch has {plural(min(size, images), 'image')} for {at_least} devices; "
                      "expected at least one image for each device", "Use larger batches, or fewer devices")
    cuts = list(range(size, images, size))
    if cuts and images - cuts[-1] < at_least:
        cuts.pop()
    return [(part[workers.rank::workers.count].tolist(), len(part)) for part in np.split(order, cuts)]


def updates_per_epoch(images: int, batch_size: int, workers: Workers | None = None, accumulate: int = 1) -> int:
    """The number of updates of the parameters in an epoch. Schedules count updates.

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
