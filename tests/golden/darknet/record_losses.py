#!/usr/bin/env python3
"""Record the deltas of [detection], of trees of classes, of [softmax] and of [cost]: losses.npz.

    python record_losses.py PJREDDIE ALEXEYAB OUT.npz

PJREDDIE and ALEXEYAB are record_losses.c, built with the two programs (README.md). Each case is a cfg with one
convolution, which returns what it takes, and the layers that make the delta. OUT.npz gets for each case the program,
the text of the cfg, the number of images seen, what the head takes, the ground truth as gluonops takes it, and the
delta.
"""
import argparse
import os
import subprocess
import tempfile

import numpy as np

FOLDER = os.path.dirname(os.path.abspath(__file__))
SECRET = -1234     # the classes that do not count have it
BATCH = 2
ROWS = 6           # An image has so many boxes of ground truth.
PROGRAM_ROWS = 30  # the same in the program: pjreddie's constant
WARM = 12800       # images from which on a region does not pull boxes to their anchors
CLASSES = 10       # mini.tree has so many.
MAP = (6, 8, 5, 3)
NET = "[net]\nbatch={batch}\nsubdivisions=1\nheight={height}\nwidth={width}\nchannels={channels}\n"
CONV = "[convolutional]\nsize=1\nstride=1\nfilters={channels}\nactivation=linear\n"


def parents():
    with open(os.path.join(FOLDER, "mini.tree")) as file:
        return [int(line.split()[1]) for line in file]


def ground_truth(draws, classes, side):
    """(BATCH, ROWS, 5). The second and the third object of an image have the cell of the first one."""
    truth = np.zeros((BATCH, ROWS, 5), "f4")
    for image in range(BATCH):
        count = draws.randint(3, ROWS)
        centres = draws.uniform(.02, .98, (count, 2))
        centres[1:3] = (np.floor(centres[0] * side) + draws.uniform(.1, .9, (2, 2))) / side
        sizes = draws.uniform(.05, .7, (count, 2))
        numbers = np.round(np.concatenate([centres, sizes], 1) * 4096) / 4096
        truth[image, :count] = np.concatenate([numbers, draws.randint(classes, size=(count, 1))], 1)
    return truth


def as_grid(truth, side, classes):
    """What fill_truth_region makes of a ground truth: for each cell the first object in it."""
    grid = np.zeros((BATCH, side * side, 5 + classes), "f4")
    for image, rows in enumerate(truth):
        for x, y, w, h, class_id in rows[rows[:, 2] > 0]:
            column, row = int(x * side), int(y * side)
            cell = grid[image, row * side + column]
            if not cell[0]:
                cell[0], cell[1 + int(class_id)] = 1, 1
                cell[1 + classes:] = x * side - column, y * side - row, w, h
    return grid


def as_rows(truth, size):
    """A list of boxes with as many numbers each as the program has."""
    rows = np.zeros((BATCH, PROGRAM_ROWS, size), "f4")
    rows[:, :ROWS, :5] = truth
    return rows


def as_classes(labels, tree):
    """What the programs make of a class: 1 at it, with a tree also above it, and SECRET in all other groups."""
    truth = np.zeros((BATCH, CLASSES), "f4")
    for row, label in zip(truth, labels):
        row[label] = 1
        if tree:
            above = parents()
            while above[label] >= 0:
                label = above[label]
                row[label] = 1
            groups = np.array(above)
            for group in set(above):
                if not row[groups == group].any():
                    row[groups == group] = SECRET
    return truth


def detection(draws, program, side, count, classes, softmax=0, **options):
    cells = side * side
    channels = cells * (classes + 5 * count)
    rows = [draws.normal(0, 1, (BATCH, cells * classes)) if softmax else draws.uniform(0, 1, (BATCH, cells * classes)),
            draws.uniform(-.2, 1.2, (BATCH, cells * count))]
    boxes = draws.uniform(0, .9, (BATCH, cells * count, 4))
    boxes[..., 2:] *= draws.choice([1, 1, -1], (BATCH, cells * count, 1))   # some have no overlap
    data = np.concatenate([*rows, boxes.reshape(BATCH, -1)], 1).reshape(BATCH, channels, 1, 1)
    truth = ground_truth(draws, classes, side)
    words = {"side": side, "num": count, "classes": classes, "coords": 4, "softmax": softmax, **options}
    return "[detection]\n" + lines(words), data, truth, as_grid(truth, side, classes)


def region(draws, program, side, count, **options):
    data = draws.normal(0, 1.2, (BATCH, count * (5 + CLASSES), side, side))
    truth = ground_truth(draws, len(MAP) if "map" in options else CLASSES, side)
    anchors = ",".join(map(str, np.round(draws.uniform(.3, 2.5, 2 * count), 2)))
    words = {"classes": CLASSES, "num": count, "anchors": anchors, "tree": "mini.tree", "softmax": 1,
             "max": PROGRAM_ROWS, **options}
    return "[region]\n" + lines(words), data, truth, as_rows(truth, {"pjreddie": 5, "alexeyab": 6}[program])


