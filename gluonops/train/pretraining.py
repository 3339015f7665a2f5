"""The weights that a net starts from: existing ones, or a backbone that has learned to classify the data set's objects.

With existing weights, an output layer keeps the rows of the classes that it knew before. The published nets began with
weights from ImageNet. If such weights are not at hand, the objects of the data set itself are cut out of the images,
and the backbone learns to classify them. It learns this far sooner than detection, because every object is large and
there is only one task.
"""
from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

from ..backends.layer import EitherModeBlock
from ..contract.errors import OpError, plural
from ..darknet import load_weights
from ..data import DetectionDataset, SampleKey
from ..data.base import around, class_names
from ..data.transforms.augment import place
from ..io.params import as_numpy
from ..loss import SoftmaxCELoss
from .checkpoint import net_tensors, read_checkpoint, read_parameters, restore_net
from .image_sets import classification_batch
from .optimizers import make_trainer, schedule
from .recipe import FIRST_LAYERS, OBJECT_BATCH, fitted_batch_norm, is_small
from .run import Run
from .workers import updates_per_epoch

__all__ = ["Cutouts", "describe_pretrained", "load_pretrained_classifier", "load_pretrained_detector",
           "pretrain_backbone", "pretrained_source"]

Path = os.PathLike
AUTO, NONE = "auto", "none"   # --pretrained takes them besides paths
SIZE = 64              # height and width of a cut-out
MARGIN = (1.1, 1.6)    # The side of a crop is so many longest sides of the object.
RATE, DECAY = 0.05, 5e-4
NAME = "pretraining"


def pretrained_source(words: str | None, net: gluon.Block, images: int) -> str:
    """What ``--pretrained`` means for a net and a data set.

    Parameters
    ----------
    words : str or None
        ``auto`` means the backbone in the package, and ``none`` means random weights. Anything else is the path of a
        file. None stands for ``auto`` if the data set is small and the package has weights for this net, and else for
        ``none``.
    net : gluon.Block
        A detector of :mod:`gluonops.models`, or a :class:`gluonops.models.Classifier`.
    images : int
        Number of training images.

    Returns
    -------
    str
        ``auto``, ``none`` or the file.
    """
    if words is not None:
        return words
    return AUTO if is_small(images) and net.has_pretrained_backbone else NONE


def describe_pretrained(source: str, kept: Sequence[str]) -> str:
    """A sentence about the weights that were loaded.

    Parameters
    ----------
    source : str
        The result of :func:`pretrained_source`.
    kept : sequence of str
        The classes whose rows of the output are kept.
    """
    if source == AUTO:
        return "The net starts from the backbone in the package; --pretrained none starts from random weights."
    return f"{source} is loaded. The output is kept for {', '.join(kept) or 'no class'}."


def load_pretrained_classifier(net: gluon.Block, path: str | Path,
                               names: str | Path | Sequence[str] | None = None) -> list[str]:
    """Load weights into a classifier of :func:`gluonops.models.classifier`.

    The rows of the output layer whose class has the same name in the file are reused. The other rows, and an output of
    another width, stay as they are.

    Parameters
    ----------
    net : gluonops.models.Classifier
        Initialized, with known shapes.
    path : str or os.PathLike
        A ``.checkpoint``, a ``.params`` file of such a net, or ``.weights`` of Darknet-19. ``auto`` means the backbone
        in the package.
    names : str or sequence of str, optional
        The names of the file's classes, or a file with one per line. A checkpoint has them itself.

    Returns
    -------
    list of str
        The classes whose rows were reused.

    Raises
    ------
    OpError
        The file cannot be read or belongs to another net, or the names do not fit it.
    """
    where, path = "train.load_pretrained_classifier", pathlib.Path(path)
    if _is_package_backbone(net, path, names, where):
        return []
    tensors, stored = _read(path, names, where)
    if tensors is None:
        is_darknet = path.suffix == ".weights"
        tensors = net.darknet_tensors(path, len(stored or range(1000))) if is_darknet else read_parameters(path)
    restore_net(tensors, net, path, leave="output")
    if not stored or "output.weight" not in tensors:
        return []
    wanted, shape = net._collect_params_with_prefix(), tensors["output.weight"].shape
    if len(stored) != shape[0]:
        raise OpError(where,
                      f"{names} has {plural(len(stored), 'name')}; expected {shape[0]}, one for each output of {path}",
                      "Name the file with the classes that it was trained on")
    if shape[1:] != wanted["output.weight"].shape[1:]:
        return []
    reused = [name for name in net.classes if name in stored]
    for part in ("output.weight", "output.bias"):
        rows = wanted[part].data().copy()
        for name in reused:
            rows[net.classes.index(name)] = tensors[part][stored.index(name)]
        wanted[part].set_data(rows)
    return reused


