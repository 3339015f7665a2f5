"""gaussian_yolo_loss: one prediction and one ground truth after the other, as AlexeyAB's program does it.

Source: AlexeyAB/darknet ``src/gaussian_yolo_layer.c``, commit 59596d78.
"""
import numpy as np
from oracles import remembered

from .._region.oracle import iou, sigmoid
from ..yolo_loss import oracle as yolo
from ..yolo_loss.oracle import PARTS

SHIFTS = {"center": 0, "left_top": 0.5, "right_bottom": -0.5}
MEANS, DEVIATIONS = slice(0, 8, 2), slice(1, 8, 2)


def without_deviations(numbers):
    """(anchors, 9 + classes, height, width) as the numbers of a yolo layer."""
    return np.concatenate([numbers[:, MEANS], numbers[:, 8:]], axis=1)


def density(error, deviation):
    return np.exp(-(error / deviation) ** 2 / 2) / (np.sqrt(2 * np.pi) * (deviation + 0.3))


class _Options:
    """The attributes as those of a yolo layer of AlexeyAB's program."""
    dialect, new_coords, focal_loss = "alexeyab", False, False

    def __init__(self, attrs):
        self.attrs = attrs

    def __getattr__(self, name):
        return getattr(self.attrs, name)


class Image(yolo.Image):
    """One image's layer. ``numbers`` are (anchors, 9 + classes, height, width).

    Attributes
    ----------
    deltas : numpy.ndarray
        In the shape of ``numbers``, as the program's.
    """

    def __init__(self, attrs, numbers, rows):
        self.shift = SHIFTS[attrs.point]
        self.deviation = sigmoid(numbers[:, DEVIATIONS])
        self.deviation_delta = np.zeros(self.deviation.shape)
        super().__init__(_Options(attrs), without_deviations(numbers), rows)
        if attrs.iou_thresh >= 1:
            self.average()
        self.deltas = np.zeros(numbers.shape)
        self.deltas[:, MEANS], self.deltas[:, DEVIATIONS] = self.delta[:, :4], self.deviation_delta
        self.deltas[:, 8:] = self.delta[:, 4:]

    def predicted(self, place, out=None):
        x, y, w, h = super().predicted(place, out)
        return x + self.shift * w, y + self.shift * h, w, h

    def unassigned(self, place):
        a, j, i = place
        attrs, objectness = self.attrs, self.out[a, 4, j, i]
        best_iou, best = 0, None
        for row in self.rows:
            overlap = iou(self.predicted(place), row)
            if overlap > best_iou:
                best_iou, best = overlap, row
        is_likely = (self.out[a, 5:, j, i] > 0.25).any()
        delta = -attrs.obj_normalizer * objectness
        if is_likely and best_iou > attrs.ignore_thresh:
            delta = 0
            if attrs.objectness_smooth:
                delta = attrs.obj_normalizer * (best_iou ** 2 - objectness)
                self.delta_class(place, int(best[4]))
        if attrs.truth_thresh < 1 and best_iou > attrs.truth_thresh:
            target = best_iou ** 2 if attrs.objectness_smooth else 1
            delta = attrs.obj_normalizer * (target - objectness)
            self.delta_class(place, int(best[4]))
            if attrs.objectness_smooth:
                self.set_class(place, int(best[4]), target, 1)
            self.delta_box(place, best)
        self.delta[a, 4, j, i] = delta

    def assign(self, row):
        cells = np.array([self.width, self.height])
        i, j = np.clip(((row[:2] - self.shift * row[2:4]) * cells).astype(int), 0, cells - 1)
        ious = [iou((0, 0, *size), (0, 0, row[2], row[3])) for size in self.sizes]
        best = int(np.argmax(ious))
        for a in range(self.anchors):
            if a == best or (self.attrs.iou_thresh < 1 and ious[a] > self.attrs.iou_thresh):
                self.match((a, j, i), row)

    def match(self, place, row):
        a, j, i = place
        super().match(place, row)
        self.delta[a, 4, j, i] = self.attrs.obj_normalizer * (1 - self.out[a, 4, j, i])

    def average(self):
        for a, j, i in self.matched:
            positive = (self.delta[a, 5:, j, i] > 0).sum()
            if positive:
                self.delta[a, :4, j, i] /= positive
                self.deviation_delta[a, :, j, i] /= positive
                self.divisors[a, j, i] = positive

    # -- boxes ---------------------------------------------------------------------------------------------------
    def box_targets(self, place, row):
        shifted = np.array([*(row[:2] - self.shift * row[2:4]), *row[2:]])
        return super().box_targets(place, shifted)

    def delta_box(self, place, row):
        a, j, i = place
        attrs = self.attrs
        self.matched.add(place)
        self.boxes.setdefault(place, []).append(row)
        deviation = self.deviation[a, :, j, i]
        error = self.box_targets(place, row) - self.out[a, :4, j, i]
        likelihood = density(error, deviation)
        share = (2 - row[2] * row[3]) / 2 * likelihood / (likelihood + 1e-9)
        by_mean = share * error / deviation ** 2
        by_deviation = share * (error ** 2 / deviation ** 3 - 1 / (deviation + 0.3))
        if attrs.box_loss != "nll":
            by_mean = yolo.iou_derivatives(attrs.box_loss, self.predicted(place), row[:4])
            by_mean[:2] -= self.shift * by_mean[2:]
            by_mean[2:] *= np.exp(self.out[a, 2:4, j, i])
        for delta, by in ((self.delta[a, :4, j, i], attrs.iou_normalizer * by_mean),
                          (self.deviation_delta[a, :, j, i], attrs.uc_normalizer * by_deviation)):
            by[~np.isfinite(by)] = 0
            delta += np.clip(by, -attrs.max_delta, attrs.max_delta) if attrs.max_delta > 0 else by

    # -- the loss ------------------------------------------------------------------------------------------------
    def nll(self, place, row, mean, deviation):
        a, j, i = place
        error = self.box_targets(place, row) - mean[a, :, j, i]
        likelihood = density(error, deviation[a, :, j, i])
        return -(2 - row[2] * row[3]) / 2 * np.log(likelihood + 1e-9).sum()

    def box_term(self, place, row, numbers):
        attrs, nll = self.attrs, self.nll(place, row, self.out[:, :4], self.deviation)
        if attrs.box_loss == "nll":
            return attrs.iou_normalizer * nll
        return attrs.iou_normalizer * self.overlap_loss(place, row) + attrs.uc_normalizer * nll

    @property
    def parts(self):
        parts_of_yolo = super().parts
        parts_of_yolo[yolo.COST] = (self.deltas ** 2).sum()
        return parts_of_yolo

    def scalar(self, start, numbers):
        """Return a function of the map ``numbers`` whose derivative at ``start`` is the gradient of the loss.

        It takes the derivative by activations for that by numbers, as Darknet does; that of an overlap is Darknet's.
        """
        attrs, step = self.attrs, numbers - start
        mean, deviation = self.out[:, :4] + step[:, MEANS], self.deviation + step[:, DEVIATIONS]
        total = self.terms(without_deviations(numbers))[1:].sum()
        for place, rows in self.boxes.items():
            for row in rows:
                by_mean = self.nll(place, row, mean, self.deviation) if attrs.box_loss == "nll" else 0
                by_deviation = self.nll(place, row, self.out[:, :4], deviation)
                both = attrs.iou_normalizer * by_mean + attrs.uc_normalizer * by_deviation
                total += both / self.divisors.get(place, 1)
        if attrs.box_loss != "nll":
            total -= (self.delta[:, :4] * step[:, MEANS]).sum()
        return total


