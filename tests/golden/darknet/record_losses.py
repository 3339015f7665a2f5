#!/usr/bin/env python3
"""Record the deltas of [softmax] and of [cost]: losses.npz.

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
BATCH = 2
CLASSES = 10
SEEN = 12800   # images that the net has been trained on
NET = "[net]\nbatch={batch}\nsubdivisions=1\nheight={height}\nwidth={width}\nchannels={channels}\n"
CONV = "[convolutional]\nsize=1\nstride=1\nfilters={channels}\nactivation=linear\n"


def as_classes(labels):
    """What the programs make of a class: 1 at it."""
    truth = np.zeros((BATCH, CLASSES), "f4")
    truth[np.arange(BATCH), labels] = 1
    return truth


def classifier(draws, text):
    data = draws.normal(0, 2, (BATCH, 1, 5, CLASSES // 5))   # AlexeyAB's program needs a layer of 2 x 2 at least
    labels = draws.randint(CLASSES, size=BATCH)
    return text, data, labels.astype("f4"), as_classes(labels)


def picture(draws, text):
    data, truth = draws.normal(0, 1, (2, BATCH, 3, 4, 4))
    return text, data, truth, truth


OF_BOTH = [
    (classifier, "[softmax]\n"),
    (classifier, "[softmax]\n[cost]\ntype=sse\n"),
    (classifier, "[softmax]\ntemperature=3\n[cost]\nscale=0.5\n"),
    (classifier, "[softmax]\nnoloss=1\n[cost]\n"),
    (picture, "[cost]\ntype=sse\nscale=0.3\n"),
]
SEEDS = {"pjreddie": (105, 106, 107, 108, 112), "alexeyab": (118, 119, 120, 121, 125)}
CASES = [(program, seed, *case) for program, seeds in SEEDS.items() for seed, case in zip(seeds, OF_BOTH)]


def run(program, text, data, truth):
    """The deltas of the first layer. The program writes those of the last one behind them."""
    with tempfile.TemporaryDirectory() as folder:
        cfg, given, wanted, out = (os.path.join(folder, name) for name in ("net.cfg", "input", "truth", "out"))
        with open(cfg, "w") as file:
            file.write(text)
        data.astype("<f4").tofile(given)
        truth.astype("<f4").tofile(wanted)
        subprocess.run([program, cfg, given, wanted, str(SEEN), out], cwd=FOLDER, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return np.fromfile(out, "<f4").reshape(2, *data.shape)[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pjreddie")
    parser.add_argument("alexeyab")
    parser.add_argument("out")
    args = parser.parse_args()
    arrays = {}
    for number, (program, seed, make, head) in enumerate(CASES):
        text, data, truth, theirs = make(np.random.RandomState(seed), head)
        data = np.round(data * 256).astype("f4") / 256
        _, channels, height, width = data.shape
        sizes = {"batch": BATCH, "channels": channels, "height": height, "width": width}
        text = NET.format(**sizes) + CONV.format(**sizes) + text
        delta = run(os.path.abspath(getattr(args, program)), text, data, theirs)
        case = {"program": program, "cfg": text, "seen": SEEN, "input": data, "truth": truth, "delta": delta}
        arrays.update({f"c{number:02d}_{key}": value for key, value in case.items()})
    np.savez_compressed(args.out, **arrays)


if __name__ == "__main__":
    main()
