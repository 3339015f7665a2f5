"""Which anchor and cell of YOLOv2's map every ground-truth box is assigned to, and its targets.

Letters are sizes: B images, T rows of ground truth, A anchors, H rows, W columns, K classes. Nothing has a gradient.
"""
import collections

from .boxes import iou, valid_mask
from .reference import decode_boxes

# For every anchor and cell, (B, A, 1, H, W):
#     assigned: whether a box is assigned to it; max_iou: the largest IoU of its predicted box with any box.
#     x, y, w, h, scale, iou: targets of the last box assigned to it, the weight of their errors, and its IoU.
# For every anchor, class and cell, (B, A, K, H, W):
#     classes: the class targets.
# For every image, (B,):
#     nan_if_invalid: NaN where a row is invalid, else 1.
#     total_iou, total_recall, total_probability, count: sums over its boxes.
Assignment = collections.namedtuple("Assignment", "assigned max_iou x y w h scale iou classes nan_if_invalid total_iou "
                                                  "total_recall total_probability count")


def assign(F, attrs, grid_constants, activations, p, truth):
    """Assign every ground-truth box to an anchor and a cell.

    Parameters
    ----------
    grid_constants : tuple
        As :func:`gluonops.ops._region.reference.grid` gives it.
    activations : sequence of NDArray or Symbol
        x and y after the sigmoid, w and h raw, each (B, A, 1, H, W).
    p : NDArray or Symbol
        Class probabilities, (B, A, K, H, W).
    truth : NDArray or Symbol
        (B, T, 5).

    Returns
    -------
    Assignment
    """
    columns, rows, width, height, anchor_w, anchor_h = grid_constants
    fields = [F.reshape(F.slice_axis(truth, axis=2, begin=i, end=i + 1), shape=(0, 0, 1, 1, 1)) for i in range(5)]
    valid, nan_if_invalid = valid_mask(F, attrs, fields)
    x, y, w, h, class_id = (F.where(valid, field, F.zeros_like(field)) for field in fields)   # B, T, 1, 1, 1

    # The cell of the centre.
    center_x, center_y = F.broadcast_mul(x, width), F.broadcast_mul(y, height)
    column = F.broadcast_minimum(F.floor(center_x), width - 1)
    row = F.broadcast_minimum(F.floor(center_y), height - 1)

    # Every predicted box with every ground-truth box: (B, T, A, H, W). Axis 2 of the map, of size 1, takes the anchors.
    predicted = [F.swapaxes(value, dim1=1, dim2=2) for value in decode_boxes(F, grid_constants, *activations)]
    ious = iou(F, predicted, (x, y, w, h))
    image, order = _indices(F, truth, _flat(F, x))                                             # B, T
    sizes = _anchor_sizes(F, attrs, grid_constants, predicted, (image, _flat(F, row), _flat(F, column)))
    anchor = _best_anchor(F, sizes, w, h)                                                      # B, T, 1, 1, 1
    place = [_flat(F, index) for index in (anchor, row, column)]
    own_iou = F.gather_nd(ious, F.stack(image, order, *place, axis=0))
    own_probability = F.gather_nd(p, F.stack(image, place[0], _flat(F, class_id), *place[1:], axis=0))

    last = _last_box(F, grid_constants, anchor, row, column, valid * F.reshape(order + 1, shape=(0, 0, 1, 1, 1)))
    classes = _class_targets(F, attrs, p, class_id, place, image, order, valid)                # B, T, K
    padding = 1 - valid   # keeps the logarithms of padding finite
    target_w = F.log(F.broadcast_div(F.broadcast_mul(w + padding, width), _take(F, anchor_w, anchor)))
    target_h = F.log(F.broadcast_div(F.broadcast_mul(h + padding, height), _take(F, anchor_h, anchor)))
    scale = attrs.coord_scale * (2 - w * h)
    targets = [center_x - column, center_y - row, target_w, target_h, scale]
    targets = [F.reshape(value, shape=(0, 0, 1)) for value in targets]
    targets = F.concat(*targets, F.expand_dims(own_iou, axis=2), classes, dim=2)               # B, T, 6+K
    targets = _of_last_box(F, targets, last)                                                   # B, A, 6+K, H, W

    is_box = _flat(F, valid)
    totals = [F.sum(is_box * value, axis=1) for value in (own_iou, own_iou > 0.5, own_probability)]
    return Assignment(F.expand_dims(last, axis=2) > 0, F.expand_dims(F.max(ious, axis=1), axis=2),
                      *(F.slice_axis(targets, axis=2, begin=i, end=i + 1) for i in range(6)),
                      F.slice_axis(targets, axis=2, begin=6, end=None), nan_if_invalid, *totals, F.sum(is_box, axis=1))


def _flat(F, value):
    """(B, T, 1, 1, 1) as (B, T)."""
    return F.reshape(value, shape=(0, 0))


