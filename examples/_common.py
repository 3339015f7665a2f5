"""What the digit examples share: options, batches, the training loop, saving. Copy it along with them."""
import argparse
import os
import pathlib
import signal
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
from _values import positive, seed
from gluonops.data import digits
from mxnet import autograd, gluon
from tqdm import tqdm

SHIFT = 2   # pixels by which a training image moves, each way


class Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, and keeps the lines of the description."""


def parser(description, epochs, out, data_dir=True):
    """The options that all examples have; --data-dir those that read digits alone."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    options.add_argument("--epochs", type=positive, default=epochs, help="passes over the training images")
    options.add_argument("--batch-size", type=positive, default=32, help="images per step")
    options.add_argument("--seed", type=seed, default=0, help="of the split, the weights and the order of the images")
    options.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out", out), help="folder for the results")
    if data_dir:
        options.add_argument("--data-dir", help="folder with MNIST's four idx files, gzipped or not (default: the "
                             "digits that ship inside scikit-learn)", default=argparse.SUPPRESS)
    return options


def checked(args):
    """Parse a fine-tuning script's options; an option that would have no effect is an error."""
    if args.root is not None and os.path.isfile(args.root):
        raise gops.OpError("examples", f"--root {args.root} is a file; expected the folder that has the images to "
                           "train on and those held out", "Name its folder, for rec that of train.rec and val.rec")
    if args.pretrained_names and (args.pretrained is None or args.pretrained.endswith(".checkpoint")):
        raise gops.OpError("examples", f"--pretrained-names {args.pretrained_names} beside "
                           f"{args.pretrained or 'no --pretrained'}; expected a file of parameters without names",
                           "Leave it out: a checkpoint has its classes' names")
    return args


def start(args):
    """Make the results folder and set every seed."""
    try:
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(str(gops.OpError("examples", f"--out {args.out} cannot be made a folder: {error.strerror}",
                                  "Name another")))
    mx.random.seed(args.seed)
    np.random.seed(args.seed)


def call(main, arguments, saved_file, then=""):
    """``main(arguments())``. An OpError, Ctrl-C or SIGTERM ends the process with one line.

    Parameters
    ----------
    main : callable
    arguments : callable
        Returns an argparse.Namespace that has ``out``.
    saved_file : str
        Name of the file in ``out`` with the training's state.
    then : str, optional
        What the user can do with it.
    """
    path = before = None
    # A handler runs when MXNet's call returns, which in a distributed job may never happen: leave SIGTERM as it is.
    if "DMLC_ROLE" not in os.environ:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        args = arguments()
        path = args.out / saved_file
        before = _changed(path)
        main(args)
    except gops.OpError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)   # a second one while Python exits ends it at once, silently
        saved = path and _changed(path) != before
        print("\ninterrupted;", f"{path} is saved{then}" if saved else "nothing of this training is saved yet",
              file=sys.stderr)
        sys.exit(130)


def _changed(path):
    return path.stat().st_mtime_ns if path.is_file() else None


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
    """``save(path)`` under a temporary name, then rename: a crash or a full disk leaves the old file or the new one.

    Raises
    ------
    OpError
        The file cannot be written; what ``path`` held is untouched, and nothing is left beside it.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        save(str(temporary))
        os.replace(temporary, path)
    except (OSError, mx.MXNetError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[-1]
        raise gops.OpError("examples", f"{path} cannot be written ({reason}); what it held before is untouched",
                           "Make room on the disk, or choose another --out") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_params(path, save):
    """Save tensors with ``mx.nd.save``, and read them back before the old file is replaced.

    MXNet ignores what closing a file returns: where the last buffer found no room on the disk it leaves a file that is
    cut short, and says nothing. Reading ends with the names, so that it fails wherever the file was cut.
    """
    def save_and_read(name):
        save(name)
        with open(name, "rb+") as file:   # a rename may reach the disk before the content: not after this
            os.fsync(file.fileno())
        mx.nd.load(name)

    write(path, save_and_read)
