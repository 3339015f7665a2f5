"""region_decode: what a YOLOv2 map says: boxes, objectness and class probabilities.

``data`` is (B, A*(5+K), H, W), seen as (B, A, 5+K, H, W): for each of A anchors the channels x, y, w, h, objectness
and K classes. Anchors (aw, ah) are in cells. In column i and row j

``bx = (i + sigmoid(x)) / W``, ``by = (j + sigmoid(y)) / H``, ``bw = exp(w) * aw / W``, ``bh = exp(h) * ah / H``,

objectness is ``sigmoid(o)``, and the classes are a softmax over K, or, with ``softmax=False``, a sigmoid each. The box
is its centre and size, in fractions of the image; a class's probability is yet to be multiplied with the objectness.

``layout="boxes"`` puts out (B, A, H, W, 5+K), a row (bx, by, bw, bh, objectness, p_0, ...) per anchor and cell, which
``reshape((0, -1, 5 + K))`` lists in Darknet's order. ``layout="map"`` puts out Darknet's own layer output, in the
layout of ``data``: x, y, objectness and classes activated, w and h raw. Both have a gradient. float16 is computed in
float32. The builtin graph consists of operators that export to ONNX, and takes any H and W.

Work: forward and backward each read the map and write a tensor of its size; backward reads the output's gradient, too.
On a GPU one thread walks the classes of an anchor in a cell, and for a softmax it does so again and again: forward
reads the class logits three times, backward four times and their head gradients twice. What of that comes out of the
cache depends on the sizes. In ``layout="boxes"`` each thread has an output row of its own, 5+K long, so that
neighbouring threads' accesses lie as far apart: the transactions move more than these bytes. ``layout="map"`` has
neighbours next to each other on both sides.

Sources: Redmon and Farhadi, "YOLO9000" (2016), section 2 "direct location prediction"; pjreddie/darknet
``src/region_layer.c``, commit f6afaabc, recorded in ``tests/golden/region.npz``. Softmax trees (yolo9000) and boxes of
other than 4 coordinates are other operators.
"""
from ...core.backend import call
from .contract import OP

__all__ = ["region_decode"]


def region_decode(data, anchors, classes, softmax=True, layout="boxes", name=None):
    """Decode a YOLOv2 map.

    Parameters
    ----------
    data : NDArray or Symbol
        (B, A*(5+K), H, W), the last convolution's output; float16, float32 or float64.
    anchors : sequence of float
        Sizes of the A anchors in cells, above 0: (w0, h0, w1, h1, ...), or pairs.
    classes : int
        K, at least 1.
    softmax : bool, default True
        Whether a softmax makes class probabilities, or a sigmoid for each.
    layout : {'boxes', 'map'}, default 'boxes'
        A row per box, or Darknet's map of activations.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        (B, A, H, W, 5+K), the last axis (centre x, centre y, width, height, objectness, probabilities), the box in
        fractions of the image; with ``layout="map"`` the shape of ``data``. The dtype of ``data``.

    Raises
    ------
    OpError
        The channels are not A*(5+K), or an attribute is out of range.
    """
    return call(OP, locals())
