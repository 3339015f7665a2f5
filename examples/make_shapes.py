"""Write a small data set of coloured shapes, in the two layouts that people bring their own pictures in.

    python examples/make_shapes.py                                           # 60 + 20 pictures under out/shapes
    python examples/make_shapes.py --count 300 100 --seed 1 --out shapes
    gluonops train out/shapes/detection
    gluonops train out/shapes/classification

detection/       Darknet's: images/train/0.png, labels/train/0.txt with a line `class x y width height` per shape, and
                 the names of the classes in shapes.names
classification/  a folder per class: train/circle/0.png, with one shape in each picture
"""
import pathlib

import gluonops as gops
from gluonops import train


def arguments():
    options = train.Options(__doc__)
    options.add("data", "--count", type=train.positive, nargs=2, default=(60, 20), metavar=("TRAIN", "VAL"),
                help="numbers of pictures: for training, and held out")
    options.add("data", "--size", type=train.positive, default=240, help="longer side of a picture in pixels")
    options.add_run(out="out/shapes")
    return options.parse()


def write_detection(scenes, split, folder):
    """Pictures with one to three shapes each, and a text file beside each."""
    images, labels = (train.make_folder(folder / kind / split) for kind in ("images", "labels"))
    for i, (image, boxes) in enumerate(scenes):
        height, width, _ = image.shape
        lines = []
        for left, top, right, bottom, class_id, _ in boxes.astype("float64"):
            x, y = (left + right) / 2 / width, (top + bottom) / 2 / height
            lines.append(f"{class_id:.0f} {x:.9f} {y:.9f} {(right - left) / width:.9f} {(bottom - top) / height:.9f}\n")
        write_image(images / f"{i}.png", image)
        write_lines(labels / f"{i}.txt", lines)
    write_lines(folder / "shapes.names", [f"{name}\n" for name in scenes.classes])


def write_classification(scenes, split, folder):
    """Pictures with one shape each."""
    for i, (image, boxes) in enumerate(scenes):
        name = scenes.classes[int(boxes[0, 4])]
        write_image(train.make_folder(folder / split / name) / f"{i}.png", image)


def write_image(path, image):
    from PIL import Image
    train.write(path, lambda name: Image.fromarray(image).save(name, format="png"))


def write_lines(path, lines):
    train.write(path, lambda name: pathlib.Path(name).write_text("".join(lines)))


def main(args):
    train.check_packages("classification", draws=False)   # Pillow
    for split, count in zip(("train", "val"), args.count):
        options = {"count": count, "size": args.size, "seed": args.seed}
        write_detection(gops.data.ShapeScenes(split, **options), split, args.out / "detection")
        single = {**options, "size": max(48, args.size // 2), "objects": 1}
        write_classification(gops.data.ShapeScenes(split, **single), split, args.out / "classification")
    print(f"{args.count[0]} pictures to train on and {args.count[1]} held out are in {args.out}, in both layouts.")


if __name__ == "__main__":
    train.run_script(main, arguments)
