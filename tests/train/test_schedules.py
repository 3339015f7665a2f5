"""Learning rates: Darknet's get_current_rate, written from its source, and what a schedule may be asked for."""
import math

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops import train

UPDATES = range(1, 41)


def darknet_rate(n, rate=0.01, burn_in=0, power=4.0, policy="constant", scale=1.0, step=1, steps=(), scales=(), gamma=1,
                 max_batches=0):
    """pjreddie/darknet src/network.c, get_current_rate, but for the policy random."""
    if n < burn_in:
        return rate * (n / burn_in) ** power
    if policy == "step":
        return rate * scale ** (n // step)
    if policy == "steps":
        for at, factor in zip(steps, scales):
            if at > n:
                return rate
            rate *= factor
        return rate
    if policy == "exp":
        return rate * gamma ** n
    if policy == "poly":
        return rate * (1 - n / max_batches) ** power
    if policy == "sig":
        return rate * (1 / (1 + math.exp(gamma * (n - step))))
    return rate


@pytest.mark.parametrize("options", [
    {}, {"burn_in": 5}, {"burn_in": 8, "power": 2.0}, {"policy": "step", "step": 7, "scale": 0.5},
    {"policy": "steps", "steps": (10, 20, 30), "scales": (10.0, 0.1, 0.1), "burn_in": 3},
    {"policy": "exp", "gamma": 0.9}, {"policy": "poly", "max_batches": 50, "burn_in": 4},
    {"policy": "poly", "max_batches": 41, "power": 1.0}, {"policy": "sig", "gamma": 0.3, "step": 20}],
    ids=lambda options: options.get("policy", "constant"))
def test_of_a_cfg(tmp_path, options):
    def text(value):
        return ",".join(map(str, value)) if isinstance(value, tuple) else value

    lines = "".join(f"{name}={text(value)}\n" for name, value in options.items())
    (tmp_path / "net.cfg").write_text(f"[net]\nheight=8\nwidth=8\nchannels=3\nlearning_rate=0.01\n{lines}[softmax]\n")
    schedule = train.darknet_schedule(tmp_path / "net.cfg")
    assert isinstance(schedule, mx.lr_scheduler.LRScheduler)
    np.testing.assert_allclose([schedule(n) for n in UPDATES], [darknet_rate(n, **options) for n in UPDATES], rtol=1e-6)


@pytest.mark.parametrize("text, rates", [
    ("", {1: 0.01, 999: 0.01}),
    ("burn_in=4\n", {1: 0.01 / 256, 2: 0.01 / 16, 3: 0.01 * 81 / 256, 4: 0.01}),
    ("burn_in=4\npower=1\n", {1: 0.0025, 3: 0.0075, 4: 0.01}),
    ("policy=step\nstep=3\nscale=0.5\n", {1: 0.01, 2: 0.01, 3: 0.005, 5: 0.005, 6: 0.0025}),
    ("policy=steps\nsteps=2,5\nscales=10,.01\nburn_in=1\n", {1: 0.01, 2: 0.1, 4: 0.1, 5: 0.001, 99: 0.001}),
    ("policy=exp\ngamma=0.5\n", {1: 0.005, 2: 0.0025, 4: 0.000625}),
    ("policy=poly\nmax_batches=10\npower=2\n", {1: 0.0081, 5: 0.0025, 9: 0.0001, 10: 0}),
    ("policy=poly\nmax_batches=10\n", {5: 0.000625}),
    ("policy=sigmoid\ngamma=1\nstep=3\n", {3: 0.005, 4: 0.01 / (1 + math.e), 2: 0.01 / (1 + 1 / math.e)}),
    # Cycles of 4 and 8 updates: after a half of one the rate is in the middle.
    ("policy=sgdr\nmax_batches=99\nsgdr_cycle=4\nlearning_rate_min=0.002\n",
     {2: 0.006, 4: 0.002, 6: 0.002 + 0.004 * (1 + math.sqrt(0.5)), 8: 0.006, 12: 0.002, 20: 0.006}),
    ("policy=sgdr\nmax_batches=20\n", {10: 0.005005, 20: 0.00001}),
    ("policy=cosine\nmax_batches=20\n", {10: 0.005, 20: 0})], ids=lambda value: str(value)[:30].replace("\n", " "))
def test_by_hand(tmp_path, text, rates):
    """The rates are worked out from both programs' formulas, with their defaults."""
    (tmp_path / "net.cfg").write_text(f"[net]\nheight=8\nwidth=8\nchannels=3\nlearning_rate=0.01\n{text}[softmax]\n")
    schedule = train.darknet_schedule(tmp_path / "net.cfg")
    assert {update: schedule(update) for update in rates} == pytest.approx(rates, rel=1e-9, abs=1e-15)


def test_of_weights_that_were_trained_before(tmp_path):
    """A batch has 4 images: after 40 images the next update is the eleventh."""
    text = "[net]\nheight=8\nwidth=8\nchannels=3\nlearning_rate=0.01\nbatch=4\nburn_in=12\npower=1\n[softmax]\n"
    (tmp_path / "net.cfg").write_text(text)
    schedule = train.darknet_schedule_from(tmp_path / "net.cfg", 40)
    assert [schedule(1), schedule(2), schedule(3)] == pytest.approx([0.01 * 11 / 12, 0.01, 0.01])
    assert train.darknet_schedule_from(tmp_path / "net.cfg", 0)(1) == pytest.approx(0.01 / 12)


def test_random():
    """rate * u ** power, u uniform; the same for the same update, whatever was asked for before."""
    schedule = train.schedule("random", 0.1, 3000, power=2, seed=1, warmup=3)
    rates = np.array([schedule(n) for n in range(3, 3000)])
    assert schedule(1) == pytest.approx(0.1 / 3)
    assert schedule(7) == rates[4] != train.schedule("random", 0.1, 3000, power=2, seed=2)(7)
    shares = np.sort(np.sqrt(rates / 0.1))
    np.testing.assert_allclose(shares, np.linspace(0, 1, len(shares)), atol=0.04)


def test_cosine_is_that_of_mxnet():
    ours = train.schedule("cosine", 0.5, 40, final=0.1, warmup=6)
    theirs = mx.lr_scheduler.CosineScheduler(40, 0.5, 0.1, warmup_steps=6)
    np.testing.assert_allclose([ours(n) for n in range(1, 50)], [theirs(n) for n in range(1, 50)], rtol=1e-9)


def test_warm_restarts():
    """Cosines of 4, 8 and 16 updates have the paper's formula."""
    schedule = train.schedule("sgdr", 1.0, 28, cycle=4, final=0.2)
    for n in UPDATES[:28]:
        start, length = (0, 4) if n <= 4 else (4, 8) if n <= 12 else (12, 16)
        expected = 0.2 + 0.4 * (1 + math.cos(math.pi * (n - start) / length))
        assert schedule(n) == pytest.approx(expected)


@pytest.mark.parametrize("name", sorted(train.SCHEDULES))
def test_by_name(name):
    """A run has 40 updates; and an optimizer takes it without a warning."""
    schedule = train.schedule(name, 0.1, 40, warmup=4)
    rates = [schedule(n) for n in UPDATES]
    assert rates[:3] == pytest.approx([0.025, 0.05, 0.075])
    assert all(math.isfinite(rate) and 0 <= rate <= 0.1 for rate in rates)
    assert name in ("constant", "random", "sgdr") or rates[-1] < 0.02
    assert mx.optimizer.create("sgd", learning_rate=0.1, lr_scheduler=schedule).learning_rate == schedule(0)


@pytest.mark.parametrize("name, options, text", [
    ("cosin", {}, "name is 'cosin'; expected 'constant', 'cosine', 'exp'"),
    ("cosine", {"gamma": 1}, "cosine got the option gamma; expected total, final"),
    ("constant", {"learning_rate": -1}, "learning_rate is -1; expected a finite number of at least 0"),
    ("steps", {"steps": [3, 1]}, r"steps is \[3, 1\]; expected increasing"),
    ("steps", {"scales": [1]}, r"scales is \[1\]; expected 2 numbers, one per step"),
    ("cosine", {"total": 0}, "total is 0; expected a finite number of at least 1"),
    ("step", {"step": 0}, "step is 0; expected"), ("sgdr", {"cycle": 0}, "cycle is 0; expected"),
    ("poly", {"warmup": -1}, "warmup is -1; expected")])
def test_refused(name, options, text):
    with pytest.raises(gops.OpError, match=text):
        train.schedule(name, **{"learning_rate": 0.1, "total": 40, **options})


def test_an_unknown_policy_of_a_cfg(tmp_path):
    (tmp_path / "net.cfg").write_text("[net]\nheight=8\nwidth=8\nchannels=3\npolicy=wave\n[softmax]\n")
    with pytest.raises(gops.OpError, match="policy is 'wave'; expected one of constant, cosine"):
        train.darknet_schedule(tmp_path / "net.cfg")


@pytest.mark.parametrize("schedule", [
    train.schedule("constant", 0.5, 40, 4), train.schedule("cosine", 0.5, 40, 6, final=0.1),
    train.schedule("steps", 0.5, 40, 3, steps=[10, 20]), train.schedule("constant", 0.5, 40)],
    ids=["warmup", "cosine", "steps", "constant"])
def test_for_servers(schedule):
    """A parameter server can load MXNet's own class, which has the same rates."""
    theirs = train.optimizers.for_servers(schedule)
    assert type(theirs).__module__ == "mxnet.lr_scheduler"
    np.testing.assert_allclose([theirs(n) for n in UPDATES], [schedule(n) for n in UPDATES], rtol=1e-9)


@pytest.mark.parametrize("schedule", [
    train.schedule("sig", 0.1, 9), train.schedule("cosine", 0.1, 9, 3, warmup_power=4)], ids=["sig", "power"])
def test_servers_do_not_know_the_others(schedule):
    with pytest.raises(gops.OpError, match="the servers of dist_async do not have the schedule .*; expected constant, "
                       "cosine"):
        train.optimizers.for_servers(schedule)
