"""Rows of ground truth, (x, y, w, h, class), and the IoU of boxes."""
from collections.abc import Sequence

import mxnet as mx

from ...backends.emitter import Array


def with_rows(truth: Array) -> Array:
    """Return ground truths, with a row of padding if they have no rows: MXNet's own operators fail on such tensors."""
    if isinstance(truth, mx.nd.NDArray) and truth.shape[1:] == (0, 5):
        return mx.nd.zeros((truth.shape[0], 1, 5), truth.context, truth.dtype)
    return truth


def valid_mask(F, attrs, fields: Sequence[Array]) -> tuple[Array, Array]:
    """Return which rows are boxes, and which images have an invalid row.

    A row is a box, padding (zeros), or invalid. A box has its centre in the image, w and h above 0, ``w * h`` below 2,
    and a class from 0 to ``classes - 1``. The product of comparisons is their logical and, and a NaN makes it 0.

    ``fields`` are x, y, w, h and the class id, (B, T, 1, 1, 1) each. The results are ``valid``, (B, T, 1, 1, 1), which
    is 1 or 0, and ``nan_if_invalid``, (B,), which is NaN for an image with an invalid row, and otherwise 1.
    """
    x, y, w, h, class_id = fields
    centre_inside = (x >= 0) * (x <= 1) * (y >= 0) * (y <= 1)
    has_area = (w > 0) * (h > 0) * (w * h < 2)
    is_class = (class_id >= 0) * (class_id < attrs.classes) * (F.floor(class_id) == class_id)
    is_padding = (x == 0) * (y == 0) * (w == 0) * (h == 0) * (class_id == 0)
    valid = centre_inside * has_area * is_class
    invalid = F.max((1 - valid) * (1 - is_padding), axis=(1, 2, 3, 4))
    zero = F.zeros_like(invalid)
    return valid, F.where(invalid, zero * float("nan"), zero + 1)


def iou(F, first: Sequence[Array], second: Sequence[Array]) -> Array:
    """Return the intersection over union of boxes, which is 0 for boxes that do not overlap.

    Each box is (x, y, w, h): its centre and size. The shapes of the two broadcast.
    """
    x, y, w, h = first
    other_x, other_y, other_w, other_h = second
    intersection = _overlap(F, x, w, other_x, other_w) * _overlap(F, y, h, other_y, other_h)
    areas = F.broadcast_add(w * h, other_w * other_h)
    union = F.broadcast_sub(areas, intersection)
    return F.where(intersection > 0, intersection / union, F.zeros_like(intersection))


def _overlap(F, center, size, other_center, other_size):
    """Return the length of the overlap of two intervals, which is 0 if they do not overlap."""
    low = F.broadcast_maximum(center - size / 2, other_center - other_size / 2)
    high = F.broadcast_minimum(center + size / 2, other_center + other_size / 2)
    return F.relu(high - low)
