"""yolo_loss: one prediction and one ground truth after the other, as the programs do it.

Source: pjreddie/darknet ``src/yolo_layer.c``, commit f6afaabc; AlexeyAB/darknet ``src/yolo_layer.c`` and ``src/box.c``.
"""
import numpy as np
from ops.iou_loss import oracle as iou_loss
from oracles import remembered

from .._boxes.oracle import corners
from .._region.oracle import iou, sigmoid, split
from ..region_loss.oracle import draw_ground_truth

PARTS = 9
COORDINATES, OBJECTNESS, NO_OBJECTNESS, CLASS_PART, COST, IOU, RECALL, PROBABILITY, TRUTHS = range(PARTS)


def entropy(attrs, number, target):
    """Return the loss whose derivative is the activation less the target."""
    if attrs.new_coords:
        return (number - target) ** 2 / 2
    return np.logaddexp(0, number) - number * target


class Image:
    """One image's layer.

    Attributes
    ----------
    delta : numpy.ndarray
        (anchors, 5 + classes, height, width), as the program's.
    parts : numpy.ndarray
        (9,).
    terms : callable
        ``terms(numbers)`` are the four terms of the loss for any numbers of the map, with the weights and targets of
        this assignment. An IoU loss is that of this image's own numbers.
    """

    def __init__(self, attrs, numbers, rows):
        self.attrs = attrs
        self.numbers = numbers
        self.anchors, _, self.height, self.width = numbers.shape
        anchors = [*attrs.anchors, *(attrs.other_anchors or ())]
        self.sizes = np.reshape(anchors, (-1, 2)) / (self.width, self.height)
        self.out = numbers.copy() if attrs.new_coords else sigmoid(numbers)
        self.out[:, :2] = attrs.scale_x_y * self.out[:, :2] - (attrs.scale_x_y - 1) / 2
        self.out[:, 2:4] = numbers[:, 2:4]
        self.alexeyab = attrs.dialect == "alexeyab"
        self.delta = np.zeros(numbers.shape)
        self.stats = np.zeros(4)
        self.written = set()    # places whose classes have deltas
        self.matched = set()    # places with a ground truth
        self.boxes = {}         # place -> ground truths of the box's delta
        self.divisors = {}      # place -> classes
        self.class_weight, self.class_target = np.zeros((2, self.anchors, attrs.classes, self.height, self.width))
        self.rows = [row for row in rows if row.any()]
        for place in np.ndindex(self.anchors, self.height, self.width):
            self.unassigned(place)
        for row in self.rows:
            self.assign(row)
        if attrs.iou_thresh < 1:
            self.average()

    def predicted(self, place, out=None):
        a, j, i = place
        x, y, w, h = (self.out if out is None else out)[a, :4, j, i]
        w, h = (4 * w * w, 4 * h * h) if self.attrs.new_coords else (np.exp(w), np.exp(h))
        return (i + x) / self.width, (j + y) / self.height, w * self.sizes[a, 0], h * self.sizes[a, 1]

    # -- what process_batch does ---------------------------------------------------------------------------------
    def unassigned(self, place):
        a, j, i = place
        attrs, objectness = self.attrs, self.out[a, 4, j, i]
        best_iou, best = 0, None
        for row in self.rows:
            overlap = iou(self.predicted(place), row)
            if overlap > best_iou:
                best_iou, best = overlap, row
        match = best_iou
        if self.alexeyab and not (self.out[a, 5:, j, i] > 0.25).any():
            match = 0
        delta = -attrs.obj_normalizer * objectness
        if match > attrs.ignore_thresh:
            delta = attrs.obj_normalizer * (match - objectness) if attrs.objectness_smooth else 0
        if attrs.truth_thresh < 1 and best_iou > attrs.truth_thresh:
            target = best_iou ** 2 if attrs.objectness_smooth else 1
            delta = attrs.obj_normalizer * (target - objectness)
            self.delta_class(place, int(best[4]))
            if attrs.objectness_smooth:
                self.set_class(place, int(best[4]), target, 1)
            self.delta_box(place, best)
        self.delta[a, 4, j, i] = delta

    def assign(self, row):
        x, y, w, h, class_id = row
        i, j = min(int(x * self.width), self.width - 1), min(int(y * self.height), self.height - 1)
        ious = [iou((0, 0, *size), (0, 0, w, h)) for size in self.sizes]
        best = int(np.argmax(ious))
        for a in range(self.anchors):
            if a == best or (self.attrs.iou_thresh < 1 and ious[a] > self.attrs.iou_thresh):
                self.match((a, j, i), row)

    def match(self, place, row):
        a, j, i = place
        attrs, objectness = self.attrs, self.out[a, 4, j, i]
        self.delta_box(place, row)
        if not attrs.objectness_smooth or self.delta[a, 4, j, i] == 0:
            self.delta[a, 4, j, i] = attrs.obj_normalizer * (1 - objectness)
        self.delta_class(place, int(row[4]))
        own_iou = iou(self.predicted(place), row)
        self.stats += own_iou, own_iou > 0.5, self.out[a, 5 + int(row[4]), j, i], 1

    def average(self):
        for a, j, i in self.matched:
            positive = (self.delta[a, 5:, j, i] > 0).sum()
            if self.delta[a, 4, j, i] != 0 and positive:
                self.delta[a, :4, j, i] /= positive
                self.divisors[a, j, i] = positive

    # -- classes -------------------------------------------------------------------------------------------------
    def delta_class(self, place, class_id):
        a, j, i = place
        eps = self.attrs.label_smooth_eps
        if place in self.written:
            self.set_class(place, class_id, 1 - eps / 2, 1)
            return
        self.written.add(place)
        for k in range(self.attrs.classes):
            if self.attrs.focal_loss:
                p = self.out[a, 5 + class_id, j, i] + 1e-15
                self.set_class(place, k, k == class_id, -0.5 * (1 - p) * (2 * p * np.log(p) + p - 1))
            else:
                self.set_class(place, k, (k == class_id) * (1 - eps) + eps / 2, 1)

    def set_class(self, place, k, target, weight):
        a, j, i = place
        self.class_target[a, k, j, i] = target
        self.class_weight[a, k, j, i] = weight
        self.delta[a, 5 + k, j, i] = weight * (target - self.out[a, 5 + k, j, i])

    # -- boxes ---------------------------------------------------------------------------------------------------
    def delta_box(self, place, row):
        a, j, i = place
        self.matched.add(place)
        if not self.alexeyab:
            self.delta[a, :4, j, i] = 0
            self.boxes[place] = []
        self.boxes.setdefault(place, []).append(row)
        if self.attrs.box_loss == "mse":
            scale = self.attrs.iou_normalizer * (2 - row[2] * row[3])
            self.delta[a, :4, j, i] += scale * (self.box_targets(place, row) - self.out[a, :4, j, i])
            return
        by = iou_derivatives(self.attrs.box_loss, self.predicted(place), row[:4])
        if not self.attrs.new_coords:
            by[2:] *= np.exp(self.out[a, 2:4, j, i])
        by *= self.attrs.iou_normalizer
        by[~np.isfinite(by)] = 0
        if self.attrs.max_delta > 0:
            by = np.clip(by, -self.attrs.max_delta, self.attrs.max_delta)
        self.delta[a, :4, j, i] += by

    def box_targets(self, place, row):
        a, j, i = place
        ratio = row[2:4] / self.sizes[a]
        sizes = np.sqrt(ratio / 4) if self.attrs.new_coords else np.log(ratio)
        return np.array([row[0] * self.width - i, row[1] * self.height - j, *sizes])

    # -- the loss ------------------------------------------------------------------------------------------------
    def box_term(self, place, row, numbers):
        a, j, i = place
        attrs, scale = self.attrs, self.attrs.scale_x_y
        if attrs.box_loss != "mse":
            return attrs.iou_normalizer * self.overlap_loss(place, row)
        x, y, w, h = self.box_targets(place, row)
        centers = [scale * entropy(attrs, numbers[a, c, j, i], (target + (scale - 1) / 2) / scale)
                   for c, target in enumerate((x, y))]
        errors = numbers[a, 2:4, j, i] - (w, h)
        return attrs.iou_normalizer * (2 - row[2] * row[3]) * (sum(centers) + (errors ** 2).sum() / 2)

    def overlap_loss(self, place, row):
        pair = np.array([self.predicted(place), row[:4]])
        # The aspect is that of boxes around 0: rounding leaves corners that are far away no size.
        v = iou_loss.aspect_term(*corners(pair * (0, 0, 1, 1), "center"))
        return iou_loss.loss(self.attrs.box_loss, *corners(pair, "center"), v=v)

    def terms(self, numbers):
        coordinates = sum(self.box_term(place, row, numbers) / self.divisors.get(place, 1)
                          for place, rows in self.boxes.items() for row in rows)
        classes = (self.class_weight * entropy(self.attrs, numbers[:, 5:], self.class_target)).sum()
        objectness = [0.0, 0.0]
        for place in np.ndindex(self.anchors, self.height, self.width):
            a, j, i = place
            weight, target = self.objectness_target(place)
            objectness[place not in self.matched] += weight * entropy(self.attrs, numbers[a, 4, j, i], target)
        return np.array([coordinates, *objectness, classes])

    def objectness_target(self, place):
        """Return the weight and the target that give the delta: an ignored prediction has the weight 0."""
        a, j, i = place
        delta, weight = self.delta[a, 4, j, i], self.attrs.obj_normalizer
        if weight == 0 or (delta == 0 and not self.attrs.objectness_smooth):
            return 0, 0
        return weight, delta / weight + self.out[a, 4, j, i]

    @property
    def parts(self):
        return np.array([*self.terms(self.numbers), (self.delta ** 2).sum(), *self.stats])


