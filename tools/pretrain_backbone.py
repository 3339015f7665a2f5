"""Pretrain the small backbone that gluonops ships: tiny_yolov2's at half its width, on images that it makes itself.

    python tools/pretrain_backbone.py                      # writes models/pretrained/tiny_yolov2_backbone.params
    python tools/pretrain_backbone.py --epochs 1 --images 640 --out out/try --write out/try.params

The net learns to tell classes of two kinds apart, in images of 64 x 64 pixels:

- outlines: random polygons and random waves around a circle. A class is one outline, of any size, place and colour,
  and turned a little. Circles, regular polygons and stars are not among them, so that gluonops.data.ShapeScenes are new
  to the net.
- patches: places in scikit-image's photographs. A class is one place, at another scale and in other colours each time,
  after Dosovitskiy, Springenberg, Riedmiller and Brox, "Discriminative Unsupervised Feature Learning with Convolutional
  Neural Networks" (2014).

The backgrounds are parts of the photographs, and those of the scenes. scikit-image is in the extra `test`.
"""
import argparse
import pathlib
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops import train
from gluonops.data.datasets.scenes import _background, _blend, _draw_line
from gluonops.data.datasets.shapes import paint_outline
from gluonops.data.transforms.augment import distort, place
from mxnet import autograd, gluon

TARGET = pathlib.Path(__file__).resolve().parents[1] / "models" / "pretrained" / "tiny_yolov2_backbone.params"
PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket", "retina", "immunohistochemistry")
SIZE = 64
POLYGONS, WAVES, PATCHES = 12, 20, 16      # classes of each kind
BACKGROUNDS = 1500                         # each image has a part of one of them
TURN = 0.5                                 # radians by which an outline is turned, each way
RADIUS = (12, 30)                           # pixels
CONTRAST = 0.25                            # smallest distance of the mean colours of a shape and its background
LIMIT = 2 * 10**6                          # bytes of the file


class Outline:
    """A random outline, the same for the same seed: angles to distances of the edge."""

    def __init__(self, seed: int, is_polygon: bool):
        rng = np.random.RandomState([7, seed])
        if is_polygon:
            corners = rng.randint(3, 9)
            angles = (np.arange(corners) + rng.uniform(-0.3, 0.3, corners)) * 2 * np.pi / corners
            self.points = np.stack([np.cos(angles), np.sin(angles)], 1) * rng.uniform(0.35, 1, (corners, 1))
            self.waves = None
        else:
            self.waves = [(k, rng.uniform(0, 0.9 / k), rng.uniform(0, 2 * np.pi)) for k in range(2, 8)]
        self.points_angle = 0 if self.waves else np.arctan2(*self.points[:, ::-1].T)
        self.largest = 1.0
        self.largest = float(self(np.linspace(0, 2 * np.pi, 720)).max())

    def __call__(self, angle: np.ndarray) -> np.ndarray:
        if self.waves:
            return np.maximum(1 + sum(a * np.cos(k * angle + phase) for k, a, phase in self.waves), 0.15) / self.largest
        # The straight line through the two corners on both sides of the angle.
        turn = 2 * np.pi
        angle, starts = np.mod(angle, turn), np.mod(self.points_angle, turn)
        order = np.argsort(starts)
        side = np.searchsorted(starts[order], angle, side="right") - 1
        first, second = self.points[order[side]], self.points[order[(side + 1) % len(order)]]
        edge = second - first
        across = edge[..., 1] * np.cos(angle) - edge[..., 0] * np.sin(angle)
        distance = (edge[..., 1] * first[..., 0] - edge[..., 0] * first[..., 1]) / np.where(across == 0, 1, across)
        return np.clip(distance, 0.05, 1.2) / self.largest


