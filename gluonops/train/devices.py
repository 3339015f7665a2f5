"""What a run trains on: devices of this machine, and its place among the workers of a job."""
from __future__ import annotations

import dataclasses
import os
import re
from typing import Any

import mxnet as mx
from mxnet import gluon

from ..core.errors import OpError

__all__ = ["KVSTORES", "Workers", "devices", "join_workers"]

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
        A name is unknown, is there twice, or there is no such GPU.
    """
    where = "train.devices"
    found = []
    for name in names.replace(" ", "").split(","):
        match = re.fullmatch(r"(?:(cpu|gpu)(?::(\d{1,3}))?|(\d{1,3}))", name)
        if not match:
            raise OpError(where, f"the device {name!r} is unknown; expected cpu or gpu with a number below 1000",
                          "Write for instance cpu:0,cpu:1 or gpu:0,gpu:1")
        kind = match[1] or "gpu"
        found.append(mx.Context(kind, int(match[2] or match[3] or 0)))
        if kind == "gpu" and found[-1].device_id >= mx.context.num_gpus():
            raise OpError(where, f"there is no {found[-1]}: MXNet sees {mx.context.num_gpus()} GPUs",
                          "Run `gluonops doctor`, or choose the device cpu")
    if len(set(found)) < len(found):
        raise OpError(where, f"{names} names a device twice", "Name each once")
    return found


@dataclasses.dataclass
class Workers:
    """A process's place among the workers of a job.

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

    An OpError if the kvstore is unknown, or the process was not started as a worker of a job.

    Parameters
    ----------
    kvstore : {"device", "local", "dist_sync", "dist_async"}, default "device"
        Where gradients are summed. ``device`` and ``local`` are for one process. ``dist_sync`` and ``dist_async`` need
        MXNet's parameter server; see the page about several machines.
    device_count : int, default 1
        Number of devices of this process.
    """
    where = "train.join_workers"
    if kvstore not in KVSTORES:
        raise OpError(where, f"kvstore is {kvstore!r}; expected one of {', '.join(KVSTORES)}", "Choose one of them")
    if not kvstore.startswith("dist"):
        return Workers(kvstore, devices=device_count, kind=kvstore)
    if "DMLC_ROLE" not in os.environ:
        raise OpError(where, f"the kvstore is {kvstore}, and the process was started without a parameter server",
                      "Start it with examples/launch_local.py, or as docs/several_machines.md says")
    store = mx.kv.create(kvstore)
    return Workers(store, store.rank, store.num_workers, device_count, kvstore)


def share_parameters(trainer: gluon.Trainer) -> None:
    """Give all workers the first one's parameters now, and wait for them.

    Left to itself, the trainer does so in its first step and sends the gradients right after, which MXNet's engine may
    do in the other order: the server, that holds one tensor for both, then answers with gradients.
    """
    trainer._init_kvstore()
    trainer._init_params()
    mx.nd.waitall()
