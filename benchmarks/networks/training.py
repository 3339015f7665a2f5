"""A training step: forward, loss, backward and SGD; of tiny_yolov2. ``python -m benchmarks.busy`` times it."""
from __future__ import annotations

from collections.abc import Callable

import gluonops as gops
import mxnet as mx
import numpy as np

# Options of tiny_yolov2. The second is the default of examples/finetune_detector.py.
TRAINED = {"tiny_yolov2": {}, "half of tiny_yolov2": {"width": 0.5, "head_channels": (256, 256)}}
ANCHORS = [[0.6, 1.1], [0.8, 1.4], [1.1, 1.7], [1.4, 2.0], [2.5, 3.0]]
CLASSES, THRESH, RATE = 10, 0.6, 1e-4


def make(name: str, images: np.ndarray) -> gops.models.TinyYOLOv2:
    """A net with random weights, the same in every process."""
    mx.random.seed(0)
    net = gops.models.tiny_yolov2(classes=CLASSES, anchors=ANCHORS, **TRAINED[name])
    net.initialize(mx.init.Xavier())
    net(mx.nd.array(images))
    return net


def draw(batch: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Images (batch, 3, size, size), and ground truth (batch, 8, 5) with three boxes each; the rest is padding."""
    rng = np.random.RandomState(0)
    images = rng.rand(batch, 3, size, size).astype("float32")
    centres = rng.uniform(0.1, 0.9, (batch, 3, 2))
    sizes = rng.uniform(0.2, 0.5, (batch, 3, 2))
    class_ids = rng.randint(0, CLASSES, (batch, 3, 1))
    ground_truth = np.zeros((batch, 8, 5), "float32")
    ground_truth[:, :3] = np.concatenate([centres, sizes, class_ids], 2)
    return images, ground_truth


def step_of_detector(net: gops.models.TinyYOLOv2, images: np.ndarray, ground_truth: np.ndarray) -> Callable:
    """A function that trains one of the nets of TRAINED for one step, and returns the losses."""
    loss = gops.loss.RegionLoss(np.ravel(ANCHORS).tolist(), CLASSES, thresh=THRESH, warmup_images=0)
    loss.initialize()
    return step_of(net, loss, "sgd", RATE, images, ground_truth)


def step_of(net: mx.gluon.HybridBlock, loss: mx.gluon.HybridBlock, optimizer: str, rate: float, images: np.ndarray,
            truth: np.ndarray) -> Callable:
    """A function that trains our net for one step, and returns the losses."""
    net.hybridize(static_alloc=True)
    loss.hybridize(static_alloc=True)
    images, truth = mx.nd.array(images), mx.nd.array(truth)
    net(images)
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": rate, "momentum": 0.9})

    def step():
        with mx.autograd.record():
            losses = loss(net(images), truth)
        losses.backward()
        trainer.step(len(images))
        mx.nd.waitall()
        return losses

    return step
