"""Learning rates by the number of the update: Darknet's policies, cosine, warm-up.

Every schedule is an ``mx.lr_scheduler.LRScheduler``, for any optimizer. The rate is a function of the number of the
update alone, so a resumed run goes on with the same rates. As in Darknet and MXNet, the first update has number 1.

Source of the policies: pjreddie/darknet ``src/network.c``, ``get_current_rate``, commit f6afaabc; of ``sgdr``:
Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts" (2017).
"""
from __future__ import annotations

import math
import os
from collections.abc import Sequence

import mxnet as mx
import numpy as np

from ..core.errors import OpError
from ..darknet.cfg import read_cfg

__all__ = ["SCHEDULES", "Constant", "Cosine", "Exponential", "Polynomial", "Random", "Schedule", "Sigmoid", "Step",
           "Steps", "WarmRestarts", "darknet_schedule", "schedule"]

WHERE = "train.schedule"


class Schedule(mx.lr_scheduler.LRScheduler):
    """A learning rate with a warm-up. A subclass supplies :meth:`rate`.

    Parameters
    ----------
    learning_rate : float
        The base rate, from 0.
    warmup : int, default 0
        Number of updates in which the rate rises from 0; Darknet's ``burn_in``.
    warmup_power : float, default 1
        The rate of update n of the warm-up is ``learning_rate * (n / warmup) ** warmup_power``. 1 is a straight line;
        Darknet's default is 4.
    """

    def __init__(self, learning_rate: float, warmup: int = 0, warmup_power: float = 1):
        _check("learning_rate", learning_rate, learning_rate >= 0, "a number from 0")
        _check("warmup", warmup, warmup >= 0, "a number of updates from 0")
        _check("warmup_power", warmup_power, warmup_power >= 0, "a number from 0")
        super().__init__(base_lr=learning_rate)
        self.warmup, self.warmup_power = warmup, warmup_power

    def __call__(self, num_update: int) -> float:
        """The learning rate of update ``num_update``."""
        if num_update < self.warmup:
            return self.base_lr * (num_update / self.warmup) ** self.warmup_power
        return self.rate(num_update)

    def rate(self, num_update: int) -> float:
        """The learning rate after the warm-up."""
        raise NotImplementedError


class Constant(Schedule):
    """The same rate always. See :class:`Schedule` for the parameters."""

    def rate(self, num_update: int) -> float:
        """The base rate."""
        return self.base_lr


class Cosine(Schedule):
    """Falls along half a cosine to ``final`` at update ``total``, and stays there.

    Parameters
    ----------
    learning_rate : float
    total : int
        Number of updates of the run.
    final : float, default 0
    warmup, warmup_power
        As in :class:`Schedule`. The cosine starts after the warm-up.
    """

    def __init__(self, learning_rate: float, total: int, final: float = 0, warmup: int = 0, warmup_power: float = 1):
        super().__init__(learning_rate, warmup, warmup_power)
        _check("total", total, total > 0, "a number of updates from 1")
        self.total, self.final = max(total, warmup + 1), final

    def rate(self, num_update: int) -> float:
        """The rate between the base rate and ``final``."""
        if num_update > self.total:
            return self.final
        share = (num_update - self.warmup) / (self.total - self.warmup)
        return self.final + (self.base_lr - self.final) * (1 + math.cos(math.pi * share)) / 2


class WarmRestarts(Schedule):
    """``sgdr``: cosines from the base rate to ``final``, one after the other.

    Parameters
    ----------
    learning_rate : float
    cycle : int
        Number of updates of the first cosine.
    factor : int, default 2
        Each cosine is this many times as long as the one before.
    final : float, default 0
        Darknet's ``learning_rate_min``.
    warmup, warmup_power
        As in :class:`Schedule`.
    """

    def __init__(self, learning_rate: float, cycle: int, factor: int = 2, final: float = 0, warmup: int = 0,
                 warmup_power: float = 1):
        super().__init__(learning_rate, warmup, warmup_power)
        _check("cycle", cycle, cycle > 0, "a number of updates from 1")
        _check("factor", factor, factor >= 1, "a number from 1")
        self.cycle, self.factor, self.final = cycle, factor, final

    def rate(self, num_update: int) -> float:
        """The rate of the cosine that the update is in."""
        start, length = 0, self.cycle
        while start + length < num_update:
            start += length
            length *= self.factor
        share = (num_update - start) / length
        return self.final + (self.base_lr - self.final) * (1 + math.cos(math.pi * share)) / 2


