#!/usr/bin/env python3
"""Record the deltas of the layers [yolo] and [Gaussian_yolo] of both Darknets.

    python record_yolo.py PJREDDIE ALEXEYAB FOLDER

PJREDDIE and ALEXEYAB are record_yolo.c, built with one of the programs (README.md). FOLDER gets yolo.npz and
gaussian_yolo.npz. Inputs and ground truths are random, but the same every time.
"""
import argparse
import pathlib
import subprocess
import tempfile

import numpy as np

BOX_LOSSES = ("iou", "giou", "diou", "ciou", "mse")
POINTS = ("center", "left_top", "right_bottom")
SHIFTS = (0, 0.5, -0.5)   # The box is so far from its point, in boxes.
STRIDE = 32               # pixels of a cell
TRUTHS = 8                # rows of ground truth of an image
CELLS = ((4, 4), (5, 4), (4, 6), (5, 5))
ANCHORS = ((2, 4), (3, 6), (2, 6), (3, 3), (1, 3))   # The layer and all heads have them.

DEFAULTS = {
    "box_loss": "mse", "new_coords": 0, "objectness_smooth": 0, "focal_loss": 0, "ignore_thresh": 0.5,
    "truth_thresh": 1.0, "iou_thresh": 1.0, "iou_normalizer": 1.0, "obj_normalizer": 1.0, "max_delta": 0.0,
    "scale_x_y": 1.0, "label_smooth_eps": 0.0}
OF_GAUSSIAN = {"uc_normalizer": 1.0, "yolo_point": "center"}
FLOATS = ("ignore_thresh", "truth_thresh", "iou_thresh", "iou_normalizer", "obj_normalizer", "max_delta", "scale_x_y",
          "label_smooth_eps", "uc_normalizer")


def yolo_cases():
    """The options of each configuration of [yolo], without those at their defaults: pjreddie's, and AlexeyAB's."""
    pjreddie = [{"ignore_thresh": (0.7, 0.5, 0.3)[i % 3], "truth_thresh": (1.0, 1.0, 0.6, 0.45)[i % 4]}
                for i in range(14)]
    v4 = {"ignore_thresh": 0.7, "iou_normalizer": 0.07, "scale_x_y": 1.1, "iou_thresh": 0.213, "max_delta": 5.0}
    options = (
        {},
        {"truth_thresh": 0.5, "ignore_thresh": 0.3},
        v4,
        {"iou_thresh": 0.3, "iou_normalizer": 0.75, "obj_normalizer": 0.4},
        {"max_delta": 0.5, "scale_x_y": 1.2},
        {"new_coords": 1, "scale_x_y": 2.0, "iou_thresh": 0.2, "iou_normalizer": 0.05, "obj_normalizer": 0.4,
         "ignore_thresh": 0.7},
        {"new_coords": 1, "objectness_smooth": 1, "scale_x_y": 2.0, "iou_thresh": 0.2, "max_delta": 2.0,
         "ignore_thresh": 0.4},
        {"objectness_smooth": 1, "truth_thresh": 0.6, "ignore_thresh": 0.3, "iou_thresh": 0.25},
        {"focal_loss": 1, "iou_thresh": 0.4},
        {"label_smooth_eps": 0.1, "iou_thresh": 0.213},
        {"objectness_smooth": 1, "focal_loss": 1, "label_smooth_eps": 0.1, "truth_thresh": 0.5, "ignore_thresh": 0.3,
         "iou_thresh": 0.3})
    return pjreddie, [{"box_loss": kind, **changed} for kind in BOX_LOSSES for changed in options]


def gaussian_cases():
    """The options of each configuration of [Gaussian_yolo], without those at their defaults."""
    bdd = {"iou_thresh": 0.213, "iou_normalizer": 0.5}   # Gaussian_yolov3_BDD.cfg
    options = (
        bdd,
        {"truth_thresh": 0.5, "ignore_thresh": 0.3, "uc_normalizer": 0.5, "scale_x_y": 1.1},
        {"objectness_smooth": 1, "ignore_thresh": 0.3, "label_smooth_eps": 0.1, "obj_normalizer": 0.4},
        {"objectness_smooth": 1, "ignore_thresh": 0.2, "truth_thresh": 0.5, "iou_thresh": 0.3, "max_delta": 0.5},
        {**bdd, "yolo_point": "left_top", "max_delta": 2.0},
        {"yolo_point": "right_bottom", "truth_thresh": 0.6, "ignore_thresh": 0.4, "label_smooth_eps": 0.1})
    return [{"box_loss": kind, **changed} for kind in BOX_LOSSES for changed in options]


