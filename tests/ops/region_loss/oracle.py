"""region_loss: YOLOv2's loss. It handles the ground truths of an image one after the other, as Darknet does.

Source: pjreddie/darknet ``src/region_layer.c``, commit f6afaabc.
"""
import numpy as np
from oracles import remembered

from .._region.oracle import LOGISTIC, activate, boxes, giou, iou, split

STEP = 1e-30   # imaginary step of a complex step derivative

BOX = slice(0, 4)   # the channels x, y, w, h
OBJECTNESS = 4
CLASSES = slice(5, None)

WARMUP_WEIGHT = 0.01
WARMUP_TARGET = (0.5, 0.5, 0, 0)


class Assignment:
    """The targets and weights that the ground truths of one image give to its predictions.

    Parameters
    ----------
    attrs : Attrs
    out : numpy.ndarray
        Activations of the image, (anchors, 5 + classes, height, width).
    ground_truth : numpy.ndarray
        (rows, 5): x, y, w, h, class id. Rows of zeros are padding.
    warming_up : bool
        Whether boxes without an object are regressed toward their priors.

    Attributes
    ----------
    weight, target : numpy.ndarray
        (anchors, 5, height, width), of x, y, w, h and objectness.
    assigned : numpy.ndarray
        bool, (anchors, height, width): whether a ground truth is matched.
    class_target : numpy.ndarray
        (anchors, classes, height, width), valid where ``assigned``.
    matched : dict
        With GIoU: the box (x, y, w, h) of the ground truth, by (anchor, row, column).
    stats : numpy.ndarray
        Sums over the ground truths: IoU, recall, probability of the class, and their number.
    """

    def __init__(self, attrs, out, ground_truth, warming_up):
        anchors, _, height, width = out.shape
        self.out = out
        self.anchors = attrs.anchors
        self.matched = {}
        self.decoded = boxes(out[None], attrs.anchors)[0]
        self.weight = np.zeros((anchors, 5, height, width))
        self.target = np.zeros((anchors, 5, height, width))
        self.assigned = np.zeros((anchors, height, width), bool)
        self.class_target = np.zeros_like(out[:, CLASSES])
        self.stats = np.zeros(4)

        rows = [row for row in ground_truth if row.any()]
        self.set_unmatched(attrs, rows, warming_up)
        for row in rows:
            self.match(attrs, row)

    def set_unmatched(self, attrs, rows, warming_up):
        """Targets and weights of predictions without a ground truth."""
        for a, j, i in np.ndindex(*self.assigned.shape):
            best_iou = max([iou(self.decoded[a, :, j, i], row) for row in rows], default=0)
            if not best_iou > attrs.thresh:   # NaN counts as well
                self.weight[a, OBJECTNESS, j, i] = attrs.noobject_scale
        if warming_up:
            self.weight[:, BOX] = WARMUP_WEIGHT
            self.target[:, BOX] = np.reshape(WARMUP_TARGET, (4, 1, 1))

    def match(self, attrs, row):
        """Match a ground truth to an anchor of its cell, and set targets and weights there."""
        x, y, w, h, class_id = row
        _, height, width = self.assigned.shape
        i = min(int(x * width), width - 1)
        j = min(int(y * height), height - 1)
        a = self.best_anchor(attrs, row, j, i)
        anchor_width, anchor_height = attrs.anchors[2 * a:2 * a + 2]
        own_iou = iou(self.decoded[a, :, j, i], (x, y, w, h))

        self.weight[a, BOX, j, i] = attrs.coord_scale * (2 - w * h)
        self.target[a, BOX, j, i] = (x * width - i, y * height - j,
                                     np.log(w * width / anchor_width), np.log(h * height / anchor_height))
        if attrs.box_loss == "giou":
            self.weight[a, BOX, j, i] = 0
            self.matched[a, j, i] = x, y, w, h
        self.weight[a, OBJECTNESS, j, i] = attrs.object_scale
        self.target[a, OBJECTNESS, j, i] = own_iou if attrs.rescore else 1
        probability = self.set_class(attrs, int(class_id), (a, j, i))
        self.stats += own_iou, own_iou > 0.5, probability, 1

    def best_anchor(self, attrs, row, j, i):
        """Return the first anchor with the largest IoU of its size, or of the size that it predicts."""
        anchors, height, width = self.assigned.shape
        if attrs.bias_match:
            sizes = np.reshape(attrs.anchors, (anchors, 2)) / (width, height)
        else:
            sizes = self.decoded[:, 2:, j, i]
        return int(np.argmax([iou((0, 0, *size), (0, 0, *row[2:4])) for size in sizes]))

    def set_class(self, attrs, class_id, place):
        """Set the class target at ``place``, (anchor, row, column), and return the probability of the class.

        Without a softmax the classes of several ground truths in one place are all targets. Darknet clears the earlier
        ones if the error of class 0 is 0.
        """
        a, j, i = place
        probabilities = self.out[a, CLASSES, j, i]
        error_of_class_0 = 0
        if self.assigned[a, j, i]:
            error_of_class_0 = attrs.class_scale * (self.class_target[a, 0, j, i] - probabilities[0])
        if attrs.softmax or not error_of_class_0:
            self.class_target[a, :, j, i] = 0
        self.class_target[a, class_id, j, i] = 1
        self.assigned[a, j, i] = True
        return probabilities[class_id]

    def giou_loss(self, attrs, place, x, y, w, h):
        """Return the loss of the matched box at ``place``, (anchor, row, column), for its activations x, y, w and h."""
        a, j, i = place
        _, height, width = self.assigned.shape
        anchor_width, anchor_height = self.anchors[2 * a:2 * a + 2]
        box = ((i + x) / width, (j + y) / height, np.exp(w) * anchor_width / width, np.exp(h) * anchor_height / height)
        return attrs.coord_scale * (1 - giou(box, self.matched[place]))

    def weighted_error(self, attrs):
        """Minus Darknet's delta: the derivative with respect to the activations, in their shape."""
        errors = self.weight * (self.out[:, :5] - self.target)
        for a, j, i in self.matched:
            activations = self.out[a, BOX, j, i]
            for channel, step in enumerate(np.eye(4) * STEP * 1j):   # the complex step derivative has no rounding error
                loss = self.giou_loss(attrs, (a, j, i), *(activations + step))
                errors[a, channel, j, i] = loss.imag / STEP
        class_errors = attrs.class_scale * (self.out[:, CLASSES] - self.class_target) * self.assigned[:, None]
        return np.concatenate([errors, class_errors], axis=1)

    def terms(self, attrs, out):
        """Return the terms of the loss for any activations ``out``, with the targets and weights of this assignment.

        They are those of coordinates, of objectness at matched predictions and elsewhere, and of classes.
        """
        errors = self.weight * (out[:, :5] - self.target) ** 2 / 2
        objectness = errors[:, OBJECTNESS]
        p = out[:, CLASSES]
        nll_of_others = 0 if attrs.softmax else -np.log1p(-p)
        nll = np.where(self.class_target == 1, -np.log(p), nll_of_others)
        class_loss = attrs.class_scale * np.where(self.assigned[:, None], nll, 0).sum()
        coordinates = errors[:, BOX].sum()
        coordinates += sum(self.giou_loss(attrs, (a, j, i), *out[a, BOX, j, i]) for a, j, i in self.matched)
        return [coordinates, objectness[self.assigned].sum(), objectness[~self.assigned].sum(), class_loss]


