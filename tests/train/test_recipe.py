"""What follows from the number of images: small data sets get more of what large ones have enough of."""
import argparse

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops import train
from gluonops.train import recipe

DEFAULTS = {   # the scripts' defaults, and the images of their default runs
    "detector": {"epochs": 14, "batch_size": 16, "accumulate": 1}, "classifier": {"epochs": 30, "batch_size": 32,
                                                                                  "accumulate": 1}}
IMAGES = {"detector": 4000, "classifier": 1294}


def options(task, **changes):
    return argparse.Namespace(**{**DEFAULTS[task], "repeat": 0, **changes})


@pytest.mark.parametrize("task", DEFAULTS)
def test_the_default_runs_stay_as_they_are(task):
    """They train on scenes of digits and on digits."""
    args, images = options(task), IMAGES[task]
    assert train.repeats(args, images) == 1 and not train.is_small(images)
    assert train.anchor_images(1000, 14 * 4000) == 1000 and train.passes_over_objects(10_000, 3) == 3
    assert train.gradient_limit(IMAGES["detector"]) == 0
    net = gops.models.tiny_yolov2(width=0.1)
    train.fit_batch_norm(net, 3 * 313)   # The pretraining on the objects is the shortest.
    assert momenta(net) == {0.99}
    updates = args.epochs * train.updates_per_epoch(images, args.batch_size)
    assert train.warning_of_few_updates(updates, args.epochs, False, task) is None


@pytest.mark.parametrize("task", DEFAULTS)
@pytest.mark.parametrize("images", [1, 42, 60, 299])
def test_small_data_sets_make_enough_updates(task, images):
    args = options(task)
    times = train.repeats(args, images)
    updates, fewer = (args.epochs * train.updates_per_epoch(images * count, args.batch_size)
                      for count in (times, max(1, times - 1)))
    assert train.is_small(images) and fewer < recipe.LEAST_UPDATES <= updates
    assert train.repeats(options(task, repeat=1), images) == 1, "the user decides"
    assert train.anchor_images(1000, images) <= images / 50
    assert train.gradient_limit(images) == 10
    passes = train.passes_over_objects(images, 3)
    assert passes * train.updates_per_epoch(images, recipe.OBJECT_BATCH) >= recipe.LEAST_PRETRAINING


def momenta(net):
    return {block._kwargs["momentum"] for block in train.parameters.blocks_of(net)
            if isinstance(block, mx.gluon.nn.BatchNorm)}


@pytest.mark.parametrize("updates", [1, 10, 42, 300, 5000])
def test_batch_norms_forget_their_start(updates):
    """They do after half of the updates; a momentum that is low already stays."""
    net = mx.gluon.nn.HybridSequential()
    net.add(gops.darknet.Convolution(4, 3, 3), mx.gluon.nn.BatchNorm(momentum=0.001))
    train.fit_batch_norm(net, updates)
    low, high = sorted(momenta(net))
    assert low == 0.001 and high <= 0.99 and high ** max(updates / 2, 1) <= 0.0101
    assert high == 0.99 or updates < 1000


def test_statistics_of_a_short_run():
    """After 20 updates, Darknet's 0.99 keeps 82 % of the variance 1 that a batch norm begins with."""
    found = []
    for fits in (False, True):
        net = gops.darknet.Convolution(1, 1, 1)
        net.initialize(mx.init.One())
        if fits:
            train.fit_batch_norm(net, 20)
        for number in range(20):
            with mx.autograd.record():
                out = net(mx.nd.array(np.random.RandomState(number).standard_normal((256, 1, 2, 2)) * 10))
            out.backward()   # MXNet updates the statistics there
        found.append(net.norm.running_var.data().asscalar())
    assert found[0] < 30 and found[1] == pytest.approx(100, rel=0.1)


def test_warnings_of_few_updates():
    said = train.warning_of_few_updates(27, 9, False, "detector")
    assert said == ("Warning: 27 updates are seldom enough to train a detector from random weights. Leave --epochs "
                    "out, or pass "
                    f"--epochs {-(-recipe.LEAST_UPDATES * 9 // 27)}, or start from weights: --pretrained auto.")
    assert "--pretrained" not in train.warning_of_few_updates(1, 1, True, "classifier")
    assert "1 update is seldom enough to train a classifier. " in train.warning_of_few_updates(1, 1, True, "classifier")
    assert train.warning_of_few_updates(recipe.FEW_UPDATES["detector"], 9, False, "detector") is None
    assert train.warning_of_few_updates(40, 9, True, "detector") is None


def test_hints_for_detectors():
    hint = train.hint_for_detector(0.01, 42, False)
    assert hint.startswith("Hint: an mAP below 0.05 means that the net has not learned. In this order: train longer ")
    assert "than 42 updates, without --epochs or with more; start from weights, --pretrained auto; " in hint
    assert "train longer" not in train.hint_for_detector(0.04, 10_000, True)
    assert train.hint_for_detector(0.05, 42, False) is None


@pytest.mark.parametrize("right, is_chance", [(5, True), (8, True), (14, False), (20, False)])
def test_hints_for_classifiers(right, is_chance):
    """If 5 of 20 images of four classes are named rightly, that is chance, and so may be 8."""
    labels = np.arange(20) % 4
    logits = np.eye(4)[np.where(np.arange(20) < right, labels, (labels + 1) % 4)]
    hint = train.hint_for_classifier(labels, logits, 42, True)
    assert (hint is not None) == is_chance
    if is_chance:
        assert hint.startswith(f"Hint: {right / 20:.4f} is chance, so the net has not learned.")


def test_one_class_has_no_chance():
    assert train.hint_for_classifier(np.zeros(3), np.zeros((3, 1)), 42, True) is None
