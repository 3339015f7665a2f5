"""Which anchor and cell every truth of a YOLOv2 map chooses, and what it asks for there, in MXNet's own operators.

Letters are the sizes: B images, T truths, A anchors, H rows, W columns, K classes. Nothing here has a gradient.
"""
import collections

# What the truths ask for. (B, A, 1, H, W): claimed (a truth chose this place), overlap (the largest IoU with a truth)
# and the values of the last truth that chose it: x, y, w, h, scale, iou; (B, A, K, H, W): classes. (B,): judgement (NaN
# for an image with a row that is no box, else 1), and over its truths sums of iou, recall and probability, and count.
Match = collections.namedtuple("Match", "claimed overlap x y w h scale iou classes judgement total_iou total_recall "
                                        "total_probability count")


def match(F, attrs, constants, out, p, truth):
    """Let the truths choose.

    Parameters
    ----------
    constants : tuple
        As :func:`gluonops.ops.region_decode.reference.grid` gives it.
    out, p : sequence of NDArray or Symbol
        Activations of x, y, w, h, each (B, A, 1, H, W), and (B, A, K, H, W).
    truth : NDArray or Symbol
        (B, T, 5).

    Returns
    -------
    Match
    """
    columns, rows, width, height, anchor_w, anchor_h = constants
    fields = [F.reshape(F.slice_axis(truth, axis=2, begin=i, end=i + 1), shape=(0, 0, 1, 1, 1)) for i in range(5)]
    good, judgement = _judge(F, attrs, fields)
    x, y, w, h, named = (F.where(good, field, F.zeros_like(field)) for field in fields)     # B, T, 1, 1, 1
    across, down = F.broadcast_mul(x, width), F.broadcast_mul(y, height)
    i = F.broadcast_minimum(F.floor(across), width - 1)
    j = F.broadcast_minimum(F.floor(down), height - 1)

    # Every box with every truth: (B, T, A, H, W). Axis 2 of the map has size 1 and takes the anchors.
    box = [F.swapaxes(value, dim1=1, dim2=2) for value in (
        F.broadcast_div(F.broadcast_add(out[0], columns), width),
        F.broadcast_div(F.broadcast_add(out[1], rows), height),
        F.broadcast_mul(F.exp(out[2]), F.broadcast_div(anchor_w, width)),
        F.broadcast_mul(F.exp(out[3]), F.broadcast_div(anchor_h, height)))]
    ious = _iou(F, box, (x, y, w, h))

    batch, order = (F.broadcast_like(F.reshape(F.contrib.arange_like(truth, axis=axis), shape=shape), _flat(F, x))
                    for axis, shape in ((0, (-1, 1)), (1, (1, -1))))                         # B, T
    if attrs.bias_match:
        sizes = [F.swapaxes(F.broadcast_div(size, count), dim1=1, dim2=2)
                 for size, count in ((anchor_w, width), (anchor_h, height))]                 # 1, 1, A, 1, 1
    else:
        cell = F.stack(batch, _flat(F, j), _flat(F, i), axis=0)
        sizes = [F.reshape(F.gather_nd(F.transpose(size, axes=(0, 3, 4, 2, 1)), cell), shape=(0, 0, 0, 1, 1))
                 for size in box[2:]]                                                        # B, T, A, 1, 1
    middle, zero = F.zeros_like(sizes[0]), F.zeros_like(w)
    n = F.argmax(_iou(F, (middle, middle, *sizes), (zero, zero, w, h)), axis=2, keepdims=True)
    places = [_flat(F, index) for index in (n, j, i)]
    iou = F.gather_nd(ious, F.stack(batch, order, *places, axis=0))
    probability = F.gather_nd(p, F.stack(batch, places[0], _flat(F, named), *places[1:], axis=0))

    # The last truth that chose a place, counted from 1.
    anchors = F.swapaxes(F.reshape(F.contrib.arange_like(anchor_w, axis=1), shape=(1, -1, 1, 1, 1)), dim1=1, dim2=2)
    number = good * F.reshape(order + 1, shape=(0, 0, 1, 1, 1))
    chosen = F.broadcast_mul(F.broadcast_mul(F.broadcast_equal(anchors, n), number), F.broadcast_equal(rows, j))
    chosen = F.broadcast_mul(chosen, F.broadcast_equal(columns, i))
    last = F.max(chosen, axis=1)                                                             # B, A, H, W
    hot = _classes(F, attrs, p, named, places, batch, order, good)                           # B, T, K
    padding = 1 - good                                                                       # its logarithms are finite
    asked = [across - i, down - j, F.log(F.broadcast_div(F.broadcast_mul(w + padding, width), _of(F, anchor_w, n))),
             F.log(F.broadcast_div(F.broadcast_mul(h + padding, height), _of(F, anchor_h, n))),
             attrs.coord_scale * (2 - w * h)]
    table = F.concat(*[F.reshape(value, shape=(0, 0, 1)) for value in asked], F.expand_dims(iou, axis=2), hot, dim=2)
    image = F.broadcast_like(F.reshape(F.contrib.arange_like(last, axis=0), shape=(-1, 1, 1, 1)), last)
    found = F.gather_nd(table, F.stack(image, F.relu(last - 1), axis=0))
    found = F.transpose(found, axes=(0, 1, 4, 2, 3))                                         # B, A, 6+K, H, W
    counts = _flat(F, good)
    return Match(F.expand_dims(last, axis=2) > 0, F.expand_dims(F.max(ious, axis=1), axis=2),
                 *(F.slice_axis(found, axis=2, begin=k, end=k + 1) for k in range(6)),
                 F.slice_axis(found, axis=2, begin=6, end=None), judgement,
                 *(F.sum(counts * value, axis=1) for value in (iou, iou > 0.5, probability)), F.sum(counts, axis=1))


