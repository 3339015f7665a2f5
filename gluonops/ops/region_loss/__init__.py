r"""region_loss: the loss of YOLOv2's region layer, per image.

``data`` is (B, A*(5+K), H, W). The page of :func:`~gluonops.ops.region_decode` describes its channels and the decoded
boxes. The activations are x, y, o (sigmoids), w, h (raw) and the class probabilities p. The loss of an image is the sum
of these:

- **Objectness without a match.** Every anchor in every cell gets the no-object loss, unless the IoU of its box with a
  ground truth is above ``thresh``:

  .. math::

      \frac{\mathrm{noobject\_scale}}{2} \, o^2

  While ``seen < warmup_images``, boxes are also regressed toward their priors:

  .. math::

      \frac{0.01}{2} \left((x - 0.5)^2 + (y - 0.5)^2 + w^2 + h^2\right)

- **Matching.** Every ground truth is matched to the cell of its centre. In this cell it is matched to the anchor with
  the most similar size. Without ``bias_match`` the sizes of the predicted boxes are compared instead. If several are
  equal, the first one is matched. For a matched prediction, the terms below replace those above. A later ground truth
  replaces an earlier one.
- **Box.** With ``box_loss="mse"``, the place :math:`(t_x, t_y)` of the ground truth in its cell, its size
  :math:`(b_w, b_h)`, and :math:`t_w = \log(b_w W / a_w)`:

  .. math::

      \mathrm{coord\_scale} \, \frac{2 - b_w b_h}{2}
      \left((x - t_x)^2 + (y - t_y)^2 + (w - t_w)^2 + (h - t_h)^2\right)

  With ``box_loss="giou"``: ``coord_scale`` times the loss ``giou`` of :func:`~gluonops.ops.iou_loss`. It gives more
  accurate boxes: its gradient does not become 0 when the error does.
- **Objectness of a match.** The target t is 1, or with ``rescore`` the IoU of the predicted box, as a constant:

  .. math::

      \frac{\mathrm{object\_scale}}{2} \, (o - t)^2

- **Class.** ``class_scale`` times the cross-entropy of p.

The gradient is the negative of Darknet's delta, times the slopes of the sigmoids and the head gradient. With GIoU,
delta is the negative derivative by the activations.

``parts=True`` also returns (B, 9): the four terms of the loss (coordinates, objectness at ground truths, objectness
elsewhere, classes), Darknet's cost (the sum of squared deltas), three sums over the ground truths (the IoU, IoU > 0.5
for recall, and the probability of the correct class), and the number of ground truths.

A row is invalid if it is neither zeros nor a box: NaN, a centre outside 0 to 1, w or h not above 0, ``w * h`` of 2 or
more, or a class that is not a whole number from 0 to K-1. An invalid row makes the loss, parts and gradient of its
image NaN. With ``GLUONOPS_CHECK_LABELS=1`` it raises an OpError that names image and box.

Sources
-------
Redmon and Farhadi, "YOLO9000" (2016); pjreddie/darknet ``src/region_layer.c``, commit f6afaabc, recorded in
``tests/golden/region.npz``; for GIoU: Rezatofighi et al., "Generalized Intersection over Union" (CVPR 2019). Softmax
trees (yolo9000) and boxes with a number of coordinates other than 4 are not supported.

Notes
-----
Two edge cases differ from Darknet. A centre at 1.0 is in the last cell (Darknet writes into the next row). A box
centred at x = 0 is a box (in Darknet it ends the list).

Without ``softmax``, if two ground truths match the same prediction, the classes of both count. (Darknet starts again if
the error of class 0 was exactly 0 in between. This operator does the same.)

Work: forward reads the map, but the classes only at ground truths, and writes the gradient, which has the size of the
map. Backward reads and writes the gradient once.
"""
from __future__ import annotations

from collections.abc import Sequence

import mxnet as mx

from ...backends.emitter import Array, call
from .._region.truths import with_rows
from .contract import OP


def region_loss(data: Array, truth: Array, seen: Array | None = None, *, anchors: Sequence, classes: int,
                object_scale: float = 5.0, noobject_scale: float = 1.0, coord_scale: float = 1.0,
                class_scale: float = 1.0, thresh: float = 0.6, rescore: bool = True, bias_match: bool = True,
                softmax: bool = True, warmup_images: int = 12800, box_loss: str = "mse", parts: bool = False,
                name: str | None = None) -> Array | tuple:
    """Compute the loss of YOLOv2's region layer for each image.

    Examples
    --------
    >>> data = mx.nd.zeros((1, 2 * (5 + 3), 4, 4))    # 2 anchors, 3 classes, 4 x 4 cells
    >>> truth = mx.nd.array([[[0.4, 0.6, 0.6, 0.3, 2], [0, 0, 0, 0, 0]]])
    >>> data.attach_grad()
    >>> with mx.autograd.record():
    ...     loss = gops.ops.region_loss(data, truth, anchors=(1, 1, 2, 1), classes=3)
    >>> loss.backward()
    >>> print(loss.asnumpy().round(3))
    [5.147]
    >>> print(data.grad[0, 8:, 2, 1].asnumpy().round(3))    # the anchor and the cell that match
    [-0.046  0.045 -0.332 -0.332 -0.243  0.333  0.333 -0.667]
    """
    truth = with_rows(truth)
    if seen is None:
        warmup_images = 0
        if isinstance(data, mx.sym.Symbol):
            seen = mx.sym.zeros(1)
        else:
            seen = mx.nd.zeros(1, getattr(truth, "context", None))
    return call(OP, data, truth, seen, anchors=anchors, classes=classes, object_scale=object_scale,
                noobject_scale=noobject_scale, coord_scale=coord_scale, class_scale=class_scale, thresh=thresh,
                rescore=rescore, bias_match=bias_match, softmax=softmax, warmup_images=warmup_images, box_loss=box_loss,
                parts=parts, name=name)