def iou_derivatives(kind, box, truth):
    """AlexeyAB's dx_box_iou: by x, y, w and h."""
    box = [*box[:2], box[2] or 1.0, box[3] or 1.0]
    with np.errstate(all="ignore"):
        return np.array([np.float64(value) for value in _iou_derivatives(kind, *np.float64([box, truth]))])


def _iou_derivatives(kind, box, truth):
    x, y, w, h = box
    truth_x, truth_y, truth_w, truth_h = truth
    top, bottom, left, right = y - h / 2, y + h / 2, x - w / 2, x + w / 2
    truth_top, truth_bottom = truth_y - truth_h / 2, truth_y + truth_h / 2
    truth_left, truth_right = truth_x - truth_w / 2, truth_x + truth_w / 2
    inner_h = min(bottom, truth_bottom) - max(top, truth_top)
    inner_w = min(right, truth_right) - max(left, truth_left)
    intersection = inner_w * inner_h
    union = w * h + truth_w * truth_h - intersection
    hull_w, hull_h = max(right, truth_right) - min(left, truth_left), max(bottom, truth_bottom) - min(top, truth_top)
    hull = hull_w * hull_h

    box_by = np.array([-w, w, -h, h])   # top, bottom, left, right
    inner_by = np.array([-inner_w * (top > truth_top), inner_w * (bottom < truth_bottom),
                         -inner_h * (left > truth_left), inner_h * (right < truth_right)])
    union_by = box_by - inner_by
    hull_by = np.array([-hull_w * (top < truth_top), hull_w * (bottom > truth_bottom),
                        -hull_h * (left < truth_left), hull_h * (right > truth_right)])
    by = np.zeros(4)
    if union > 0:
        by = (union * inner_by - intersection * union_by) / union ** 2
    is_apart = inner_w <= 0 or inner_h <= 0
    if kind == "giou":
        more = (hull * union_by - union * hull_by) / hull ** 2
        by = more if is_apart else by + more
    by_top, by_bottom, by_left, by_right = by
    result = np.array([by_left + by_right, by_top + by_bottom, by_right - by_left, by_bottom - by_top])
    if kind in ("iou", "giou"):
        return result

    distance = (x - truth_x) ** 2 + (y - truth_y) ** 2
    diagonal = hull_w ** 2 + hull_h ** 2
    outside = np.array([left < truth_left, right > truth_right, top < truth_top, bottom > truth_bottom], float)
    hull_w_by_x, hull_w_by_w = outside[1] - outside[0], (outside[0] + outside[1]) / 2
    hull_h_by_y, hull_h_by_h = outside[3] - outside[2], (outside[2] + outside[3]) / 2
    more = np.array([2 * (truth_x - x) * diagonal - 2 * hull_w * hull_w_by_x * distance,
                     2 * (truth_y - y) * diagonal - 2 * hull_h * hull_h_by_y * distance,
                     2 * hull_w * hull_w_by_w * distance, 2 * hull_h * hull_h_by_h * distance]) / diagonal ** 2
    if kind == "ciou":
        difference = np.arctan(truth_w / truth_h) - np.arctan(w / h)
        ratio = 4 / np.pi ** 2 * difference ** 2
        alpha = ratio / (1 - intersection / union + ratio + 1e-6)
        more[2:] += alpha * 8 / np.pi ** 2 * difference * np.array([h, -w])
    return more if is_apart else result + more


@remembered
def images(attrs, data, truth):
    return [Image(attrs, numbers, rows) for numbers, rows in zip(split(data, attrs.classes), truth)]


def forward(attrs, data, truth):
    of_images = images(attrs, data, truth)
    parts = np.array([image.parts for image in of_images]).reshape(-1, PARTS)
    gradient = -np.array([image.delta for image in of_images]).reshape(data.shape)
    return {"output": parts[:, :4].sum(axis=1), "parts": parts, "gradient": gradient}


def backward(attrs, head, data, truth):
    gradient = np.array([-h * image.delta for h, image in zip(head, images(attrs, data, truth))])
    return {"data": gradient.reshape(data.shape)}


def draw(attrs, shapes, rng):
    """Ground truths; data between 0 and 1 if it is activated already."""
    batch, count, _ = shapes["truth"]
    drawn = {"truth": draw_ground_truth(rng, attrs.anchors, attrs.classes, batch, count, shapes["data"][2:],
                                        attrs.other_anchors or ())}
    if attrs.new_coords:
        drawn["data"] = rng.uniform(0.05, 0.95, shapes["data"])
    return drawn