class Objects(gluon.data.Dataset):
    """(float32 (3, 64, 64), class), another image for each index and epoch.

    Parameters
    ----------
    count : int
        Images of an epoch.
    seed : int
    """

    def __init__(self, count: int, seed: int):
        import skimage.data

        self.count, self.seed = count, seed
        self.outlines = [Outline(i, i < POLYGONS) for i in range(POLYGONS + WAVES)]
        self.photographs = [np.ascontiguousarray(getattr(skimage.data, name)()[..., :3]) for name in PHOTOGRAPHS]
        rng = np.random.RandomState(5)
        self.patches = []
        while len(self.patches) < PATCHES:   # busy places only: a plain one looks like any other
            number = rng.randint(len(self.photographs))
            height, width, _ = self.photographs[number].shape
            x, y = rng.randint(60, width - 60), rng.randint(60, height - 60)
            if self.photographs[number][y - 32:y + 32, x - 32:x + 32].std((0, 1)).mean() > 30:
                self.patches.append((number, x, y))
        self.backgrounds = [self._make_background(rng) for _ in range(BACKGROUNDS)]

    def __len__(self):
        return self.count

    def fingerprint(self) -> str:
        """Of what the images are drawn from."""
        return f"{self.count}-{self.seed}-{POLYGONS}-{WAVES}-{PATCHES}"

    def __getitem__(self, key):
        index, epoch, _ = key
        rng = np.random.RandomState([self.seed, epoch, index])
        class_id = rng.randint(len(self.outlines) + PATCHES)
        if class_id < len(self.outlines):
            return self._shape(rng, self.outlines[class_id]), class_id
        return self._patch(rng, *self.patches[class_id - len(self.outlines)]), class_id

    def _make_background(self, rng):
        """float32 (96, 96, 3) from 0 to 1."""
        if rng.rand() < 0.5:
            return _background(rng, 96, 96, 1.0)
        return self._crop(rng, rng.uniform(0.3, 1.5), 96).transpose(1, 2, 0)

    def _crop(self, rng, scale, side):
        """A random part of a photograph, float32 (3, side, side)."""
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

    def _shape(self, rng, outline):
        left, top = rng.randint(0, 33, 2)
        image = self.backgrounds[rng.randint(len(self.backgrounds))][top:top + SIZE, left:left + SIZE].copy()
        angle, stretch = rng.uniform(-TURN, TURN), rng.uniform(0.85, 1.15)
        mask = paint_outline(outline, rng.uniform(*RADIUS), angle, stretch)[:SIZE, :SIZE]
        rows, columns = mask.shape
        left, top = rng.randint(0, SIZE - columns + 1), rng.randint(0, SIZE - rows + 1)
        for _ in range(rng.randint(0, 3)):
            _draw_line(rng, image, rng.uniform(0.4, 1))
        mean = image[top:top + rows, left:left + columns].mean((0, 1))
        colour = rng.rand(3)
        while np.abs(colour - mean).mean() < CONTRAST:
            colour = rng.rand(3)
        if rng.rand() < 0.25:   # a texture in the place of one colour
            texture = self.backgrounds[rng.randint(len(self.backgrounds))][:rows, :columns]
            colour = np.clip(texture - texture.mean((0, 1)) + colour, 0, 1)
        _blend(image, left, top, mask, colour)
        for _ in range(rng.randint(0, 2)):
            _draw_line(rng, image, rng.uniform(0.2, 0.6))
        image += (rng.standard_normal(image.shape) * rng.uniform(0, 0.08)).astype("float32")
        return np.clip(image, 0, 1).transpose(2, 0, 1)


def arguments() -> argparse.Namespace:
    options = train.Options(__doc__)
    options.add("data", "--images", type=train.positive, default=6400, help="images of an epoch")
    options.add("net", "--write", type=pathlib.Path, default=TARGET, help="where the backbone goes")
    options.add_training(epochs=8, batch_size=32, lr=0.05)
    options.add_run(out="out/pretrain_backbone")
    options.defaults(threads=1, warmup=0.5)
    return options.parse()


def main(args: argparse.Namespace) -> None:
    train.set_seeds(args.seed)
    images = Objects(args.images, args.seed)
    backbone = gops.models.tiny_yolov2(width=0.5).backbone
    net = gops.models.Classifier(backbone, True, 0, [str(i) for i in range(len(images.outlines) + PATCHES)])
    net.initialize(mx.init.Xavier())
    net(mx.nd.zeros((1, 3, SIZE, SIZE)))
    net.hybridize(static_alloc=True)
    loss = gops.loss.SoftmaxCELoss()
    schedule = train.schedule_of(args, train.updates_per_epoch(len(images), args.batch_size))
    trainer = train.make_trainer(net.collect_params(), args.optimizer, schedule, args.wd)
    run = train.Run(net, trainer, len(images), **train.run_arguments(args), data=images.fingerprint(), keep_best=False,
                    extra={"classes": net.classes})
    run.resume(train.find_checkpoint(args.out, args.resume))
    for _ in run.epochs():
        for data, labels in run.batches(images, train.classification_batch, args.threads):
            with autograd.record():
                logits = net(data)
                losses = loss(logits, labels)
            run.backward([losses])
            run.step({"loss": losses.sum(), "accuracy": (logits.argmax(1) == labels).sum()})
        run.end_epoch({}, 0)
    train.make_folder(args.write.parent)
    tensors = {name: parameter.data().astype("float16")
               for name, parameter in backbone._collect_params_with_prefix().items()}
    train.save_tensors(args.write, lambda name: mx.nd.save(name, tensors))
    size = args.write.stat().st_size
    print(f"{args.write} has {size} bytes.")
    if size > LIMIT:
        sys.exit(f"The file is larger than {LIMIT} bytes.")


if __name__ == "__main__":
    train.run_script(main, arguments)
