"""YOLOv2's output map, computed with MXNet's own operators. All of them can be exported to ONNX."""
from ...backends.concat import constants
from ...backends.emitter import Array
from .contract import count

X, Y, WIDTH, HEIGHT, OBJECT, CLASSES = range(6)   # channels of an anchor; CLASSES is the first of its classes


def split(F, attrs, data: Array) -> Array:
    """Return (batch, anchors * (5 + classes), height, width) as (batch, anchors, 5 + classes, height, width)."""
    return F.reshape(data, shape=(0, -4, count(attrs), 5 + attrs.classes, 0, 0))


def channel(F, maps: Array, index: int) -> Array:
    """Return one of the 5 + classes channels, (batch, anchors, 1, height, width)."""
    return F.slice_axis(maps, axis=2, begin=index, end=index + 1)


def class_channels(F, attrs, maps: Array) -> Array:
    """Return the channels of the classes, (batch, anchors, classes, height, width)."""
    return F.slice_axis(maps, axis=2, begin=CLASSES, end=CLASSES + attrs.classes)


def grid(F, attrs, maps: Array) -> tuple[Array, ...]:
    """Return the constants of the grid, in the dtype of ``maps``. They broadcast against it.

    ``maps`` is the result of :func:`split`. The constants are

    - ``columns``, (1, 1, 1, 1, W), and ``rows``, (1, 1, 1, H, 1): the indices of the columns and the rows.
    - ``width`` and ``height``, (1, 1, 1, 1, 1): the numbers of columns and rows.
    - ``anchor_w`` and ``anchor_h``, (1, A, 1, 1, 1): the sizes of the anchors in cells.
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