def classifier(draws, program, text):
    data = draws.normal(0, 2, (BATCH, 1, 5, CLASSES // 5))   # AlexeyAB's program needs a layer of 2 x 2 at least
    labels = draws.randint(CLASSES, size=BATCH)
    return text, data, labels.astype("f4"), as_classes(labels, "tree" in text)


def picture(draws, program, text):
    data, truth = draws.normal(0, 1, (2, BATCH, 3, 4, 4))
    return text, data, truth, truth


def lines(options):
    return "".join(f"{key}={value}\n" for key, value in options.items())


V1 = {"rescore": 1, "sqrt": 1, "object_scale": 1, "noobject_scale": .5, "class_scale": 1, "coord_scale": 5}
V2 = {"bias_match": 1, "rescore": 1, "object_scale": 5, "noobject_scale": 1, "class_scale": 1, "coord_scale": 1,
      "thresh": .6, "absolute": 1}
TREE = "[softmax]\ntree=mini.tree\n"
OF_BOTH = [
    (detection, {"side": 3, "count": 2, "classes": 3, **V1}),
    (detection, {"side": 4, "count": 3, "classes": 4, "object_scale": 2, "noobject_scale": .7, "class_scale": 1.5}),
    (detection, {"side": 3, "count": 2, "classes": 3, "softmax": 1, "rescore": 1, "class_scale": 2}),
    (detection, {"side": 3, "count": 2, "classes": 3, "forced": 1, **V1}),
    (detection, {"side": 4, "count": 1, "classes": 2, "sqrt": 1, "coord_scale": 3}),
    (classifier, {"text": "[softmax]\n"}),
    (classifier, {"text": "[softmax]\n[cost]\ntype=sse\n"}),
    (classifier, {"text": "[softmax]\ntemperature=3\n[cost]\nscale=0.5\n"}),
    (classifier, {"text": "[softmax]\nnoloss=1\n[cost]\n"}),
    (classifier, {"text": TREE}),
    (classifier, {"text": TREE + "noloss=1\n[cost]\ntype=masked\n"}),
    (classifier, {"text": TREE + "noloss=1\ntemperature=2\n[cost]\ntype=masked\nscale=3\n"}),
    (picture, {"text": "[cost]\ntype=sse\nscale=0.3\n"}),
]
CASES = [(program, WARM, *case) for program in ("pjreddie", "alexeyab") for case in OF_BOTH] + [
    # pjreddie's CPU build has the groups of a tree in wrong places if there are several anchors or cells.
    ("pjreddie", WARM, region, {"side": 1, "count": 1, **V2}),
    ("pjreddie", 0, region, {"side": 1, "count": 1, "class_scale": 2, "thresh": .4, "map": "mini.map"}),
    ("alexeyab", WARM, region, {"side": 4, "count": 3, **V2}),
    ("alexeyab", WARM, region, {"side": 3, "count": 2, "class_scale": 2, "map": "mini.map", "absolute": 1}),
    ("alexeyab", WARM, region, {"side": 3, "count": 3, "rescore": 1, "absolute": 1}),
]


def run(program, text, data, truth, seen):
    """The deltas of the first and of the last layer."""
    with tempfile.TemporaryDirectory() as folder:
        cfg, given, wanted, out = (os.path.join(folder, name) for name in ("net.cfg", "input", "truth", "out"))
        with open(cfg, "w") as file:
            file.write(text)
        data.astype("<f4").tofile(given)
        truth.astype("<f4").tofile(wanted)
        subprocess.run([program, cfg, given, wanted, str(seen), out], cwd=FOLDER, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return np.fromfile(out, "<f4").reshape(2, *data.shape)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pjreddie")
    parser.add_argument("alexeyab")
    parser.add_argument("out")
    args = parser.parse_args()
    arrays = {}
    for number, (program, seen, make, options) in enumerate(CASES):
        text, data, truth, theirs = make(np.random.RandomState(100 + number), program, **options)
        data = np.round(data * 256).astype("f4") / 256
        _, channels, height, width = data.shape
        sizes = {"batch": BATCH, "channels": channels, "height": height, "width": width}
        text = NET.format(**sizes) + CONV.format(**sizes) + text
        first, last = run(os.path.abspath(getattr(args, program)), text, data, theirs, seen)
        # A [region] of pjreddie's CPU build passes nothing back.
        delta = last if make is region and program == "pjreddie" else first
        case = {"program": program, "cfg": text, "seen": seen, "input": data, "truth": truth, "delta": delta}
        arrays.update({f"c{number:02d}_{key}": value for key, value in case.items()})
    np.savez_compressed(args.out, **arrays)


if __name__ == "__main__":
    main()