def load_pretrained_detector(net: gluon.Block, path: str | Path,
                             names: str | Path | Sequence[str] | None = None) -> list[str]:
    """Load weights into a detector of :mod:`gluonops.models`: ``yolov2``, ``tiny_yolov2`` or ``region_detector``.

    The output keeps the rows of the classes that have the same name in the file. If it has other classes than the net,
    the rest of the output starts anew.

    Parameters
    ----------
    net : gluonops.models.YOLOv2Base
        Initialized, with known shapes.
    path : str or os.PathLike
        A ``.checkpoint``, a ``.params`` file of such a net, Darknet's ``.weights``, or the first layers of Darknet
        weights, ``.conv.N``. ``auto`` means the backbone in the package.
    names : str or sequence of str, optional
        The names of the file's classes, or a file with one per line, such as Darknet's ``data/voc.names``. A
        checkpoint has them itself, and first layers have none.

    Returns
    -------
    list of str
        The classes whose rows were kept.

    Raises
    ------
    OpError
        The file cannot be read or belongs to another net, or the names are missing or do not fit it.
    """
    where, path = "train.load_pretrained_detector", pathlib.Path(path)
    if _is_package_backbone(net, path, names, where):
        return []
    if FIRST_LAYERS.search(path.name):
        load_weights(net.backbone, path)
        return []
    tensors, stored = _read(path, names, where)
    if stored is None:
        raise OpError(where, f"{path} does not hold the names of its classes",
                      "Name them with --pretrained-names, a file such as Darknet's data/voc.names")
    wanted = list(net.classes)
    if stored != wanted:
        net.reset_class(stored)
    if tensors is None:
        net.load_darknet(os.fspath(path))
    else:
        restore_net(tensors, net, path)
    reused = [name for name in wanted if name in stored]
    if stored != wanted:
        net.reset_class(wanted, reuse_weights=reused or None)
    return reused


def _is_package_backbone(net, path, names, where):
    """Load the backbone in the package if ``path`` means it. Returns whether it does."""
    if path.name != AUTO:
        return False
    _refuse(names, AUTO, "the backbone in the package has no classes", where)
    net.load_pretrained_backbone()
    return True


def _read(path, names, where):
    """The tensors of a file, and the names of its classes, or None.

    The tensors are None for a file that is neither a checkpoint nor ``.params``.
    """
    if path.suffix != ".checkpoint":
        stored = list(class_names(names, where)) if names else None
        return read_parameters(path) if path.suffix == ".params" else None, stored
    _refuse(names, path, "a checkpoint has its classes' names", where)
    tensors, train_state = read_checkpoint(path)
    return net_tensors(tensors), list(train_state["classes"])


def _refuse(names, source, why, where):
    """Raise an OpError if there are names for a source that takes none."""
    if names:
        raise OpError(where, f"--pretrained-names is {names} and --pretrained is {source}; expected a file of "
                      "parameters without names", f"Leave --pretrained-names out: {why}")


class Cutouts(gluon.data.Dataset):
    """The objects of a data set for detection, cut out of their images. An item is (float32 (3, 64, 64), class).

    In each epoch an object lies at another place in its cut-out.

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
        for each in around(index, len(self)):
            image_index, number = self.objects[each]
            image, label = self._dataset[image_index]
            if np.array_equal(label, self._dataset.label(image_index)):   # else another one took a damaged one's place
                break
        image = as_numpy(image)
        rng = np.random.RandomState([self._seed, epoch, index])
        sides, middle = label[number, 2:4] - label[number, :2], (label[number, :2] + label[number, 2:4]) / 2
        scale = SIZE / (max(sides.max(), 1) * rng.uniform(*MARGIN))
        room = np.maximum(SIZE - sides * scale, 0) / 2
        offset = SIZE / 2 - middle * scale + rng.uniform(-1, 1, 2) * room
        new_size = tuple(max(1, round(side * scale)) for side in image.shape[1::-1])
        return place(image, new_size, tuple(np.rint(offset).astype(int)), (SIZE, SIZE)), label[number, 4]


class _Classifier(EitherModeBlock):
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
        Takes images and returns a map, or several maps, of which the last is used. It is initialized on one device, and
        its shapes are known.
    classes : sequence of str
        Names of the classes.
    dataset : gluonops.data.DetectionDataset
        The data set with the objects.
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
        raise OpError("train.pretrain_backbone", "there is no object to pretrain on",
                      "Pass --pretrain-epochs 0 to leave the pretraining out")
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
