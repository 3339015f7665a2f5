"""region_loss: YOLOv2's loss, worked off ground truth by ground truth as Darknet does."""
import numpy as np

from .._region.oracle import LOGISTIC, activate, boxes, iou, split


class Assignment:
    """What one image's ground truths ask of its activations ``out`` (anchors, 5 + classes, height, width).

    ``weight`` and ``target`` (anchors, 5, height, width) are those of x, y, w, h and objectness. ``class_target``
    (anchors, classes, height, width) holds where ``assigned`` (anchors, height, width). ``stats``: the sums of IoU,
    recall and probability, and the number of ground truths.
    """

    def __init__(self, attrs, out, ground_truth, warming_up):
        count, _, height, width = out.shape
        self.out, anchors = out, attrs.anchors
        rows = [row for row in ground_truth if row.any()]
        decoded = boxes(out[None], anchors)[0]
        self.weight, self.target = np.zeros((2, count, 5, height, width))
        self.assigned, self.class_target = np.zeros((count, height, width), bool), np.zeros_like(out[:, 5:])
        self.stats = np.zeros(4)

        for a, j, i in np.ndindex(count, height, width):
            overlap = max([iou(decoded[a, :, j, i], row) for row in rows], default=0)
            self.weight[a, 4, j, i] = 0 if overlap > attrs.thresh else attrs.noobject_scale
            if warming_up:
                self.weight[a, :4, j, i], self.target[a, :4, j, i] = 0.01, (0.5, 0.5, 0, 0)

        for x, y, w, h, class_id in rows:
            i, j = min(int(x * width), width - 1), min(int(y * height), height - 1)
            sizes = [(anchors[2 * a] / width, anchors[2 * a + 1] / height) if attrs.bias_match
                     else decoded[a, 2:, j, i] for a in range(count)]
            a = int(np.argmax([iou((0, 0, *size), (0, 0, w, h)) for size in sizes]))
            overlap = iou(decoded[a, :, j, i], (x, y, w, h))
            self.weight[a, :4, j, i] = attrs.coord_scale * (2 - w * h)
            self.target[a, :4, j, i] = (x * width - i, y * height - j, np.log(w * width / anchors[2 * a]),
                                        np.log(h * height / anchors[2 * a + 1]))
            self.weight[a, 4, j, i] = attrs.object_scale
            self.target[a, 4, j, i] = overlap if attrs.rescore else 1
            probability = self.assign_class(attrs, int(class_id), (a, j, i))
            self.stats += overlap, overlap > 0.5, probability, 1

    def assign_class(self, attrs, class_id, place):
        """Ask for a class; returns its probability.

        Without softmax the classes of several ground truths at one place add up, unless the error of class 0 is 0 on
        the way: Darknet then starts anew.
        """
        a, j, i = place
        probabilities = self.out[a, 5:, j, i]
        error = 0
        if self.assigned[a, j, i]:
            error = attrs.class_scale * (self.class_target[a, 0, j, i] - probabilities[0])
        if attrs.softmax or not error:
            self.class_target[a, :, j, i] = 0
        self.class_target[a, class_id, j, i] = 1
        self.assigned[a, j, i] = True
        return probabilities[class_id]

    def weighted_error(self, attrs):
        """Minus Darknet's delta, (anchors, 5 + classes, height, width)."""
        classes = attrs.class_scale * (self.out[:, 5:] - self.class_target) * self.assigned[:, None]
        return np.concatenate([self.weight * (self.out[:, :5] - self.target), classes], axis=1)

    def terms(self, attrs, out):
        """Coordinates, objectness at assigned places and elsewhere, classes: of any activations, same assignment."""
        errors = self.weight * (out[:, :5] - self.target) ** 2 / 2
        objectness = errors[:, 4]
        other = 0 if attrs.softmax else -np.log1p(-out[:, 5:])
        nll = np.where(self.class_target == 1, -np.log(out[:, 5:]), other)
        return [errors[:, :4].sum(), objectness[self.assigned].sum(), objectness[~self.assigned].sum(),
                attrs.class_scale * np.where(self.assigned[:, None], nll, 0).sum()]


def assign(attrs, data, ground_truth, seen):
    """The activations as maps, and the :class:`Assignment` of every image."""
    out = activate(split(data, attrs.classes), attrs.softmax)
    warming_up = seen[0] < attrs.warmup_images
    return out, [Assignment(attrs, image, rows, warming_up) for image, rows in zip(out, ground_truth)]


def loss_gradient(attrs, out, assignments):
    """Of every image's loss with respect to the logits, as maps."""
    gradient = np.array([one.weighted_error(attrs) for one in assignments]).reshape(out.shape)
    gradient[:, :, LOGISTIC] *= (out * (1 - out))[:, :, LOGISTIC]
    return gradient


def loss_parts(attrs, out, assignments):
    """Of every image: the terms of its loss, Darknet's cost and the statistics."""
    rows = [one.terms(attrs, image) + [(one.weighted_error(attrs) ** 2).sum(), *one.stats]
            for one, image in zip(assignments, out)]
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


def draw_ground_truth(rng, anchors, classes, batch, count, cells):
    """Boxes well inside their cells, about as large as an anchor; a fifth of the rows is padding."""
    height, width = cells
    truth = np.zeros((batch, count, 5))
    for row in truth.reshape(-1, 5):
        if rng.rand() < 0.8:
            pick = 2 * rng.randint(len(anchors) // 2)
            center = (np.array([rng.randint(width), rng.randint(height)]) + rng.uniform(0.1, 0.9, 2)) / (width, height)
            size = anchors[pick:pick + 2] * rng.uniform(0.85, 1.15, 2) / (width, height)
            row[:] = (*center, *np.minimum(size, 0.95), rng.randint(classes))
    return truth
