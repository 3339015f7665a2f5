"""A short training loop for images that fit into memory, such as :func:`gluonops.data.digits`.

For anything longer use :class:`gluonops.train.Run`, which can be stopped and resumed.
"""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from mxnet import autograd, gluon

from ..data import Split
from ..io.progress import Bar
from ..loss import SoftmaxCELoss

__all__ = ["fit_classifier", "predict_logits", "split_batches"]

SHIFT = 2   # pixels by which a training image moves, each way


def split_batches(split: Split, batch_size: int, train: bool = False) -> gluon.data.DataLoader:
    """Batches of (images, labels).

    Parameters
    ----------
    split : Split
        ``images`` (N, C, H, W) and ``labels`` (N,).
    batch_size : int
        Number of images in a batch.
    train : bool, default False
        Whether the images are shuffled, and each is shifted by up to two pixels.
    """
    dataset = gluon.data.ArrayDataset(*split)
    dataset = dataset.transform_first(_shifted) if train else dataset
    return gluon.data.DataLoader(dataset, batch_size, shuffle=train)


def fit_classifier(net: gluon.Block, loader: gluon.data.DataLoader, trainer: gluon.Trainer, epochs: int,
                   title: str = "training") -> Iterator[tuple[int, float]]:
    """Train with ``SoftmaxCELoss``. After each epoch, counted from 1, (epoch, mean loss) is yielded.

    Parameters
    ----------
    net : gluon.Block
        Takes images and returns logits.
    loader : gluon.data.DataLoader
        Yields (images, labels), as the result of :func:`split_batches` does.
    trainer : gluon.Trainer
        Updates the parameters of the net.
    epochs : int
        Number of passes over the images.
    title : str, default "training"
        The text of the progress bar.
    """
    loss = SoftmaxCELoss()
    with Bar(epochs * len(loader), 0, title, "batch", True) as bar:
        for epoch in range(1, epochs + 1):
            total, count = 0, 0
            for images, labels in loader:
                with autograd.record():
                    losses = loss(net(images), labels)
                losses.backward()
                trainer.step(len(images))
                total = total + losses.sum()   # an NDArray still: reading its number here would stall the engine
                count += len(images)
                bar.advance(1, {"epoch": epoch})
            yield epoch, total.asscalar() / count


def predict_logits(net: gluon.Block, split: Split, batch_size: int = 100) -> np.ndarray:
    """The net's output for every image, (N, classes)."""
    return np.concatenate([net(images).asnumpy() for images, _ in split_batches(split, batch_size)])


def _shifted(image):
    _, height, width = image.shape
    top, left = np.random.randint(0, 2 * SHIFT + 1, 2)
    return np.pad(image, ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT)))[:, top:top + height, left:left + width]