class Layer:
    """A layer's random input and ground truths.

    Parameters
    ----------
    seed : int
    options : dict
        Of the layer.
    number : int
        The configuration, which gives the layer its sizes.
    """

    def __init__(self, seed, options, number):
        self.draws = np.random.RandomState(seed)
        self.options = options
        self.is_gaussian = "yolo_point" in options
        self.cells = np.array(CELLS[number % len(CELLS)])
        self.classes = 3 + number % 2
        count, total = ANCHORS[number % len(ANCHORS)]
        self.pixels = self.cells * STRIDE
        sizes = self.draws.uniform(np.log(12), np.log(min(self.pixels) * 0.9), (total, 2))
        self.anchors = np.round(np.exp(sizes))
        start = self.draws.randint(total - count + 1)
        self.mask = np.arange(start, start + count)
        width, height = self.cells
        self.channels = (9 if self.is_gaussian else 5) + self.classes
        shape = 1, count * self.channels, height, width
        self.input = (self.draws.uniform(0.05, 0.95, shape) if options["new_coords"]
                      else self.draws.randn(*shape) * 1.3)
        rows = self.draws.randint(3, TRUTHS)
        self.truth = self.draw_truth(rows)
        for row in self.truth[:rows]:
            if self.draws.rand() < 0.6:
                self.predict(row)
        self.input = (np.round(self.input * 64) / 64).astype("f4")

    def draw_truth(self, rows):
        """About as large as an anchor; some tiny, at the border, or in the cell of an earlier one."""
        draws, truth = self.draws, np.zeros((TRUTHS, 5))
        for t in range(rows):
            number = draws.randint(len(self.anchors)) if draws.rand() < 0.3 else draws.choice(self.mask)
            size = np.clip(self.anchors[number] / self.pixels * np.exp(draws.uniform(-0.4, 0.4, 2)), 0.004, 0.98)
            if draws.rand() < 0.1:
                size = draws.uniform(0.003, 0.02, 2)
            center = draws.uniform(0.02, 0.98, 2)
            if draws.rand() < 0.2:
                center = np.array([0.995, 0.004])[draws.randint(2, size=2)]
            if t and draws.rand() < 0.45:
                earlier = truth[draws.randint(t)]
                center = (np.floor(earlier[:2] * self.cells) + draws.uniform(0.1, 0.9, 2)) / self.cells
                if draws.rand() < 0.6:
                    size = np.clip(earlier[2:4] * np.exp(draws.uniform(-0.1, 0.1, 2)), 0.003, 0.98)
            truth[t] = *center, *size, draws.randint(self.classes)
        truth = np.round(truth * 4096) / 4096
        truth[:rows, :4] = np.maximum(truth[:rows, :4], 8 / 4096)
        return truth

    def predict(self, row):
        """Put a prediction near a ground truth."""
        shift = SHIFTS[POINTS.index(self.options["yolo_point"])] if self.is_gaussian else 0
        point = (row[:2] - shift * row[2:4]) * self.cells
        cell = np.clip(point.astype(int), 0, self.cells - 1)
        anchor = self.draws.randint(len(self.mask))
        place = np.clip(point - cell, 0.04, 0.96)
        ratio = row[2:4] * self.pixels / self.anchors[self.mask[anchor]]
        if self.options["new_coords"]:
            values = [*place, *np.sqrt(ratio / 4)]
        else:
            values = [*np.log(place / (1 - place)), *np.log(ratio)]
        noise = 0.02 if self.options["new_coords"] else 0.15
        channels = anchor * self.channels + np.arange(4) * (2 if self.is_gaussian else 1)
        self.input[0, channels, cell[1], cell[0]] = values + self.draws.randn(4) * noise

    def recorded(self, program):
        """The arrays of this layer, with what the program computed."""
        arrays = {"biases": self.anchors.astype("f4"), "mask": self.mask.astype("i4"), "input": self.input,
                  "truth": self.truth[None].astype("f4")}
        width, height = self.cells
        options = {**OF_GAUSSIAN, **self.options}
        header = [self.is_gaussian, 1, width, height, len(self.mask), len(self.anchors), self.classes, TRUTHS,
                  *self.pixels, BOX_LOSSES.index(options["box_loss"]), options["new_coords"],
                  options["objectness_smooth"], options["focal_loss"], POINTS.index(options["yolo_point"])]
        with tempfile.TemporaryDirectory() as folder:
            given, found = (pathlib.Path(folder) / name for name in ("in", "out"))
            with given.open("wb") as file:
                np.array(header, "i4").tofile(file)
                np.array([options[name] for name in FLOATS], "f4").tofile(file)
                for array in arrays.values():
                    array.tofile(file)
            subprocess.run([program, given, found], check=True, capture_output=True)
            *delta, cost = np.fromfile(found, "f4")
        return {**arrays, "delta": np.array(delta).reshape(self.input.shape), "cost": cost}


def record(path, cases, first_seed):
    """Write what programs compute. ``cases`` has a program, numbers in front of the options, and the options."""
    saved = {}
    for number, (program, front, options) in enumerate(cases):
        arrays = Layer(first_seed + number, options, number).recorded(program)
        indices = {"box_loss": BOX_LOSSES, "yolo_point": POINTS}
        numbers = [indices[name].index(value) if name in indices else value for name, value in options.items()]
        arrays = {"cfg": np.array([*front, *numbers], "f8"), **arrays}
        saved.update({f"c{number:02d}_{name}": array for name, array in arrays.items()})
    np.savez_compressed(path, **saved)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pjreddie", type=pathlib.Path)
    parser.add_argument("alexeyab", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    args = parser.parse_args()
    pjreddie, alexeyab = args.pjreddie.resolve(), args.alexeyab.resolve()
    of_pjreddie, of_alexeyab = yolo_cases()
    cases = [(pjreddie, [0], {**DEFAULTS, **options}) for options in of_pjreddie]
    cases += [(alexeyab, [1], {**DEFAULTS, **options}) for options in of_alexeyab]
    record(args.folder / "yolo.npz", cases, 1000)
    record(args.folder / "gaussian_yolo.npz",
           [(alexeyab, [], {**DEFAULTS, **OF_GAUSSIAN, **options}) for options in gaussian_cases()], 3000)


if __name__ == "__main__":
    main()
