"""Make a small data set of one photograph, to find coins in it: 24 Greek coins from Pompeii, which scikit-image ships.

    python examples/make_coins.py                                            # 160 + 1 pictures under out/coins
    gluonops train out/coins --size 192 --batch 8 --out out/coins_detector   # a minute or two on two cores
    gluonops detect out/coins_detector/detector out/coins/images/val/row.png -o found.png

The pictures to train on are windows of the three upper rows, turned and mirrored. The lowest row is held out: six coins
that the net has never seen, but of the same photograph. It learns what coins look like here, and not on your table.
"""
import pathlib

import gluonops as gops
import numpy as np
from gluonops import train

HELD_OUT = 226   # the first line of the lowest row
SCALE = 2        # Images are written twice as large, so that the names of what is found have room.
LEAST_PART = 0.6   # A coin counts if this share of its area is in the window; nobody would name less.
# Left, top, right and bottom of each coin, in pixels.
COINS = np.array([
    (22, 35, 67, 74), (81, 39, 120, 74), (132, 28, 179, 74), (192, 30, 240, 73), (255, 34, 297, 72), (305, 16, 365, 72),
    (25, 104, 67, 145), (84, 108, 122, 145), (134, 110, 173, 145), (186, 105, 226, 144), (245, 95, 296, 144),
    (317, 106, 356, 145), (26, 179, 63, 217), (80, 175, 124, 217), (135, 179, 174, 217), (189, 170, 237, 217),
    (251, 172, 297, 217), (315, 156, 380, 218), (18, 233, 75, 288), (93, 245, 136, 287), (144, 236, 201, 288),
    (220, 240, 269, 288), (276, 239, 326, 289), (336, 248, 382, 289)], "float32")


def arguments():
    options = train.Options(__doc__)
    options.add("data", "--count", type=train.positive, default=160, help="number of pictures to train on")
    options.add_run(out="out/coins")
    return options.parse()


def photograph():
    """Its grey values, (height, width)."""
    try:
        from skimage import data
    except ImportError as error:
        raise gops.OpError("make_coins", "scikit-image, which has the photograph, is not installed",
                           "Run: pip install scikit-image") from error
    return data.coins()


def part(image, left, top, right, bottom):
    """A window of the photograph, and the boxes of the coins in it."""
    inside = np.clip(COINS, [left, top, left, top], [right, bottom, right, bottom])
    kept = area(inside) >= LEAST_PART * area(COINS)
    return image[top:bottom, left:right], inside[kept] - [left, top, left, top]


def area(boxes):
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def random_window(image, rng):
    """A window above the row that is held out, perhaps turned by 90 degrees and mirrored, with at least one coin."""
    while True:
        width, height = rng.randint(200, image.shape[1] + 1), rng.randint(76, HELD_OUT + 1)
        left, top = rng.randint(image.shape[1] - width + 1), rng.randint(HELD_OUT - height + 1)
        window, boxes = part(image, left, top, left + width, top + height)
        if rng.rand() < 0.5:
            window, boxes = window.T, boxes[:, [1, 0, 3, 2]]
        if rng.rand() < 0.5:
            window, boxes = window[:, ::-1], [window.shape[1], 0] + [-1, 1] * boxes.reshape(-1, 2)
            boxes = boxes.reshape(-1, 4)[:, [2, 1, 0, 3]]
        if len(boxes):
            return window, boxes


def write(folder, split, name, image, boxes):
    """A picture, and its boxes as Darknet writes them: class, centre and size as shares of the picture's."""
    from PIL import Image
    height, width = image.shape
    large = Image.fromarray(image).resize((SCALE * width, SCALE * height), Image.Resampling.BICUBIC)
    centres, sizes = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    rows = np.concatenate([centres, sizes], 1) / [width, height, width, height]
    lines = "".join("0 {:.9f} {:.9f} {:.9f} {:.9f}\n".format(*row) for row in rows)
    images, labels = (train.make_folder(folder / kind / split) for kind in ("images", "labels"))
    train.write(images / f"{name}.png", lambda path: large.save(path, format="png"))
    train.write(labels / f"{name}.txt", lambda path: pathlib.Path(path).write_text(lines))


def main(args):
    train.check_packages("classification", draws=False)   # Pillow
    image, rng = photograph(), np.random.RandomState(args.seed)
    for number in range(args.count):
        write(args.out, "train", number, *random_window(image, rng))
    write(args.out, "val", "row", *part(image, 0, HELD_OUT, image.shape[1], image.shape[0]))
    train.write(args.out / "coins.names", lambda path: pathlib.Path(path).write_text("coin\n"))
    print(f"{args.count} pictures to train on and the row of coins that is held out are in {args.out}.")


if __name__ == "__main__":
    train.run_script(main, arguments)
