"""A gluon Trainer with an optimizer by name."""
from __future__ import annotations

import mxnet as mx
from mxnet import gluon

from .. import optimizer as optimizers
from ..core.errors import OpError
from .devices import Workers
from .schedules import Schedule, for_servers

__all__ = ["OPTIMIZERS", "make_trainer"]

OPTIMIZERS = ("sgd", "nag", "adam", "adamax", "nadam", "rmsprop", "lamb", "lars", "signum", "ftml")
FASTER = {"sgd": optimizers.FusedSGD.__name__}   # the same numbers
DEFAULTS = {"sgd": {"momentum": 0.9}, "nag": {"momentum": 0.9}, "lars": {"momentum": 0.9}}


def make_trainer(parameters: gluon.ParameterDict, optimizer: str, schedule: mx.lr_scheduler.LRScheduler,
                 weight_decay: float = 0, decay_biases: bool = True, workers: Workers | None = None,
                 **options) -> gluon.Trainer:
    """A gluon Trainer.

    Parameters
    ----------
    parameters : gluon.ParameterDict
        ``net.collect_params()``.
    optimizer : str
        One of ``OPTIMIZERS``. ``sgd``, ``nag`` and ``lars`` have momentum 0.9 by default. ``sgd`` is
        :class:`gluonops.optimizer.FusedSGD`, whose numbers are those of MXNet's, unless servers update the parameters.
    schedule : mxnet.lr_scheduler.LRScheduler
        Such as one of :mod:`gluonops.train.schedules`.
    weight_decay : float, default 0
    decay_biases : bool, default True
        Whether biases and the parameters of batch norms decay as well, as they do in MXNet. They do not in Darknet.
    workers : Workers, optional
    **options
        Of the optimizer, such as ``momentum``.

    Returns
    -------
    gluon.Trainer
        The workers update the parameters, not the servers, so that a checkpoint can hold the optimizer's state. With
        ``dist_async`` the servers have to.

    Raises
    ------
    OpError
        The optimizer is unknown, or takes no such option; the schedule is not known to the servers of ``dist_async``.
    """
    where, workers = "train.make_trainer", workers or Workers()
    if optimizer not in OPTIMIZERS:
        raise OpError(where, f"there is no optimizer {optimizer!r}; there are {', '.join(OPTIMIZERS)}",
                      "Choose one of them")
    settings = {**DEFAULTS.get(optimizer, {}), **options, "lr_scheduler": schedule, "wd": weight_decay,
                "learning_rate": schedule.base_lr}
    if not decay_biases:
        for parameter in parameters.values():
            if not parameter.name.endswith("weight"):
                parameter.wd_mult = 0
    if workers.update_on_servers and isinstance(schedule, Schedule):
        settings["lr_scheduler"] = for_servers(schedule)
    name = optimizer if workers.update_on_servers else FASTER.get(optimizer, optimizer)
    try:
        return gluon.Trainer(parameters, name, settings, kvstore=workers.kvstore,
                             update_on_kvstore=workers.update_on_servers)
    except TypeError as error:
        raise OpError(where, f"{optimizer} does not take these options: {error}", "Leave the option out") from error
