"""Images with one label each, for finetune_classifier.py."""
import collections

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops import data
from mxnet import gluon

Images = collections.namedtuple("Images", "training validation held_out classes")


def load(args):
    """Images to train on, to choose the best epoch on, and held out until the end.

    A tenth of the training images chooses the epoch; what the dataset holds out (``val`` or ``test``) is only looked
    at in the end. Items are (uint8 (H, W, C), label).
    """
    options = {"size": args.size, "seed": args.seed} if args.dataset in ("digits", "mnist") else {}
    train, held_out = (data.classification(args.dataset, args.root, part, **options) for part in ("train", "val"))
    if held_out.classes != train.classes:
        raise gops.OpError("examples", f"the held-out images have the classes {', '.join(held_out.classes)}; those to "
                           f"train on {', '.join(train.classes)}", "Make them agree")
    classes = list(args.classes or train.classes)
    unknown = [name for name in classes if name not in train.classes]
    if unknown:
        raise gops.OpError("examples", f"there is no class {unknown[0]!r}; there are {', '.join(train.classes)}",
                           "Choose other --classes")
    training, held_out = Part(train, classes), Part(held_out, classes)
    validation = np.zeros(len(training), bool)
    validation[np.random.RandomState(args.seed).permutation(len(training))[::10]] = True
    return Images(Part(train, classes, ~validation), Part(train, classes, validation), held_out, classes)


class Part(gluon.data.Dataset):
    """The images of some classes, labelled by their place among them; of those the ones that ``chosen`` marks."""

    def __init__(self, dataset, classes, chosen=None):
        numbers = np.array([classes.index(name) if name in classes else -1 for name in dataset.classes])
        self.dataset, self.classes = dataset, classes
        self.indices = np.flatnonzero(numbers[dataset.labels] >= 0)
        if chosen is not None:
            self.indices = self.indices[chosen]
        self.labels = numbers[dataset.labels[self.indices]]

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, index):
        return self.dataset[int(self.indices[index])][0], self.labels[index]


def augment(args):
    """How training images change: moved, scaled and stretched a little; photographs in their colours, too."""
    if args.dataset in ("digits", "mnist"):
        return data.Augment(jitter=0.1, scale=(0.9, 1.15), flip=args.flip, hue=0, saturation=1, exposure=1)
    return data.Augment(flip=args.flip)


def loader(dataset, batches, args, epoch, first):
    """A DataLoader of training batches, lists of indices, from batch ``first`` of the epoch on."""
    return gluon.data.DataLoader(dataset, batch_sampler=data.Batches(batches, epoch=epoch, first=first),
                                 batchify_fn=stack, num_workers=args.threads, thread_pool=True)


def stack(items):
    """A DataLoader's batchify_fn: images (B, C, H, W) from 0 to 1, and labels."""
    images, labels = zip(*items)
    return mx.nd.array(np.stack(images)), mx.nd.array(np.array(labels, "float32"))
