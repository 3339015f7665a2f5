"""YOLOv2's output map, computed with MXNet's own operators. All of them can be exported to ONNX."""
from ...core.concat import constants
from ...core.emitter import Array
from .._softmax.reference import probabilities
from .contract import count

X, Y, WIDTH, HEIGHT, OBJECT, CLASSES = range(6)   # channels of an anchor; CLASSES is the first of its classes


def split(F, attrs, data: Array) -> Array:
    """``data``, (batch, anchors * (5 + classes), height, width), as (batch, anchors, 5 + classes, height, width)."""
    return F.reshape(data, shape=(0, -4, count(attrs), 5 + attrs.classes, 0, 0))


def channel(F, maps: Array, index: int) -> Array:
    """One of the 5 + classes channels, (batch, anchors, 1, height, width)."""
    return F.slice_axis(maps, axis=2, begin=index, end=index + 1)


def class_channels(F, attrs, maps: Array) -> Array:
    """The channels of the classes, (batch, anchors, classes, height, width)."""
    return F.slice_axis(maps, axis=2, begin=CLASSES, end=CLASSES + attrs.classes)


def grid(F, attrs, maps: Array) -> tuple[Array, ...]:
    """Constants of the grid, in the dtype of ``maps``. They broadcast against it.

    ``maps``: the result of :func:`split`. Returns ``columns, rows``, indices of the columns, (1, 1, 1, 1, W), and of
    the rows, (1, 1, 1, H, 1); ``width, height``, number of columns and rows, (1, 1, 1, 1, 1); ``anchor_w, anchor_h``,
    anchor sizes in cells, (1, A, 1, 1, 1).
    """
    plane = F.BlockGrad(channel(F, maps, X))
    columns = F.reshape(F.contrib.arange_like(plane, axis=4), shape=(1, 1, 1, 1, -1))
    rows = F.reshape(F.contrib.arange_like(plane, axis=3), shape=(1, 1, 1, -1, 1))
    width = F.slice_axis(columns, axis=4, begin=-1, end=None) + 1
    height = F.slice_axis(rows, axis=3, begin=-1, end=None) + 1
    zero = F.zeros_like(width)
    anchor_w = constants(F, zero, attrs.anchors[0::2], 1)
    anchor_h = constants(F, zero, attrs.anchors[1::2], 1)
    return columns, rows, width, height, anchor_w, anchor_h


def decode_boxes(F, grid_constants: tuple, x: Array, y: Array, w: Array, h: Array) -> tuple[Array, ...]:
    """Boxes in fractions of the image: centre x, centre y, width and height, each (B, A, 1, H, W).

    ``grid_constants`` are those of :func:`grid`, ``x`` and ``y`` channels after the sigmoid, ``w`` and ``h`` raw ones.
    """
    columns, rows, width, height, anchor_w, anchor_h = grid_constants
    return (F.broadcast_div(F.broadcast_add(x, columns), width),
            F.broadcast_div(F.broadcast_add(y, rows), height),
            scaled_exponential(F, w, F.broadcast_div(anchor_w, width)),
            scaled_exponential(F, h, F.broadcast_div(anchor_h, height)))


def scaled_exponential(F, logarithm: Array, size: Array) -> Array:
    """``exp(logarithm) * size`` as ``root * size * root``. In float16 the product may fit while the exponential does
    not."""
    root = F.exp(logarithm / 2)
    return F.broadcast_mul(root, size) * root


def class_probabilities(F, attrs, maps: Array) -> Array:
    """The class probabilities, (batch, anchors, classes, height, width)."""
    logits = class_channels(F, attrs, maps)
    if attrs.softmax:
        return probabilities(F, logits, 2)
    return F.sigmoid(logits)