class Step(Schedule):
    """Is multiplied by ``scale`` every ``step`` updates.

    Parameters
    ----------
    learning_rate : float
    step : int
    scale : float
    warmup, warmup_power
        As in :class:`Schedule`.
    """

    def __init__(self, learning_rate: float, step: int, scale: float, warmup: int = 0, warmup_power: float = 1):
        super().__init__(learning_rate, warmup, warmup_power)
        _check("step", step, step > 0, "a number of updates from 1")
        self.step, self.scale = step, scale

    def rate(self, num_update: int) -> float:
        """The base rate times a power of ``scale``."""
        return self.base_lr * self.scale ** (num_update // self.step)


class Steps(Schedule):
    """Is multiplied by one of ``scales`` at each of ``steps``.

    Parameters
    ----------
    learning_rate : float
    steps : sequence of int
        Numbers of updates, increasing.
    scales : sequence of float, optional
        One for each step; 0.1 if left out.
    warmup, warmup_power
        As in :class:`Schedule`.
    """

    def __init__(self, learning_rate: float, steps: Sequence[int], scales: Sequence[float] | None = None,
                 warmup: int = 0, warmup_power: float = 1):
        super().__init__(learning_rate, warmup, warmup_power)
        self.steps = list(steps)
        self.scales = [0.1] * len(self.steps) if scales is None else list(scales)
        _check("steps", self.steps, self.steps == sorted(self.steps), "increasing numbers of updates")
        _check("scales", self.scales, len(self.scales) == len(self.steps), f"{len(self.steps)} numbers, one per step")

    def rate(self, num_update: int) -> float:
        """The base rate times the scales of the steps that are reached."""
        rate = self.base_lr
        for step, scale in zip(self.steps, self.scales):
            if step > num_update:
                break
            rate *= scale
        return rate


class Polynomial(Schedule):
    """``poly``: ``learning_rate * (1 - n / total) ** power``.

    Parameters
    ----------
    learning_rate : float
    total : int
        Darknet's ``max_batches``. The rate is 0 from there on.
    power : float, default 4
    warmup, warmup_power
        As in :class:`Schedule`.
    """

    def __init__(self, learning_rate: float, total: int, power: float = 4, warmup: int = 0, warmup_power: float = 1):
        super().__init__(learning_rate, warmup, warmup_power)
        _check("total", total, total > 0, "a number of updates from 1")
        self.total, self.power = total, power

    def rate(self, num_update: int) -> float:
        """A power of the share that is left."""
        return self.base_lr * max(0, 1 - num_update / self.total) ** self.power


class Exponential(Schedule):
    """``exp``: ``learning_rate * gamma ** n``.

    Parameters
    ----------
    learning_rate : float
    gamma : float
    warmup, warmup_power
        As in :class:`Schedule`.
    """

    def __init__(self, learning_rate: float, gamma: float, warmup: int = 0, warmup_power: float = 1):
        super().__init__(learning_rate, warmup, warmup_power)
        self.gamma = gamma

    def rate(self, num_update: int) -> float:
        """The base rate times a power of ``gamma``."""
        return self.base_lr * self.gamma ** num_update


class Sigmoid(Schedule):
    """``sig``: ``learning_rate / (1 + exp(gamma * (n - step)))``.

    Parameters
    ----------
    learning_rate : float
    gamma : float
        Above 0 the rate falls.
    step : int
        The update with half of the base rate.
    warmup, warmup_power
        As in :class:`Schedule`.
    """

    def __init__(self, learning_rate: float, gamma: float, step: int, warmup: int = 0, warmup_power: float = 1):
        super().__init__(learning_rate, warmup, warmup_power)
        self.gamma, self.step = gamma, step

    def rate(self, num_update: int) -> float:
        """The base rate times a sigmoid."""
        exponent = self.gamma * (num_update - self.step)
        return 0.0 if exponent > 700 else self.base_lr / (1 + math.exp(exponent))   # exp would overflow


class Random(Schedule):
    """``random``: ``learning_rate * u ** power`` with ``u`` drawn from 0 to 1 for each update.

    Darknet draws from its global generator. Here the number depends on seed and update only, so that a resumed run has
    the same rates.

    Parameters
    ----------
    learning_rate : float
    power : float, default 4
    seed : int, default 0
    warmup, warmup_power
        As in :class:`Schedule`.
    """

    def __init__(self, learning_rate: float, power: float = 4, seed: int = 0, warmup: int = 0, warmup_power: float = 1):
        super().__init__(learning_rate, warmup, warmup_power)
        self.power, self.seed = power, seed

    def rate(self, num_update: int) -> float:
        """The base rate times a power of a random number."""
        return self.base_lr * np.random.RandomState([self.seed, num_update]).uniform() ** self.power


# The schedules by name: name -> (class, the arguments it takes besides rate and warm-up).
SCHEDULES = {
    "constant": (Constant, ()), "cosine": (Cosine, ("total", "final")), "steps": (Steps, ("steps", "scales")),
    "step": (Step, ("step", "scale")), "poly": (Polynomial, ("total", "power")), "exp": (Exponential, ("gamma",)),
    "sig": (Sigmoid, ("gamma", "step")), "random": (Random, ("power", "seed")),
    "sgdr": (WarmRestarts, ("cycle", "factor", "final")),
}


def schedule(name: str, learning_rate: float, total: int, warmup: int = 0, warmup_power: float = 1,
             **options) -> Schedule:
    """A schedule by name, for a run of ``total`` updates.

    Parameters
    ----------
    name : {"constant", "cosine", "exp", "poly", "random", "sgdr", "sig", "step", "steps"}
        Darknet's policies have Darknet's names.
    learning_rate : float
        The highest rate.
    total : int
        Number of updates of the run. Options that are left out follow from it: ``steps`` are 0.6 and 0.85 of it,
        ``step`` is half and ``cycle`` a seventh of it, and ``gamma`` makes the rate fall to a hundredth.
    warmup, warmup_power
        As in :class:`Schedule`.
    **options
        Of the schedule's class.

    Raises
    ------
    OpError
        There is no such schedule, it takes no such option, or a value is out of range.
    """
    if name not in SCHEDULES:
        raise OpError(WHERE, f"there is no schedule {name!r}; there are {', '.join(sorted(SCHEDULES))}",
                      "Choose one of them")
    kind, takes = SCHEDULES[name]
    for option in options:
        if option not in takes:
            raise OpError(WHERE, f"{name} got the option {option}; expected {', '.join(takes) or 'none'}",
                          "Leave it out, or choose another schedule")
    _check("total", total, total > 0, "a number of updates from 1")
    defaults = {"total": total, "steps": [max(1, round(share * total)) for share in (0.6, 0.85)],
                "step": max(1, total // 2), "scale": 0.1, "cycle": max(1, total // 7),
                "gamma": 10 / total if name == "sig" else 0.01 ** (1 / total)}
    chosen = {option: defaults[option] for option in takes if option in defaults}
    return kind(learning_rate, **{**chosen, **options}, warmup=warmup, warmup_power=warmup_power)


def darknet_schedule(cfg: str | os.PathLike) -> Schedule:
    """The schedule that the ``[net]`` section of a Darknet cfg describes.

    Parameters
    ----------
    cfg : str or os.PathLike

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
    rate = net.number("learning_rate", 0.001)
    common = {"warmup": net.integer("burn_in", 0, 0), "warmup_power": net.number("power", 4)}
    policy = net.text("policy", "constant", sorted([*SCHEDULES, "sigmoid"]))
    if policy == "step":
        return Step(rate, net.integer("step", 1, 1), net.number("scale", 1), **common)
    if policy == "steps":
        return Steps(rate, net.integers("steps"), net.numbers("scales"), **common)
    if policy == "exp":
        return Exponential(rate, net.number("gamma", 1), **common)
    if policy in ("sig", "sigmoid"):   # Darknet's word is the second
        return Sigmoid(rate, net.number("gamma", 1), net.integer("step", 1, 1), **common)
    if policy == "poly":
        return Polynomial(rate, net.integer("max_batches", low=1), net.number("power", 4), **common)
    if policy == "random":
        return Random(rate, net.number("power", 4), **common)
    if policy == "sgdr":
        return WarmRestarts(rate, net.integer("sgdr_cycle", net.integer("max_batches", low=1), 1),
                            net.integer("sgdr_mult", 2, 1), net.number("learning_rate_min", 1e-5), **common)
    if policy == "cosine":
        return Cosine(rate, net.integer("max_batches", low=1), **common)
    return Constant(rate, **common)


def for_servers(own: Schedule) -> mx.lr_scheduler.LRScheduler:
    """The same schedule as one of MXNet's own, for parameter servers that update.

    Such a server runs while MXNet is being imported, and cannot import gluonops.

    An OpError if MXNet has no such schedule.
    """
    common = {"base_lr": own.base_lr, "warmup_steps": own.warmup}
    is_line = own.warmup == 0 or own.warmup_power == 1
    if is_line and isinstance(own, Constant):
        return mx.lr_scheduler.FactorScheduler(2**31 - 1, 1, **common)
    if is_line and isinstance(own, Cosine):
        return mx.lr_scheduler.CosineScheduler(own.total, final_lr=own.final, **common)
    if is_line and isinstance(own, Steps) and len(set(own.scales)) == 1 and min(own.steps) > 1:
        return mx.lr_scheduler.MultiFactorScheduler([step - 1 for step in own.steps], own.scales[0], **common)
    raise OpError(WHERE, f"{type(own).__name__} with a warm-up of the power {own.warmup_power:g} is not known to the "
                  "servers of dist_async; expected constant, cosine, or steps of one scale, and a warm-up in a line",
                  "Choose one of these, or dist_sync")


def _check(name: str, value: object, is_right: bool, expected: str) -> None:
    if not is_right:
        raise OpError(WHERE, f"{name} is {value!r}; expected {expected}", "Pass another value")
