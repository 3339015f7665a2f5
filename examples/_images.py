"""Images with one label each, for finetune_classifier.py."""
import collections
import hashlib

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops import data
from gluonops.data.base import about_image, class_names
from gluonops.data.images import progress
from mxnet import gluon

Images = collections.namedtuple("Images", "training validation held_out classes")


def load(args):
    """Images to train on, to choose the best epoch on, and held out until the end.

    A tenth of the training images chooses the epoch; what the dataset holds out (``val`` or ``test``) is only looked
    at in the end. Items are (uint8 (H, W, C), label).
    """
    options = {"size": args.size, "seed": args.seed} if args.dataset in ("digits", "mnist") else {}
    train = data.classification(args.dataset, args.root, "train", **options)
    if not options:   # the same class ids as in training
        options["classes"] = train.classes
    held_out = data.classification(args.dataset, args.root, "val", **options)
    classes = list(class_names(args.classes or train.classes, "examples"))
    unknown = [name for name in classes if name not in train.classes]
    if unknown:
        raise gops.OpError("examples", f"there is no class {unknown[0]!r}; there are {', '.join(train.classes)}",
                           "Choose other --classes")
    training, held_out = Part(train, classes), Part(held_out, classes)
    for part, minimum, name in ((training, 2, "to train on"), (held_out, 1, "held out")):
        if len(part) < minimum:   # one of two training images is for validation
            raise gops.OpError("examples", f"there are {len(part)} images {name} of {', '.join(classes)}; expected at "
                               f"least {minimum}", "Put more there, or choose other --classes")
    validation = np.zeros(len(training), bool)
    validation[np.random.RandomState(args.seed).permutation(len(training))[::10]] = True
    images = Images(Part(train, classes, ~validation), Part(train, classes, validation), held_out, classes)
    if args.dataset in ("folder", "rec"):
        for part in (images.validation, held_out):
            check_sizes(part, args.size)
    return images


def check_sizes(part, size):
    """Raise an OpError for images that vanish in a letterbox, from the files' headers: now, not after an epoch."""
    for index in progress(range(len(part)), "checking sizes"):
        image_size = part.size(index)
        with about_image(part, index):
            data.letterbox_boxes(np.zeros((0, 4)), image_size, (size, size))


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

    def fingerprint(self):
        """A hash of the selected images and their labels; it changes if the data does."""
        return hashlib.sha256(np.stack([self.indices, self.labels]).astype("int64").tobytes()).hexdigest()[:16]

    def __getitem__(self, index):
        return self.dataset[int(self.indices[index])][0], self.labels[index]

    def size(self, index):
        """(width, height) of an image in a file."""
        return self.dataset.size(int(self.indices[index]))

    def name(self, index):
        """What an error calls an image in a file."""
        return self.dataset.name(int(self.indices[index]))


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
