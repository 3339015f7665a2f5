"""Pretrain the small backbone that gluonops ships: tiny_yolov2's at half its width, on images that it makes itself.

    python tools/pretrain_backbone.py                      # writes models/pretrained/tiny_yolov2_backbone.params
    python tools/pretrain_backbone.py --epochs 1 --images 640 --out out/try --write out/try.params

The net learns to tell classes of two kinds apart, in images of 64 x 64 pixels:

- outlines, see tools/outlines.py: named ones, such as circles, polygons and stars, and random ones. A class is one
  outline of any size, place, angle and colour, filled or drawn as a line.
- patches: places in scikit-image's photographs. A class is one place, at another scale and in other colours each time,
  after Dosovitskiy, Springenberg, Riedmiller and Brox, "Discriminative Unsupervised Feature Learning with Convolutional
  Neural Networks" (2014).

The backgrounds are parts of the photographs, and those of the scenes. The images begin easy: large outlines on calm
backgrounds. At the end a linear classifier on the features tells outlines apart that the net has never seen.
scikit-image is in the extra `test`.
"""
from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Callable, Sequence

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops import data, train
from gluonops.data.datasets.scenes import _background, _blend, _draw_line, paint_outline
from gluonops.data.transforms.augment import distort, place
from gluonops.train.pretraining import fit
from mxnet import gluon
from outlines import NAMED, UNSEEN, random_outline

TARGET = pathlib.Path(__file__).resolve().parents[1] / "models" / "pretrained" / "tiny_yolov2_backbone.params"
PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket", "retina", "immunohistochemistry")
SIZE = 64
RANDOM, PATCHES = 28, 14   # classes of random outlines and of places
BACKGROUNDS = 1500         # each image has a part of one of them
RADIUS = (8, 30)           # pixels
STRETCH = (0.83, 1.2)      # the width is scaled by it after the rotation
CONTRAST = 0.25            # smallest distance of the mean colours of a shape and its background
EASY = 0.4                 # share of the epochs in which the images become harder
EXAMPLES = 20, 40          # examples of each class that the linear classifier learns from, and is tested on
LIMIT = 2 * 10**6          # bytes of the file


