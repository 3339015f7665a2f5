"""Makes trainers whose optimizer is chosen by name, and learning rates that follow from the number of the update.

Every schedule is an ``mx.lr_scheduler.LRScheduler``, for any optimizer. The rate is a function of the number of the
update alone, so a resumed run goes on with the same rates. As in Darknet and MXNet, the first update has number 1.

Source of Darknet's policies: pjreddie/darknet ``src/network.c``, ``get_current_rate``, commit f6afaabc; of ``sgdr``:
Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts" (2017).
"""
from __future__ import annotations

import inspect
import math
import os

import mxnet as mx
import numpy as np
from mxnet import gluon

from ..contract.attributes import Attr, Choice, Float, parsed
from ..contract.errors import OpError
from ..darknet.cfg import read_cfg
from .workers import Workers

__all__ = ["OPTIMIZERS", "SCHEDULES", "Schedule", "darknet_schedule", "make_trainer", "schedule"]

OPTIMIZERS = ("sgd", "nag", "adam", "adamax", "nadam", "rmsprop", "lamb", "lars", "signum", "ftml")
DEFAULTS = {"sgd": {"momentum": 0.9}, "nag": {"momentum": 0.9}, "lars": {"momentum": 0.9}}
WHERE = "train.schedule"
# The numbers that options may be, where a schedule has them.
NUMBERS = {**dict.fromkeys(("learning_rate", "warmup", "warmup_power"), Float(low=0)),
           **dict.fromkeys(("total", "cycle", "factor", "step"), Float(low=1))}


def make_trainer(parameters: gluon.ParameterDict, optimizer: str, schedule: mx.lr_scheduler.LRScheduler,
                 weight_decay: float = 0, decay_biases: bool = True, workers: Workers | None = None,
                 **options) -> gluon.Trainer:
    """Make a Trainer of Gluon's.

    Parameters
    ----------
    parameters : gluon.ParameterDict
        ``net.collect_params()``.
    optimizer : str
        One of ``OPTIMIZERS``. ``sgd``, ``nag`` and ``lars`` have momentum 0.9 by default.
    schedule : mxnet.lr_scheduler.LRScheduler
        Such as one of :func:`gluonops.train.schedule`.
    weight_decay : float, default 0
    decay_biases : bool, default True
        Whether biases and the parameters of batch norms decay as well, as they do in MXNet. They do not in Darknet.
    workers : Workers, optional
        The workers of the job: see :func:`gluonops.train.join_workers`.
    **options
        Options of the optimizer, such as ``momentum``.

    Returns
    -------
    gluon.Trainer
        The workers update the parameters, not the servers, so that a checkpoint can hold the optimizer's state. With
        ``dist_async`` the servers have to.

    Raises
    ------
    OpError
        The optimizer is unknown or takes no such option, or the servers of ``dist_async`` do not know the schedule.
    """
    where, workers = "train.make_trainer", workers or Workers()
    Attr("optimizer", Choice(*OPTIMIZERS), None).parse(where, optimizer)
    settings = {**DEFAULTS.get(optimizer, {}), **options, "lr_scheduler": schedule, "wd": weight_decay,
                "learning_rate": schedule.base_lr}
    if not decay_biases:
        for parameter in parameters.values():
            if not parameter.name.endswith("weight"):
                parameter.wd_mult = 0
    if workers.update_on_servers and isinstance(schedule, Schedule):
        settings["lr_scheduler"] = for_servers(schedule)
    try:
        return gluon.Trainer(parameters, optimizer, settings, kvstore=workers.kvstore,
                             update_on_kvstore=workers.update_on_servers)
    except TypeError as error:
        raise OpError(where, f"{optimizer} does not take these options: {error}", "Leave the option out") from error