def _take(F, sizes, anchor):
    """The anchors' sizes (1, A, 1, 1, 1) at the indices ``anchor``, (B, T, 1, 1, 1)."""
    return F.take(F.reshape(sizes, shape=(-1,)), anchor)


def _indices(F, truth, like):
    """The index of every row's image, and of the row in its image, (B, T)."""
    image = F.reshape(F.contrib.arange_like(truth, axis=0), shape=(-1, 1))
    order = F.reshape(F.contrib.arange_like(truth, axis=1), shape=(1, -1))
    return F.broadcast_like(image, like), F.broadcast_like(order, like)


def _anchor_sizes(F, attrs, grid_constants, predicted, cell):
    """The sizes that compete for a box.

    They are the anchors', (1, 1, A, 1, 1), or those predicted in the box's cell, (B, T, A, 1, 1).
    """
    _, _, width, height, anchor_w, anchor_h = grid_constants
    if attrs.bias_match:
        return [F.swapaxes(F.broadcast_div(size, count), dim1=1, dim2=2)
                for size, count in ((anchor_w, width), (anchor_h, height))]
    cell = F.stack(*cell, axis=0)
    return [F.reshape(F.gather_nd(F.transpose(size, axes=(0, 3, 4, 2, 1)), cell), shape=(0, 0, 0, 1, 1))
            for size in predicted[2:]]


def _best_anchor(F, sizes, w, h):
    """The anchor whose size has the largest IoU with the box's."""
    origin, zero = F.zeros_like(sizes[0]), F.zeros_like(w)
    return F.argmax(iou(F, (origin, origin, *sizes), (zero, zero, w, h)), axis=2, keepdims=True)


def _last_box(F, grid_constants, anchor, row, column, number):
    """The last box assigned to every anchor and cell, (B, A, H, W); ``number`` counts boxes from 1, and 0 is none."""
    columns, rows, _, _, anchor_w, _ = grid_constants
    anchors = F.swapaxes(F.reshape(F.contrib.arange_like(anchor_w, axis=1), shape=(1, -1, 1, 1, 1)), dim1=1, dim2=2)
    numbers = F.broadcast_mul(F.broadcast_equal(anchors, anchor), number)
    numbers = F.broadcast_mul(numbers, F.broadcast_equal(rows, row))
    numbers = F.broadcast_mul(numbers, F.broadcast_equal(columns, column))
    return F.max(numbers, axis=1)


def _of_last_box(F, values, last):
    """The values (B, T, N) of the last box of every anchor and cell, (B, A, N, H, W); row 0's where there is none."""
    image = F.broadcast_like(F.reshape(F.contrib.arange_like(last, axis=0), shape=(-1, 1, 1, 1)), last)
    values = F.gather_nd(values, F.stack(image, F.relu(last - 1), axis=0))
    return F.transpose(values, axes=(0, 1, 4, 2, 3))


def _class_targets(F, attrs, p, class_id, place, image, order, valid):
    """The class targets of every box, (B, T, K).

    With a softmax they are the box's own class. With sigmoids the boxes of one place add up their classes, until the
    error of class 0 there is exactly 0: then Darknet starts anew. It is 0 where the sigmoid gives exactly the target so
    far.
    """
    classes = F.reshape(F.contrib.arange_like(p, axis=2), shape=(1, 1, -1))
    own = F.broadcast_equal(F.reshape(class_id, shape=(0, 0, 1)), classes)
    if attrs.softmax:
        return own

    def pairwise(compare, values):
        return compare(F.expand_dims(values, axis=2), F.expand_dims(values, axis=1))           # B, T, T: (one, other)

    is_box = _flat(F, valid)
    same_place = F.broadcast_mul(F.expand_dims(is_box, axis=2), F.expand_dims(is_box, axis=1))
    for index in place:
        same_place = same_place * pairwise(F.broadcast_equal, index)
    earlier = same_place * pairwise(F.broadcast_greater, order)

    # How many boxes of class 0 each place had before a box, and the probability of class 0 there.
    is_class_0 = F.expand_dims(_flat(F, class_id) == 0, axis=1)
    earlier_0 = F.sum(F.broadcast_mul(earlier, is_class_0), axis=2)
    probability_0 = F.gather_nd(p, F.stack(image, place[0], F.zeros_like(image), *place[1:], axis=0))
    probability_0 = F.expand_dims(probability_0, axis=2)

    # An earlier box does not count where a restart lies between the two.
    no_class_0_so_far = F.expand_dims((earlier_0 + F.reshape(is_class_0, shape=(0, -1))) == 0, axis=1)
    restart_at_1 = F.broadcast_mul(probability_0 == 1, 1 - pairwise(F.broadcast_equal, earlier_0))
    restart_at_0 = F.broadcast_mul(probability_0 == 0, no_class_0_so_far)
    counts = earlier * (1 - (restart_at_1 + restart_at_0)) + same_place * pairwise(F.broadcast_equal, order)
    return F.max(F.broadcast_mul(F.expand_dims(counts, axis=3), F.expand_dims(own, axis=1)), axis=2)