class Objects(gluon.data.Dataset):
    """Pairs of an image, float32 (3, 64, 64), and its class. Each index and epoch has another image.

    Parameters
    ----------
    count : int
        Images of an epoch.
    seed : int
    epochs : int, default 0
        Epochs of the run, whose first images are easy. With 0 all images are hard.
    outlines : sequence of callable, optional
        The outlines; by default the named and random ones to learn from.
    patches : int, default 14
        Number of places in photographs.
    """

    def __init__(self, count: int, seed: int, epochs: int = 0,
                 outlines: Sequence[Callable] | None = None, patches: int = PATCHES):
        import skimage.data

        self.count, self.seed, self.epochs = count, seed, epochs
        all_outlines = [*NAMED.values(), *(random_outline(i) for i in range(RANDOM))]
        self.outlines = all_outlines if outlines is None else list(outlines)
        self.photographs = [np.ascontiguousarray(getattr(skimage.data, name)()[..., :3]) for name in PHOTOGRAPHS]
        rng = np.random.RandomState(5)
        self.patches = [self._choose_patch(rng) for _ in range(patches)]
        self.backgrounds = [self._make_background(rng) for _ in range(BACKGROUNDS)]
        self.classes = [str(i) for i in range(len(self.outlines) + patches)]

    def __len__(self):
        return self.count

    def fingerprint(self) -> str:
        """Return the fingerprint of what the images are drawn from."""
        return f"{self.count}-{self.seed}-{self.epochs}-{len(self.outlines)}-{len(self.patches)}"

    def __getitem__(self, key):
        index, epoch, _ = key
        rng = np.random.RandomState([self.seed, epoch, index])
        class_id = rng.randint(len(self.classes))
        if class_id < len(self.outlines):
            return self._shape(rng, self.outlines[class_id], self._hardness(epoch)), class_id
        return self._patch(rng, *self.patches[class_id - len(self.outlines)]), class_id

    def _hardness(self, epoch):
        """Return how hard the pictures of an epoch are, from 0 to 1."""
        return min(1.0, epoch / (EASY * self.epochs)) if self.epochs else 1.0

    def _choose_patch(self, rng):
        """Return the photograph, x and y of a busy place. A plain place looks like any other."""
        while True:
            number = rng.randint(len(self.photographs))
            height, width, _ = self.photographs[number].shape
            x, y = rng.randint(60, width - 60), rng.randint(60, height - 60)
            if self.photographs[number][y - 32:y + 32, x - 32:x + 32].std((0, 1)).mean() > 30:
                return number, x, y

    def _make_background(self, rng):
        """Return a background: float32 (96, 96, 3) from 0 to 1."""
        if rng.rand() < 0.5:
            return _background(rng, 96, 96, 1.0)
        return self._crop(rng, rng.uniform(0.3, 1.5), 96).transpose(1, 2, 0)

    def _crop(self, rng, scale, side):
        """Return a random part of a photograph, float32 (3, side, side)."""
        photograph = self.photographs[rng.randint(len(self.photographs))]
        height, width, _ = photograph.shape
        new = round(width * scale), round(height * scale)
        new = tuple(max(side, value) for value in new)
        offset = tuple(-rng.randint(0, room - side + 1) for room in new)
        return place(photograph, new, offset, (side, side))

    def _patch(self, rng, number, x, y):
        photograph = self.photographs[number][y - 60:y + 60, x - 60:x + 60]
        scale = rng.uniform(0.75, 1.3)
        side = round(120 * scale)
        middle = (SIZE - side) / 2 + rng.uniform(-9, 9, 2)
        image = place(photograph, (side, side), tuple(int(round(value)) for value in middle), (SIZE, SIZE))
        if rng.rand() < 0.5:
            image = np.ascontiguousarray(image[:, :, ::-1])
        return distort(image, rng.uniform(-0.1, 0.1), rng.uniform(0.6, 1.6), rng.uniform(0.6, 1.4))

    def _shape(self, rng, outline, hardness):
        left, top = rng.randint(0, 33, 2)
        image = self.backgrounds[rng.randint(len(self.backgrounds))][top:top + SIZE, left:left + SIZE].copy()
        calm = (1 - hardness) * rng.rand()
        image += calm * (image.mean((0, 1)) - image)
        mask = self._mask(rng, outline, hardness)
        rows, columns = mask.shape
        left, top = rng.randint(0, SIZE - columns + 1), rng.randint(0, SIZE - rows + 1)
        if rng.rand() < hardness:
            for _ in range(rng.randint(0, 4)):
                _draw_line(rng, image, rng.uniform(0.4, 1))
        _blend(image, left, top, mask, self._colour(rng, image[top:top + rows, left:left + columns], hardness))
        if rng.rand() < 0.5 * hardness:
            _draw_line(rng, image, rng.uniform(0.2, 0.6))
        image += (rng.standard_normal(image.shape) * rng.uniform(0, 0.08 * hardness)).astype("float32")
        return np.clip(image, 0, 1).transpose(2, 0, 1)

    @staticmethod
    def _mask(rng, outline, hardness):
        """Return the opacity of an outline at a random size and angle, at most (64, 64).

        One in five is drawn as a line.
        """
        smallest = RADIUS[1] ** ((1 - hardness) * 0.7) * RADIUS[0] ** (1 - (1 - hardness) * 0.7)
        radius, angle = np.exp(rng.uniform(*np.log([smallest, RADIUS[1]]))), rng.uniform(0, 2 * np.pi)
        stretch = rng.uniform(*STRETCH)
        mask = paint_outline(outline, radius, angle, stretch)
        if rng.rand() < 0.2 and radius > 10:
            thickness = rng.uniform(0.15, 0.35)
            hole = paint_outline(lambda a: (1 - thickness) * outline(a), radius, angle, stretch)
            inner = [(whole - part) // 2 for whole, part in zip(mask.shape, hole.shape)]
            window = mask[inner[0]:inner[0] + hole.shape[0], inner[1]:inner[1] + hole.shape[1]]
            window -= np.minimum(hole, window)
        return mask[:SIZE, :SIZE]

    def _colour(self, rng, behind, hardness):
        """Return a colour (3,), or a texture like what is behind. Both are far enough from the mean of that."""
        mean = behind.mean((0, 1))
        colour = rng.rand(3)
        while np.abs(colour - mean).mean() < CONTRAST:
            colour = rng.rand(3)
        if rng.rand() < 0.25 * hardness:
            rows, columns, _ = behind.shape
            texture = self.backgrounds[rng.randint(len(self.backgrounds))][:rows, :columns]
            return np.clip(texture - texture.mean((0, 1)) + colour, 0, 1)
        return colour


def arguments() -> argparse.Namespace:
    options = train.Options(__doc__)
    options.add("data", "--images", type=train.positive, default=25600, help="images of an epoch")
    options.add("net", "--write", type=pathlib.Path, default=TARGET, help="where the backbone goes")
    options.add_training(epochs=12, batch_size=64, lr=0.1)
    options.add_run(out="out/pretrain_backbone")
    options.defaults(threads=1, warmup=0.5)
    return options.parse()


def main(args: argparse.Namespace) -> None:
    train.set_seeds(args.seed)
    images = Objects(args.images, args.seed, args.epochs)
    backbone = gops.models.tiny_yolov2(width=0.5).backbone
    net = gops.models.Classifier(backbone, True, 0, images.classes)
    net.initialize(mx.init.Xavier())
    net(mx.nd.zeros((1, 3, SIZE, SIZE)))
    net.hybridize(static_alloc=True)
    schedule = train.schedule_of(args, train.updates_per_epoch(len(images), args.batch_size))
    trainer = train.make_trainer(net.collect_params(), args.optimizer, schedule, args.wd)
    run = train.Run(net, trainer, len(images), **train.run_arguments(args), data=images.fingerprint(), keep_best=False,
                    extra={"classes": net.classes})
    run.resume(train.find_checkpoint(args.out, args.resume))
    fit(run, net, images, args.threads)
    write(backbone, args.write)
    fresh = gops.models.tiny_yolov2(width=0.5).backbone
    fresh.initialize(mx.init.Xavier())
    print(f"A linear classifier tells {probe(backbone):.1%} of {len(UNSEEN)} unseen outlines apart; on random weights "
          f"{probe(fresh):.1%}.")


def write(backbone: gluon.Block, path: pathlib.Path) -> None:
    """Write the parameters in float16. The program ends with an error if the file is too large."""
    train.make_folder(path.parent)
    tensors = {name: parameter.data().astype("float16")
               for name, parameter in backbone._collect_params_with_prefix().items()}
    train.save_tensors(path, lambda name: mx.nd.save(name, tensors))
    size = path.stat().st_size
    print(f"{path} has {size} bytes.")
    if size > LIMIT:
        sys.exit(f"The file is larger than {LIMIT} bytes.")


def probe(backbone: gluon.Block, seed: int = 0) -> float:
    """Return the accuracy of ridge regression on the mean features of outlines that the backbone has never seen."""
    count = sum(EXAMPLES) * len(UNSEEN)
    images = Objects(count, seed, outlines=UNSEEN.values(), patches=0)
    pictures, labels = zip(*(images[data.SampleKey(i, 0, None)] for i in range(count)))
    batches = (mx.nd.array(np.stack(pictures[i:i + 100])) for i in range(0, count, 100))
    features = np.concatenate([backbone(batch).mean((2, 3)).asnumpy() for batch in batches]).astype("float64")
    labels, split = np.array(labels), EXAMPLES[0] * len(UNSEEN)
    features = (features - features[:split].mean(0)) / (features[:split].std(0) + 1e-6)
    features = np.c_[features, np.ones(count)]
    gram = features[:split].T @ features[:split] + 0.1 * split * np.eye(features.shape[1])
    weights = np.linalg.solve(gram, features[:split].T @ np.eye(len(UNSEEN))[labels[:split]])
    return float(((features[split:] @ weights).argmax(1) == labels[split:]).mean())


if __name__ == "__main__":
    train.run_script(main, arguments)
