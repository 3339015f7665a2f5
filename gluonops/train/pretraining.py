"""Before a net learns to find objects, its backbone learns to tell them apart: cut out of the images, one at a time.

The published nets began so on ImageNet. Where they are not at hand, the objects of the data set itself do, far sooner
than detection alone would: every object is large, and classification is the only task.
"""
from __future__ import annotations

import os
from collections.abc import Sequence

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

from ..core.errors import OpError
from ..core.params import as_numpy
from ..data import DetectionDataset, SampleKey
from ..data.transforms.augment import place
from ..loss import SoftmaxCELoss
from .images import classification_batch
from .optimizers import make_trainer
from .plan import updates_per_epoch
from .recipe import OBJECT_BATCH, fitted_batch_norm
from .run import Run
from .schedules import schedule

__all__ = ["Cutouts", "pretrain_backbone"]

SIZE = 64              # height and width of a cut-out
MARGIN = (1.1, 1.6)    # its side, in longest sides of the object
RATE, DECAY = 0.05, 5e-4
NAME = "pretraining"


class Cutouts(gluon.data.Dataset):
    """The objects of a data set for detection: (float32 (3, 64, 64), class), at another place in each epoch.

    Parameters
    ----------
    dataset : gluonops.data.DetectionDataset
        Difficult objects are left out.
    seed : int
        Seed of where an object lies in its cut-out, and how large it is there.
    """

    def __init__(self, dataset: DetectionDataset, seed: int):
        self._dataset, self._seed = dataset, seed
        self.objects = [(index, number) for index in range(len(dataset))
                        for number, row in enumerate(dataset.label(index)) if not row[5]]

    def __len__(self):
        return len(self.objects)

    def __getitem__(self, key):
        index, epoch, _ = key if isinstance(key, SampleKey) else (key, 0, None)
        image_index, number = self.objects[index]
        image, label = self._dataset[image_index]
        image = as_numpy(image)
        rng = np.random.RandomState([self._seed, epoch, index])
        sides, middle = label[number, 2:4] - label[number, :2], (label[number, :2] + label[number, 2:4]) / 2
        scale = SIZE / (max(sides.max(), 1) * rng.uniform(*MARGIN))
        room = np.maximum(SIZE - sides * scale, 0) / 2
        offset = SIZE / 2 - middle * scale + rng.uniform(-1, 1, 2) * room
        new_size = tuple(max(1, round(side * scale)) for side in image.shape[1::-1])
        return place(image, new_size, tuple(np.rint(offset).astype(int)), (SIZE, SIZE)), label[number, 4]


class _Classifier(gluon.HybridBlock):
    """The backbone, the mean over its maps, and a dense layer."""

    def __init__(self, backbone: gluon.HybridBlock, classes: int, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.backbone, self.output = backbone, gluon.nn.Dense(classes)

    def hybrid_forward(self, F, data):
        maps = self.backbone(data)   # the coarse one of YOLOv2's two
        return self.output(F.mean(maps[-1] if isinstance(maps, (list, tuple)) else maps, axis=(2, 3)))


def pretrain_backbone(backbone: gluon.HybridBlock, classes: Sequence[str], dataset: DetectionDataset, epochs: int,
                      out: str | os.PathLike, seed: int = 0, threads: int = 0, resume: str | None = None,
                      save_every: int = 0) -> float:
    """Train a backbone to classify the objects of a data set for detection.

    It is a run of its own: Ctrl-C saves ``out/pretraining.checkpoint`` with parameters, momentum and position, and
    ``resume="auto"`` continues from it to the numbers of a run without a stop.

    Parameters
    ----------
    backbone : gluon.HybridBlock
        Images to maps, or to several maps, of which the last is used. Initialized, with known shapes, on one device.
    classes : sequence of str
    dataset : gluonops.data.DetectionDataset
    epochs : int
        Passes over the objects.
    out : str or os.PathLike
        Folder for the checkpoint.
    seed : int, default 0
    threads : int, default 0
        Threads that read images ahead.
    resume, save_every
        As in :meth:`Run.resume` and :class:`Run`.

    Returns
    -------
    float
        Share of the objects that were classified correctly while the last epoch trained on them.

    Raises
    ------
    OpError
        There is no object, or the checkpoint is of another run.
    """
    cutouts = Cutouts(dataset, seed)
    if not len(cutouts):
        raise OpError("train.pretrain_backbone", "there is no object to pretrain on", "Pass --pretrain-epochs 0")
    device = next(iter(backbone.collect_params().values())).list_ctx()[0]
    classifier = _Classifier(backbone, len(classes))
    classifier.output.initialize(mx.init.Xavier(), ctx=device)
    classifier(mx.nd.zeros((1, 3, SIZE, SIZE), ctx=device))   # fixes the shape of the output
    classifier.hybridize(static_alloc=True)
    updates = epochs * updates_per_epoch(len(cutouts), OBJECT_BATCH)
    rates = schedule("cosine", RATE, max(updates, 2), warmup=updates // 10)
    trainer = make_trainer(classifier.collect_params(), "sgd", rates, DECAY)
    run = Run(classifier, trainer, len(cutouts), epochs=epochs, batch_size=OBJECT_BATCH, out=out, seed=seed, name=NAME,
              keep_best=False, title=NAME, unit="object", save_every=save_every, data=dataset.fingerprint(),
              extra={"classes": list(classes)})
    run.resume(resume)
    with fitted_batch_norm(classifier, updates):
        fit(run, classifier, cutouts, threads)
    return run.history[-1]["accuracy"]


def fit(run: Run, classifier: gluon.HybridBlock, dataset: gluon.data.Dataset, threads: int) -> None:
    """Train a classifier, without a validation, on the run's device."""
    softmax, device = SoftmaxCELoss(), run.trainer._contexts[0]
    for _ in run.epochs():
        for images, labels in run.batches(dataset, classification_batch, threads):
            images, labels = images.as_in_context(device), labels.as_in_context(device)
            with autograd.record():
                logits = classifier(images)
                losses = softmax(logits, labels)
            run.backward([losses])
            run.step({"loss": losses.sum(), "accuracy": (logits.argmax(1) == labels).sum()})
        run.end_epoch({}, 0)