class Schedule(mx.lr_scheduler.LRScheduler):
    """A learning rate with a warm-up, as :func:`schedule` makes it.

    Parameters
    ----------
    name, learning_rate, warmup, warmup_power, **options
        As in :func:`schedule`, without options that are left out.

    Attributes
    ----------
    start : int
        Number of updates that were made before the run, if the weights were trained before.
    """

    def __init__(self, name: str, learning_rate: float, warmup: int = 0, warmup_power: float = 1, **options):
        numbers = {"learning_rate": learning_rate, "warmup": warmup, "warmup_power": warmup_power, **options}
        parsed(WHERE, {option: kind for option, kind in NUMBERS.items() if option in numbers}, **numbers)
        if name == "steps":
            steps, scales = options["steps"], options.setdefault("scales", [0.1] * len(options["steps"]))
            _check("steps", steps, list(steps) == sorted(steps), "increasing numbers of updates")
            _check("scales", scales, len(scales) == len(steps), f"{len(steps)} numbers, one per step")
        super().__init__(base_lr=learning_rate)
        self.name, self.warmup, self.warmup_power, self.options, self.start = name, warmup, warmup_power, options, 0

    def __call__(self, num_update: int) -> float:
        """The learning rate of update ``num_update``."""
        update = self.start + num_update
        if update < self.warmup:
            return self.base_lr * (update / self.warmup) ** self.warmup_power
        return SCHEDULES[self.name](self, update, **self.options)


def _cosine(own, update, total, final=0):
    total = max(total, own.warmup + 1)
    if update > total:
        return final
    return _half_cosine(own.base_lr, final, (update - own.warmup) / (total - own.warmup))


def _half_cosine(first, last, share):
    """The value on half a cosine from ``first`` to ``last``, after the given share of the way."""
    return last + (first - last) * (1 + math.cos(math.pi * share)) / 2


def _sgdr(own, update, cycle, factor=2, final=0):
    start, length = 0, cycle
    while start + length < update:
        start += length
        length *= factor
    return _half_cosine(own.base_lr, final, (update - start) / length)


def _steps(own, update, steps, scales):
    return math.prod((scale for step, scale in zip(steps, scales) if step <= update), start=own.base_lr)


def _sig(own, update, gamma, step):
    exponent = gamma * (update - step)
    return 0.0 if exponent > 700 else own.base_lr / (1 + math.exp(exponent))   # exp would overflow


