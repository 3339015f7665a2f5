"""Images with labels: digits, MNIST's files, folders or RecordIO; and the random changes that training makes."""
import collections
import pathlib

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops.data import digits
from mxnet import gluon

Images = collections.namedtuple("Images", "training validation held_out classes")
MEAN, STD = np.float32([[[0.485]], [[0.456]], [[0.406]]]), np.float32([[[0.229]], [[0.224]], [[0.225]]])   # ImageNet's
PARTS = {"train": "training images", "val": "images to choose the best epoch on", "test": "held-out images"}


def load(args):
    """Images for training, for choosing an epoch, and held out. Items are (float32 (C, H, W), label)."""
    if args.dataset in ("digits", "mnist"):
        chosen = args.classes and [_digit(name) for name in args.classes]
        root = args.root if args.dataset == "mnist" else None
        training, held_out = digits(root, size=args.size, seed=args.seed, classes=chosen)
        names = args.classes or [str(number) for number in range(10)]
        training, held_out = gluon.data.ArrayDataset(*training), gluon.data.ArrayDataset(*held_out)
        return Images(*_split(training, args.seed), held_out, names)
    find = _folders if args.dataset == "folder" else _records
    parts = {part: find(args.root, part, args.classes) for part in PARTS}
    if parts["train"] is None:
        raise gops.OpError("examples", f"{args.root} has no {PARTS['train']}: no {_name(args, 'train')}",
                           "Name a folder that has, with --root")
    names = parts["train"][1]
    for part, found in parts.items():
        if found and found[1] != names:
            raise gops.OpError("examples", f"the classes in {part} are {found[1]}; those in train are {names}",
                               "Make them agree, or choose some with --classes")
    data = {part: _Prepared(found[0], args.size) for part, found in parts.items() if found}
    training, validation = (data["train"], data["val"]) if "val" in data else _split(data["train"], args.seed)
    return Images(training, validation, data.get("test"), names)


def _digit(name):
    if name not in map(str, range(10)):
        raise gops.OpError("examples", f"--classes has {name!r}; expected digits from 0 to 9", "Name digits")
    return int(name)


def _name(args, part):
    return pathlib.Path(args.root or ".", part if args.dataset == "folder" else f"{part}.rec")


def _split(data, seed, share=0.1):
    """A tenth of the training images is kept to choose an epoch on, where the data do not bring images for it."""
    order = np.random.RandomState(seed).permutation(len(data))
    held = max(1, round(share * len(data)))
    return _Part(data, order[held:]), _Part(data, order[:held])


class _Part:
    """Some images of a dataset."""

    def __init__(self, data, indices):
        self.data, self.indices = data, indices

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, index):
        return self.data[self.indices[index]]


def _folders(root, part, classes):
    """(images, class names) of root/part/<class>/*.jpg, or None."""
    folder = pathlib.Path(root or ".", part)
    if not folder.is_dir():
        return None
    found = sorted(path.name for path in folder.iterdir() if path.is_dir())
    names = list(classes or found)
    missing = [name for name in names if name not in found]
    if missing:
        raise gops.OpError("examples", f"{folder} has no folder {missing[0]!r}; expected one for every class",
                           "Create it, or leave the class out of --classes")
    files = [(path, label) for label, name in enumerate(names) for path in sorted((folder / name).iterdir())
             if path.suffix.lower() in (".jpg", ".jpeg", ".png", ".bmp")]
    if not files:
        raise gops.OpError("examples", f"{folder} has no images; expected {folder}/<class>/*.jpg or .png", "Add some")
    return _Files(files), names


class _Files:
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path, label = self.files[index]
        return _decode(path.read_bytes(), path), label


def _records(root, part, classes):
    """(images, class names) of root/part.rec with its index part.idx, as MXNet's im2rec writes them; or None."""
    path = pathlib.Path(root or ".", f"{part}.rec")
    if not path.is_file():
        return None
    if not path.with_suffix(".idx").is_file():
        raise gops.OpError("examples", f"{path} has no index {path.with_suffix('.idx')}", "Write one: tools/rec2idx.py")
    if not classes:
        raise gops.OpError("examples", "RecordIO holds no names of classes", "Name them in order with --classes")
    return _Records(path, len(classes)), list(classes)


class _Records:
    def __init__(self, path, classes):
        self.records, self.path, self.classes = gluon.data.RecordFileDataset(str(path)), path, classes

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        header, content = mx.recordio.unpack(self.records[index])
        name, label = f"record {index} of {self.path}", np.ravel(header.label)[0]
        if label not in range(self.classes):
            raise gops.OpError("examples", f"{name} has the label {label:g}; expected 0 to {self.classes - 1}",
                               "Name every class with --classes")
        return _decode(content, name), int(label)


def _decode(content, name):
    try:
        return mx.image.imdecode(content)
    except (mx.MXNetError, ValueError) as error:
        raise gops.OpError("examples", f"{name} is no image that can be read", "Remove or replace it") from error


class _Prepared:
    """Images as the net takes them: the whole image resized to a square, ImageNet's mean and deviation."""

    def __init__(self, data, size):
        self.data, self.size = data, size

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        image, label = self.data[index]
        pixels = mx.image.imresize(image, self.size, self.size).asnumpy().transpose(2, 0, 1).astype("float32") / 255
        return (pixels - MEAN) / STD, label


class Augmented(gluon.data.Dataset):
    """Images moved by up to a fourteenth of their size and, if asked, mirrored; the same for the same seed and epoch,
    however many threads load them and wherever the epoch is continued."""

    def __init__(self, data, args, epoch):
        self.data, self.flip, self.place = data, args.flip, (args.seed, epoch)

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        image, label = self.data[index]
        rng = np.random.RandomState([*self.place, index])
        _, height, width = image.shape
        reach = max(1, height // 14)
        top, left = rng.randint(0, 2 * reach + 1, 2)
        image = np.pad(image, ((0, 0), (reach, reach), (reach, reach)))[:, top:top + height, left:left + width]
        return (image[:, :, ::-1] if self.flip and rng.randint(2) else image), label


def loader(data, batches, threads):
    """A DataLoader over lists of indices; ``threads`` read ahead."""
    return gluon.data.DataLoader(data, batch_sampler=batches, batchify_fn=_stack, num_workers=threads,
                                 thread_pool=True)


def _stack(items):
    images, labels = zip(*items)
    return mx.nd.array(np.stack(images)), mx.nd.array(np.array(labels, "float32"))