def split(data, classes):
    """``data``, (batch, anchors * (9 + classes), height, width), as maps."""
    batch, channels, height, width = data.shape
    return data.reshape(batch, channels // (9 + classes), 9 + classes, height, width)


@remembered
def images(attrs, data, truth):
    return [Image(attrs, numbers, rows) for numbers, rows in zip(split(data, attrs.classes), truth)]


def forward(attrs, data, truth):
    of_images = images(attrs, data, truth)
    parts = np.array([image.parts for image in of_images]).reshape(-1, PARTS)
    gradient = -np.array([image.deltas for image in of_images]).reshape(data.shape)
    return {"output": parts[:, :4].sum(axis=1), "parts": parts, "gradient": gradient}


def backward(attrs, head, data, truth):
    gradient = np.array([-h * image.deltas for h, image in zip(head, images(attrs, data, truth))])
    return {"data": gradient.reshape(data.shape)}


def draw(attrs, shapes, rng):
    """Ground truths; and deviations of 0.4 to 0.8, which leave finite differences some digits."""
    batch, count, _ = shapes["truth"]
    data = rng.standard_normal(shapes["data"])
    for channel in range(1, 8, 2):
        deviations = split(data, attrs.classes)[:, :, channel]
        deviations[:] = rng.uniform(-0.4, 1.4, deviations.shape)
    truth = yolo.draw_ground_truth(rng, attrs.anchors, attrs.classes, batch, count, shapes["data"][2:],
                                   attrs.other_anchors or ())
    return {"data": data, "truth": truth}