def _judge(F, attrs, fields):
    """Which rows are boxes, as 1 and 0 in (B, T, 1, 1, 1), and NaN for every image with a row that is none, in (B,)."""
    x, y, w, h, named = fields
    good = (x >= 0) * (x <= 1) * (y >= 0) * (y <= 1) * (w > 0) * (h > 0) * (w * h < 2)
    good = good * (named >= 0) * (named < attrs.classes) * (F.floor(named) == named)
    padding = (x == 0) * (y == 0) * (w == 0) * (h == 0) * (named == 0)
    bad = F.max((1 - good) * (1 - padding), axis=(1, 2, 3, 4))
    zero = F.zeros_like(bad)
    return good, F.where(bad, zero * float("nan"), zero + 1)


def _flat(F, value):
    return F.reshape(value, shape=(0, 0))


def _of(F, sizes, n):
    """The anchors' sizes (1, A, 1, 1, 1) at their indices (B, T, 1, 1, 1)."""
    return F.take(F.reshape(sizes, shape=(-1,)), n)


def _iou(F, first, second):
    """Of boxes (x, y, w, h) that broadcast; 0 where they do not overlap."""
    sides = []
    for center, size in ((0, 2), (1, 3)):
        low = F.broadcast_maximum(first[center] - first[size] / 2, second[center] - second[size] / 2)
        high = F.broadcast_minimum(first[center] + first[size] / 2, second[center] + second[size] / 2)
        sides.append(F.relu(high - low))
    common = sides[0] * sides[1]
    union = F.broadcast_add(first[2] * first[3], second[2] * second[3])
    return F.where(common > 0, common / F.broadcast_sub(union, common), F.zeros_like(common))


def _classes(F, attrs, p, named, places, batch, order, good):
    """The class targets of every truth, (B, T, K).

    With sigmoids, truths at one place add up their classes, as long as the error of class 0 there is not exactly 0:
    that makes Darknet start anew. It is 0 where the sigmoid gives exactly what the truths so far ask for.
    """
    classes = F.reshape(F.contrib.arange_like(p, axis=2), shape=(1, 1, -1))
    own = F.broadcast_equal(F.reshape(named, shape=(0, 0, 1)), classes)
    if attrs.softmax:
        return own

    def pairs(compare, values):
        return compare(F.expand_dims(values, axis=2), F.expand_dims(values, axis=1))        # B, T, T: (one, other)

    same = F.broadcast_mul(F.expand_dims(_flat(F, good), axis=2), F.expand_dims(_flat(F, good), axis=1))
    for index in places:
        same = same * pairs(F.broadcast_equal, index)
    before = same * pairs(F.broadcast_greater, order)
    zeros = F.expand_dims(_flat(F, named) == 0, axis=1)
    earlier = F.sum(F.broadcast_mul(before, zeros), axis=2)                                 # of class 0, at this place
    first = F.gather_nd(p, F.stack(batch, places[0], F.zeros_like(batch), *places[1:], axis=0))
    first = F.expand_dims(first, axis=2)
    without = F.expand_dims((earlier + F.reshape(zeros, shape=(0, -1))) == 0, axis=1)       # class 0 up to there
    anew = F.broadcast_mul(first == 1, 1 - pairs(F.broadcast_equal, earlier)) + F.broadcast_mul(first == 0, without)
    counts = before * (1 - anew) + same * pairs(F.broadcast_equal, order)
    return F.max(F.broadcast_mul(F.expand_dims(counts, axis=3), F.expand_dims(own, axis=1)), axis=2)
