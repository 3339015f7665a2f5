"""Rows of ground truth, (x, y, w, h, class), and the overlap of boxes.

A row is a box, padding (zeros), or invalid. :func:`is_box` and :func:`is_padding` say which. They take NumPy arrays,
NDArrays and Symbols alike: a product of comparisons is their logical and.
"""
import collections

Extent = collections.namedtuple("Extent", "overlap overlap_by_center overlap_by_size hull hull_by_center hull_by_size")


def is_padding(x, y, w, h, class_id):
    return (x == 0) * (y == 0) * (w == 0) * (h == 0) * (class_id == 0)


def is_box(x, y, w, h, class_id, classes, floor):
    """Whether rows are boxes: centre in the image, some area, a class from 0 to ``classes - 1``. NaN is never a box.

    ``floor`` is ``numpy.floor``, ``mx.nd.floor`` or ``mx.sym.floor``.
    """
    centre_inside = (x >= 0) * (x <= 1) * (y >= 0) * (y <= 1)
    has_area = (w > 0) * (h > 0) * (w * h < 2)
    is_class = (class_id >= 0) * (class_id < classes) * (floor(class_id) == class_id)
    return centre_inside * has_area * is_class


def valid_mask(F, attrs, fields):
    """Which rows are boxes.

    Parameters
    ----------
    fields : sequence of NDArray or Symbol
        x, y, w, h and the class, each (B, T, 1, 1, 1).

    Returns
    -------
    valid : NDArray or Symbol
        (B, T, 1, 1, 1), 1 or 0.
    nan_if_invalid : NDArray or Symbol
        (B,), NaN for an image with an invalid row, else 1.
    """
    valid = is_box(*fields, attrs.classes, F.floor)
    invalid = F.max((1 - valid) * (1 - is_padding(*fields)), axis=(1, 2, 3, 4))
    zero = F.zeros_like(invalid)
    return valid, F.where(invalid, zero * float("nan"), zero + 1)


def iou(F, first, second):
    """Intersection over union of boxes (x, y, w, h) that broadcast; 0 where they do not overlap."""
    intersection = _overlap(F, first, second, 0, 2) * _overlap(F, first, second, 1, 3)
    areas = F.broadcast_add(first[2] * first[3], second[2] * second[3])
    union = F.broadcast_sub(areas, intersection)
    return F.where(intersection > 0, intersection / union, F.zeros_like(intersection))


def giou_loss(F, box, truth):
    """1 - GIoU of boxes (x, y, w, h), and its derivatives with respect to those of ``box``, four of the same shape.

    Edges that coincide count as those of ``box``, in the derivatives as in those of MXNet's minimum and maximum.
    """
    across, down = (_extent(F, box, truth, *axis) for axis in ((0, 2), (1, 3)))
    overlaps = (across.overlap > 0) * (down.overlap > 0)
    intersection = F.relu(across.overlap) * F.relu(down.overlap)
    union = box[2] * box[3] + truth[2] * truth[3] - intersection
    hull = across.hull * down.hull
    overlap_share, hull_share = intersection / union, union / hull

    by_area = (overlap_share - hull_share) / union
    by_hull = hull_share / hull
    by_intersection = F.where(overlaps, -1 / union - by_area, F.zeros_like(union))
    by_overlaps = by_intersection * down.overlap, by_intersection * across.overlap
    by_hulls = by_hull * down.hull, by_hull * across.hull
    sides = by_area * box[3], by_area * box[2]
    by_centers = [overlap * extent.overlap_by_center + outside * extent.hull_by_center
                  for extent, overlap, outside in zip((across, down), by_overlaps, by_hulls)]
    by_sizes = [overlap * extent.overlap_by_size + outside * extent.hull_by_size + side
                for extent, overlap, outside, side in zip((across, down), by_overlaps, by_hulls, sides)]
    return 2 - overlap_share - hull_share, [F.BlockGrad(value) for value in by_centers + by_sizes]


def _extent(F, box, truth, center, size):
    """How far two boxes overlap along an axis, their hull there, and the derivatives by the box's centre and size."""
    low, other_low = box[center] - box[size] / 2, truth[center] - truth[size] / 2
    high, other_high = box[center] + box[size] / 2, truth[center] + truth[size] / 2
    low_inside, high_inside = low >= other_low, high <= other_high
    low_outside, high_outside = low <= other_low, high >= other_high
    return Extent(F.broadcast_minimum(high, other_high) - F.broadcast_maximum(low, other_low),
                  high_inside - low_inside, (high_inside + low_inside) / 2,
                  F.broadcast_maximum(high, other_high) - F.broadcast_minimum(low, other_low),
                  high_outside - low_outside, (high_outside + low_outside) / 2)


def _overlap(F, first, second, center, size):
    """How far boxes overlap in one direction; 0 where they do not."""
    low = F.broadcast_maximum(first[center] - first[size] / 2, second[center] - second[size] / 2)
    high = F.broadcast_minimum(first[center] + first[size] / 2, second[center] + second[size] / 2)
    return F.relu(high - low)
