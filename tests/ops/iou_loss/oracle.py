"""iou_loss: 1 - IoU of each box and its ground truth, and the penalties of GIoU, DIoU and CIoU."""
import numpy as np
from ops._boxes.oracle import (
    EPS,
    area,
    area_gradient,
    corners,
    from_corners,
    hull_gradient,
    hull_sides,
    intersection,
)
from ops._boxes.oracle import draw as draw_boxes


def draw(attrs, shapes, rng):
    return {"data": draw_boxes(rng, shapes["data"], attrs.format, 0),
            "truth": draw_boxes(rng, shapes["truth"], attrs.format, 1)}


def forward(attrs, data, truth):
    return {"output": loss(attrs.kind, corners(data, attrs.format), corners(truth, attrs.format))}


def loss(kind, a, b, alpha=None, v=None):
    """Return the loss of corners. CIoU's last term v and its weight alpha follow from the boxes where they are None."""
    shared, _ = intersection(a, b)
    union = area(a) + area(b) - shared
    iou = shared / (union + EPS)
    sides = hull_sides(a, b)
    if kind == "iou":
        return 1 - iou
    if kind == "giou":
        hull = sides[..., 0] * sides[..., 1]
        return 1 - iou + (hull - union) / (hull + EPS)
    distance = (a[..., :2] + a[..., 2:] - b[..., :2] - b[..., 2:]) / 2
    penalty = (distance ** 2).sum(-1) / ((sides ** 2).sum(-1) + EPS)
    if kind == "diou":
        return 1 - iou + penalty
    v = aspect_term(a, b) if v is None else v
    alpha = v / (1 - iou + v + EPS) if alpha is None else alpha
    return 1 - iou + penalty + alpha * v


def angle(boxes):
    """arctan(width / height): without a height pi/2 with the sign of the width, and 0 for a point."""
    width, height = boxes[..., 2] - boxes[..., 0], boxes[..., 3] - boxes[..., 1]
    flat = height == 0
    return np.where(flat, np.sign(width) * np.pi / 2, np.arctan(width / np.where(flat, 1, height)))


def aspect_term(a, b):
    """v of Zheng et al., equation 9."""
    return 4 / np.pi ** 2 * (angle(b) - angle(a)) ** 2


def weight_of(a, b):
    """Alpha of Zheng et al., equation 11, with torchvision's eps."""
    v = aspect_term(a, b)
    return v / (loss("iou", a, b) + v + EPS)


def backward(attrs, head, data, truth):
    a, b = corners(data, attrs.format), corners(truth, attrs.format)
    gradient = loss_gradient(attrs.kind, a, b) * head[..., None]
    return {"data": from_corners(gradient, attrs.format)}


def loss_gradient(kind, a, b):
    """Return the derivatives of the loss by a's corners; alpha is a constant."""
    shared, by_shared = intersection(a, b)
    by_union = area_gradient(a) - by_shared
    union = (area(a) + area(b) - shared)[..., None]
    gradient = -by_shared / (union + EPS) + shared[..., None] / (union + EPS) ** 2 * by_union
    sides = hull_sides(a, b)
    if kind == "giou":
        hull = sides.prod(-1, keepdims=True)
        by_hull = (union + EPS) / (hull + EPS) ** 2
        return gradient - by_union / (hull + EPS) + hull_gradient(a, b, by_hull * sides[..., ::-1])
    if kind in ("diou", "ciou"):
        diagonal = (sides ** 2).sum(-1, keepdims=True) + EPS
        distance = (a[..., :2] + a[..., 2:] - b[..., :2] - b[..., 2:]) / 2
        by_sides = -2 * sides * (distance ** 2).sum(-1, keepdims=True) / diagonal ** 2
        gradient = gradient + hull_gradient(a, b, by_sides) + np.tile(distance / diagonal, 2)
    if kind == "ciou":
        width, height = a[..., 2] - a[..., 0], a[..., 3] - a[..., 1]
        by_angle = -8 / np.pi ** 2 * weight_of(a, b) * (angle(b) - angle(a))
        slope = np.where(height == 0, 0, by_angle / np.where(height == 0, 1, width ** 2 + height ** 2))
        gradient = gradient + np.stack([-height, width, height, -width], axis=-1) * slope[..., None]
    return gradient
