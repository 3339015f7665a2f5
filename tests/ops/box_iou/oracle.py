"""box_iou: the intersection over union of every pair of boxes."""
import numpy as np
from ops._boxes.oracle import area, area_gradient, corners, from_corners, intersection
from ops._boxes.oracle import draw as draw_boxes


def draw(attrs, shapes, rng):
    return {"lhs": draw_boxes(rng, shapes["lhs"], attrs.format, 0),
            "rhs": draw_boxes(rng, shapes["rhs"], attrs.format, 1)}


def pairs(attrs, lhs, rhs):
    """Return the corners of every pair, (..., N, 1, 4) and (..., 1, M, 4)."""
    return corners(lhs, attrs.format)[..., :, None, :], corners(rhs, attrs.format)[..., None, :, :]


def union_of(a, b, shared):
    """Return the area of the union. 1 in place of 0, where the intersection is 0 as well."""
    union = area(a) + area(b) - shared
    return np.where(union == 0, 1, union)


def forward(attrs, lhs, rhs):
    a, b = pairs(attrs, lhs, rhs)
    shared, _ = intersection(a, b)
    return {"output": shared / union_of(a, b, shared)}


def backward(attrs, head, lhs, rhs):
    a, b = pairs(attrs, lhs, rhs)
    shared, by_shared = intersection(a, b)
    union = union_of(a, b, shared)
    # Where a's end does not count, b's does. A width or a height is what the end of a side is multiplied by.
    low, high = np.maximum(a[..., :2], b[..., :2]), np.minimum(a[..., 2:], b[..., 2:])
    sides = (high - low)[..., ::-1] * (shared > 0)[..., None]
    both = np.concatenate([-sides, sides], axis=-1)

    def gradient(boxes, by_own, axis):
        by_union = area_gradient(boxes) - by_own
        by_iou = by_own / union[..., None] - (shared / union ** 2)[..., None] * by_union
        return from_corners((head[..., None] * by_iou).sum(axis), attrs.format)

    return {"lhs": gradient(a, by_shared, -2), "rhs": gradient(b, both - by_shared, -3)}