# The rates after the warm-up, by name: functions of a schedule, the number of the update, and options.
SCHEDULES = {
    "constant": lambda own, update: own.base_lr,
    "cosine": _cosine,
    "steps": _steps,
    "step": lambda own, update, step, scale: own.base_lr * scale ** (update // step),
    "poly": lambda own, update, total, power=4: own.base_lr * max(0, 1 - update / total) ** power,
    "exp": lambda own, update, gamma: own.base_lr * gamma ** update,
    "sig": _sig,
    # Darknet draws from its global generator. Here a resumed run has the same rates.
    "random": lambda own, update, power=4, seed=0: (
        own.base_lr * np.random.RandomState([seed, update]).uniform() ** power),
    "sgdr": _sgdr}


def schedule(name: str, learning_rate: float, total: int, warmup: int = 0, warmup_power: float = 1,
             **options) -> Schedule:
    """A schedule by name, for a run of ``total`` updates.

    An OpError is raised if there is no such schedule, it takes no such option, or a value is out of range.

    Parameters
    ----------
    name : str
        The rate of update n after the warm-up, with r for ``learning_rate``. Darknet's policies have Darknet's names:

        - ``constant``: r.
        - ``cosine``: half a cosine from r, at the end of the warm-up, to ``final`` (0), where it stays.
        - ``steps``: r, multiplied by one of ``scales`` (0.1) at each of ``steps``, 0.6 and 0.85 of the updates.
        - ``step``: r, multiplied by ``scale`` (0.1) every ``step`` updates, which are half of them.
        - ``poly``: r * (1 - n / total) ** ``power`` (4).
        - ``exp``: r * ``gamma`` ** n, which falls to a hundredth.
        - ``sig``: r / (1 + exp(``gamma`` * (n - ``step``))): half of r at ``step``, which is half of the updates.
        - ``random``: r * u ** ``power`` (4), with u from 0 to 1, which depends on ``seed`` (0) and n only.
        - ``sgdr``: cosines to ``final`` (0), one after the other. The first has ``cycle`` updates, by default a seventh
          of all updates, and each is ``factor`` (2) times as long as the one before.
    learning_rate : float
        The base rate, from 0.
    total : int
        Number of updates of the run.
    warmup : int, default 0
        Number of updates in which the rate rises from 0; Darknet's ``burn_in``.
    warmup_power : float, default 1
        The rate of update n of the warm-up is ``learning_rate * (n / warmup) ** warmup_power``. 1 is a straight line;
        Darknet's default is 4.
    **options
        The options that are named above, in place of the defaults in parentheses.
    """
    Attr("name", Choice(*sorted(SCHEDULES)), None).parse(WHERE, name)
    _, _, *takes = inspect.signature(SCHEDULES[name]).parameters
    for option in options:
        if option not in takes:
            raise OpError(WHERE, f"{name} got the option {option}; expected {', '.join(takes) or 'none'}",
                          "Leave it out, or choose another schedule")
    Attr("total", NUMBERS["total"], None).parse(WHERE, total)
    defaults = {"total": total, "steps": [max(1, round(share * total)) for share in (0.6, 0.85)],
                "step": max(1, total // 2), "scale": 0.1, "cycle": max(1, total // 7),
                "gamma": 10 / total if name == "sig" else 0.01 ** (1 / total)}
    chosen = {option: defaults[option] for option in takes if option in defaults}
    return Schedule(name, learning_rate, warmup, warmup_power, **{**chosen, **options})


# What the [net] section of a cfg says of each schedule.
OF_CFG = {
    "constant": lambda net: {},
    "cosine": lambda net: {"total": net.integer("max_batches", low=1)},
    "steps": lambda net: {"steps": net.integers("steps"), "scales": net.numbers("scales")},
    "step": lambda net: {"step": net.integer("step", 1, 1), "scale": net.number("scale", 1)},
    "poly": lambda net: {"total": net.integer("max_batches", low=1), "power": net.number("power", 4)},
    "exp": lambda net: {"gamma": net.number("gamma", 1)},
    "sig": lambda net: {"gamma": net.number("gamma", 1), "step": net.integer("step", 1, 1)},
    "random": lambda net: {"power": net.number("power", 4)},
    "sgdr": lambda net: {"cycle": net.integer("sgdr_cycle", net.integer("max_batches", low=1), 1),
                         "factor": net.integer("sgdr_mult", 2, 1), "final": net.number("learning_rate_min", 1e-5)}}


def darknet_schedule(cfg: str | os.PathLike) -> Schedule:
    """The schedule that the ``[net]`` section of a Darknet cfg describes.

    Parameters
    ----------
    cfg : str or os.PathLike
        The file.

    Returns
    -------
    Schedule
        Gives the rate that Darknet uses for an update of the same number.

    Raises
    ------
    OpError
        The file cannot be read, or the policy is unknown.
    """
    net, *_ = read_cfg(cfg)
    policy = net.text("policy", "constant", sorted([*SCHEDULES, "sigmoid"]))
    name = "sig" if policy == "sigmoid" else policy   # Darknet's word is the second
    return Schedule(name, net.number("learning_rate", 0.001), net.integer("burn_in", 0, 0), net.number("power", 4),
                    **OF_CFG[name](net))


def for_servers(own: Schedule) -> mx.lr_scheduler.LRScheduler:
    """Express a schedule as one of MXNet's own, for parameter servers that update the parameters.

    Such a server runs while MXNet is being imported, so it cannot import gluonops.

    An OpError is raised if MXNet has no such schedule.
    """
    common, options = {"base_lr": own.base_lr, "warmup_steps": own.warmup}, own.options
    is_known = own.start == 0 and (own.warmup == 0 or own.warmup_power == 1)
    if is_known and own.name == "constant":
        return mx.lr_scheduler.FactorScheduler(2**31 - 1, 1, **common)
    if is_known and own.name == "cosine":
        total = max(options["total"], own.warmup + 1)
        return mx.lr_scheduler.CosineScheduler(total, final_lr=options.get("final", 0), **common)
    if is_known and own.name == "steps" and len(set(options["scales"])) == 1 and min(options["steps"]) > 1:
        steps = [step - 1 for step in options["steps"]]
        return mx.lr_scheduler.MultiFactorScheduler(steps, options["scales"][0], **common)
    raise OpError(WHERE, f"the servers of dist_async do not have the schedule {own.name} with a warm-up of the power "
                  f"{own.warmup_power:g}; expected constant, cosine, or steps with one scale, and a linear warm-up",
                  "Choose one of these, or the kvstore dist_sync")


def _check(name: str, value: object, is_right: bool, expected: str) -> None:
    if not is_right:
        raise OpError(WHERE, f"{name} is {value!r}; expected {expected}", "Pass another value")
