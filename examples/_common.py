"""What the digit examples share: options, batches, the training loop, saving. Copy it along with them."""
import argparse
import os
import pathlib
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops.data import digits
from mxnet import autograd, gluon
from tqdm import tqdm

SHIFT = 2   # pixels by which a training image moves, each way


class Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, and keeps the lines of the description."""


def positive(text):
    """argparse's type for a count."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"got {number}; expected at least 1")
    return number


def parser(description, epochs, out):
    """The options that all examples have."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    options.add_argument("--epochs", type=positive, default=epochs, help="passes over the training images")
    options.add_argument("--batch-size", type=positive, default=32, help="images per step")
    options.add_argument("--seed", type=int, default=0, help="of the split, the weights and the order of the images")
    options.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out", out), help="folder for the results")
    options.add_argument("--data-dir", help="folder with MNIST's four idx files, gzipped or not (default: the digits "
                         "that ship inside scikit-learn)", default=argparse.SUPPRESS)
    return options


def start(args):
    """Make the results folder and set every seed."""
    args.out.mkdir(parents=True, exist_ok=True)
    mx.random.seed(args.seed)
    np.random.seed(args.seed)


def load(args, classes=None):
    """(training, held out) digits."""
    try:
        return digits(getattr(args, "data_dir", None), seed=args.seed, classes=classes)
    except gops.OpError as error:
        sys.exit(str(error))


def batches(split, size, train=False):
    """A DataLoader; for training it shuffles the images and shifts each by a pixel or two."""
    data = gluon.data.ArrayDataset(*split)
    return gluon.data.DataLoader(data.transform_first(_shifted) if train else data, size, shuffle=train)


def _shifted(image):
    _, height, width = image.shape
    top, left = np.random.randint(0, 2 * SHIFT + 1, 2)
    return np.pad(image, ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT)))[:, top:top + height, left:left + width]


def train(net, loader, trainer, epochs, title):
    """Train with SoftmaxCELoss; yield (epoch, mean loss) after each epoch."""
    loss = gops.loss.SoftmaxCELoss()
    with tqdm(total=epochs * len(loader), desc=title, unit="batch") as bar:
        for epoch in range(1, epochs + 1):
            total, count = 0, 0
            for images, labels in loader:
                with autograd.record():
                    losses = loss(net(images), labels)
                losses.backward()
                trainer.step(len(images))
                total = total + losses.sum()   # an NDArray still: reading its number here would stall the engine
                count += len(images)
                bar.update()
            mean = total.asscalar() / count
            bar.set_postfix(epoch=epoch, loss=f"{mean:.4f}")
            yield epoch, mean


def logits(net, split, size=100):
    """The net's output for every image, as a NumPy array."""
    return np.concatenate([net(images).asnumpy() for images, _ in batches(split, size)])


def accuracy(net, split):
    """Share of the images whose largest logit is the label's."""
    return float((logits(net, split).argmax(1) == split.labels).mean())


def write(path, save):
    """``save(path)`` under a temporary name, then rename: a crash leaves the old file or the new one."""
    temporary = path.with_name(f"{path.name}.tmp")
    save(str(temporary))
    os.replace(temporary, path)
