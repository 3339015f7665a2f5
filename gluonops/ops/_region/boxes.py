"""Rows of ground truth, (x, y, w, h, class), and the overlap of boxes.

A row is a box, padding (zeros), or invalid. :func:`is_box` and :func:`is_padding` say which. They take NumPy arrays,
NDArrays and Symbols alike: a product of comparisons is their logical and.
"""


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


def _overlap(F, first, second, center, size):
    """How far boxes overlap in one direction; 0 where they do not."""
    low = F.broadcast_maximum(first[center] - first[size] / 2, second[center] - second[size] / 2)
    high = F.broadcast_minimum(first[center] + first[size] / 2, second[center] + second[size] / 2)
    return F.relu(high - low)