@remembered
def assign(attrs, data, ground_truth, seen):
    """Return activations, (batch, anchors, 5 + classes, height, width), and the :class:`Assignment` of each image."""
    out = activate(split(data, attrs.classes), attrs.softmax)
    warming_up = seen[0] < attrs.warmup_images
    return out, [Assignment(attrs, image, rows, warming_up) for image, rows in zip(out, ground_truth)]


def loss_gradient(attrs, out, assignments):
    """Return the gradient of each image's loss with respect to the logits, in the shape of ``out``."""
    gradient = np.array([assignment.weighted_error(attrs) for assignment in assignments]).reshape(out.shape)
    slope = out * (1 - out)
    gradient[:, :, LOGISTIC] *= slope[:, :, LOGISTIC]
    return gradient


def loss_parts(attrs, out, assignments):
    """Return the terms of each image's loss, Darknet's cost, and the statistics, (batch, 9)."""
    rows = []
    for assignment, image in zip(assignments, out):
        cost = (assignment.weighted_error(attrs) ** 2).sum()
        rows.append([*assignment.terms(attrs, image), cost, *assignment.stats])
    return np.array(rows).reshape(len(out), 9)


def forward(attrs, data, truth, seen):
    out, assignments = assign(attrs, data, truth, seen)
    parts = loss_parts(attrs, out, assignments)
    gradient = loss_gradient(attrs, out, assignments).reshape(data.shape)
    return {"output": parts[:, :4].sum(axis=1), "parts": parts, "gradient": gradient}


def backward(attrs, head, data, truth, seen):
    out, assignments = assign(attrs, data, truth, seen)
    gradient = loss_gradient(attrs, out, assignments) * head.reshape(-1, 1, 1, 1, 1)
    return {"data": gradient.reshape(data.shape)}


def draw(attrs, shapes, rng):
    """Ground truths, and a number of images seen."""
    batch, count, _ = shapes["truth"]
    return {"truth": draw_ground_truth(rng, attrs.anchors, attrs.classes, batch, count, shapes["data"][2:]),
            "seen": np.array([20.0])}


def draw_ground_truth(rng, anchors, classes, batch, count, cells, other_anchors=()):
    """Ground truths (batch, count, 5) well inside their cells, about as large as an anchor. A fifth is padding.

    Two that are as large as the image differ in size: a prediction around both would overlap them alike. None fits two
    anchors alike, as it does those that differ in shape but not in area and are around it: rounding would decide.
    """
    height, width = cells
    priors = np.unique(np.reshape([*anchors, *other_anchors], (-1, 2)), axis=0) / (width, height)
    truth = np.zeros((batch, count, 5))
    for row in truth.reshape(-1, 5):
        is_padding = rng.rand() >= 0.8
        if is_padding:
            continue
        anchor = 2 * rng.randint(len(anchors) // 2)
        cell = np.array([rng.randint(width), rng.randint(height)])
        center = (cell + rng.uniform(0.1, 0.9, 2)) / (width, height)
        size = anchors[anchor:anchor + 2] * rng.uniform(0.85, 1.15, 2) / (width, height)
        size = np.where(size < 0.95, size, 0.95 - 0.05 / (1 + size))
        *_, second, best = sorted([0, *(iou((0, 0, *prior), (0, 0, *size)) for prior in priors)])
        if best - second < 1e-6:
            continue
        row[:] = (*center, *size, rng.randint(classes))
    return truth
