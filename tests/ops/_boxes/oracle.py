"""Boxes in float64, from the papers' formulas and torchvision's constants. Boxes are (..., 4)."""
import numpy as np

EPS = 1e-7
GRID = 32   # coordinates are multiples of 1 / GRID, which float16 holds


def corners(boxes, box_format):
    """Return the boxes as (xmin, ymin, xmax, ymax)."""
    if box_format == "corner":
        return boxes
    center, size = boxes[..., :2], boxes[..., 2:]
    return np.concatenate([center - size / 2, center + size / 2], axis=-1)


def from_corners(gradient, box_format):
    """Return the gradient of the boxes' four numbers, from that of their corners."""
    if box_format == "corner":
        return gradient
    low, high = gradient[..., :2], gradient[..., 2:]
    return np.concatenate([low + high, (high - low) / 2], axis=-1)


def area(boxes):
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def area_gradient(boxes):
    width, height = boxes[..., 2] - boxes[..., 0], boxes[..., 3] - boxes[..., 1]
    return np.stack([-height, -width, height, width], axis=-1)


def intersection(a, b):
    """Return the intersections of corners, and their derivatives by a's. Ends that coincide count as a's."""
    low, high = np.maximum(a[..., :2], b[..., :2]), np.minimum(a[..., 2:], b[..., 2:])
    width, height = np.moveaxis(high - low, -1, 0)
    overlaps = (width > 0) & (height > 0)
    sides = np.stack([height, width], axis=-1)   # the gradient of an area with respect to a side's end
    of_a = np.concatenate([-sides * (a[..., :2] >= b[..., :2]), sides * (a[..., 2:] <= b[..., 2:])], axis=-1)
    return np.where(overlaps, width * height, 0 * (width + height)), np.where(overlaps[..., None], of_a, 0)


def hull_sides(a, b):
    """Width and height of the smallest box around both, (..., 2)."""
    return np.maximum(a[..., 2:], b[..., 2:]) - np.minimum(a[..., :2], b[..., :2])


def hull_gradient(a, b, by_sides):
    """Return the gradient of a's corners, from the derivatives by the hull's sides."""
    return np.concatenate([-by_sides * (a[..., :2] <= b[..., :2]), by_sides * (a[..., 2:] >= b[..., 2:])], axis=-1)


def draw(rng, shape, box_format, offset):
    """Random boxes. Those of different offsets (0 or 1) have no end in common."""
    steps = 2 * np.sort(rng.randint(-2 * GRID, 2 * GRID, (2, *shape[:-1], 2)), axis=0)
    steps[1] += 2 * (steps[0] == steps[1]) + GRID // 4   # some width and height
    low, high = (steps + offset) / GRID
    if box_format == "corner":
        return np.concatenate([low, high], axis=-1)
    return np.concatenate([(low + high) / 2, high - low], axis=-1)
