r"""yolo_loss: the loss of one head of YOLOv3, YOLOv4 or YOLOv7, per image.

``data`` is (B, A*(5+K), H, W), as for :func:`~gluonops.ops.region_decode` without its softmax. The activations are x,
y, o and the class probabilities p (sigmoids), and w, h (raw). The predicted box in column i and row j is, with s =
``scale_x_y`` and the anchor :math:`(a_w, a_h)`,

.. math::

    b_x = \frac{i + s \, x - (s - 1) / 2}{W} \qquad b_y = \frac{j + s \, y - (s - 1) / 2}{H} \qquad
    b_w = \frac{e^w a_w}{W} \qquad b_h = \frac{e^h a_h}{H}

With ``new_coords`` (YOLOv7, scaled YOLOv4) data is activated already, and :math:`b_w = 4 w^2 a_w / W`. The loss of an
image is the sum of the terms below. They use the cross-entropy of a number a with a target t, which with
``new_coords`` is :math:`(a - t)^2 / 2`:

.. math::

    c(a, t) = -t \log a - (1 - t) \log(1 - a)

- **Matching.** Every ground truth is matched to the cell of its centre, and to the anchor with the most similar size,
  by the IoU. If that is one of ``other_anchors``, another head takes it. With ``iou_thresh`` below 1, all anchors of
  this head with a larger IoU match as well. With ``truth_thresh`` below 1, so do all predictions whose box overlaps a
  ground truth more than that, with the one that it overlaps most.
- **Objectness.** The target t is 1 for a match and 0 otherwise:

  .. math::

      \mathrm{obj\_normalizer} \, c(o, t)

  A prediction without a match has no such term if its box has an IoU above ``ignore_thresh`` with a ground truth. With
  ``objectness_smooth`` it has one, with the IoU as its target, and the target of a match by ``truth_thresh`` is the
  square of the IoU. A match by its cell then changes nothing, unless the error is 0.
- **Class.** For each match, with the target 1 for the class of the ground truth and 0 for the others:

  .. math::

      \sum_k c(p_k, t_k)

  If several ground truths have the same prediction, all their classes are targets. ``label_smooth_eps`` makes the
  targets eps/2 and 1 - eps/2. With ``focal_loss`` the class j of the first ground truth gives all terms a weight, and a
  further ground truth's class has the weight 1:

  .. math::

      \frac{(p_j - 1) (2 \, p_j \log p_j + p_j - 1)}{2}

- **Box.** For each match. The ground truth has the place :math:`(t_x, t_y)` in its cell and the size
  :math:`(g_w, g_h)`. With ``box_loss="mse"`` and :math:`t_w = \log(g_w W / a_w)`, with ``new_coords``
  :math:`t_w = \sqrt{g_w W / (4 a_w)}`:

  .. math::

      \mathrm{iou\_normalizer} \, (2 - g_w g_h)
      \left(s \, c(x, u_x) + s \, c(y, u_y) + \frac{(w - t_w)^2 + (h - t_h)^2}{2}\right)

      u_x = \frac{t_x + (s - 1) / 2}{s} \qquad u_y = \frac{t_y + (s - 1) / 2}{s}

  With another ``box_loss``: ``iou_normalizer`` times 1 minus IoU, GIoU, DIoU or CIoU. A later ground truth replaces an
  earlier one in the dialect ``pjreddie``. In ``alexeyab`` they add up; with ``iou_thresh`` below 1 the sum is divided
  by the number of classes whose error is positive.

**The gradient is minus Darknet's delta**, times the head gradient, because nets must train as they do there. It is the
derivative of the loss, with weights and targets as constants, except for boxes with an IoU loss. AlexeyAB's formula for
these is the increase of the overlap by the box's x and y in fractions of the image (not divided by W, and without the
sigmoid's slope), and twice that by its w and h, times :math:`e^w` instead of :math:`b_w`. Boxes that are apart have a
negative overlap in it. An infinite or undefined derivative is 0, and ``max_delta`` limits the others.

========================================== ========================================== ==================================
difference                                 ``pjreddie``, commit f6afaabc              ``alexeyab``
========================================== ========================================== ==================================
several ground truths for one prediction   the last one's box                         the sum, or average
a prediction is ignored                    if the IoU is above ``ignore_thresh``      and if a class is above 0.25
other losses of boxes, normalizers, ...    refused                                    as above
``iou_normalizer`` in a cfg without it     1                                          0.75
========================================== ========================================== ==================================

Sources
-------
Redmon and Farhadi, "YOLOv3" (2018); Bochkovskiy et al., "YOLOv4" (2020); pjreddie/darknet and AlexeyAB/darknet,
``src/yolo_layer.c`` and ``src/box.c``, recorded in ``tests/golden/yolo.npz``.

Notes
-----
Darknet's ``cls_normalizer`` has no effect there without ``counters_per_class``, and is not an argument. These are not
supported: ``counters_per_class``, ``iou_thresh_kind`` other than IoU, class maps, tracking and adversarial training.
``delta_normalizer`` is a factor of the loss.

This operator differs from both programs where: a centre is at 1.0 (it is in the last cell; they write into the next
row); a box is centred at x = 0 (it ends their list); two anchors fit equally well (those of this head come first); a
probability is exactly 0 or 1 and several ground truths have one prediction (they may forget the earlier classes); and
``truth_thresh`` is 1 or more (nothing matches; there rounding may decide).

``parts=True`` also returns those of ``region_loss``, (B, 9); the sums over the ground truths are over the matches by
cell here. Invalid rows of ground truth are those of ``region_loss``, with the same result.

Work: forward reads five of the map's planes for each anchor, and the classes only where an IoU is above
``ignore_thresh``. It writes the gradient, which has the size of the map. Backward reads and writes the gradient once.
"""
from __future__ import annotations

from collections.abc import Sequence

from ...backends.emitter import Array, call
from .._region.truths import with_rows
from .contract import OP


def yolo_loss(data: Array, truth: Array, *, anchors: Sequence, other_anchors: Sequence | None = None, classes: int,
              dialect: str = "pjreddie", ignore_thresh: float = 0.5, truth_thresh: float = 1.0,
              iou_thresh: float = 1.0, box_loss: str = "mse", iou_normalizer: float = 1.0, obj_normalizer: float = 1.0,
              max_delta: float = 0.0, scale_x_y: float = 1.0, new_coords: bool = False, label_smooth_eps: float = 0.0,
              objectness_smooth: bool = False, focal_loss: bool = False, parts: bool = False,
              name: str | None = None) -> Array | tuple:
    """Compute the loss of one head of YOLOv3, YOLOv4 or YOLOv7 for each image.

    Examples
    --------
    >>> data = mx.nd.zeros((1, 2 * (5 + 3), 4, 4))    # 2 anchors, 3 classes, 4 x 4 cells
    >>> truth = mx.nd.array([[[0.4, 0.6, 0.6, 0.3, 2], [0, 0, 0, 0, 0]]])
    >>> data.attach_grad()
    >>> with mx.autograd.record():
    ...     loss = gops.ops.yolo_loss(data, truth, anchors=(1, 1, 2, 1), classes=3)
    >>> loss.backward()
    >>> print(loss.asnumpy().round(3))
    [26.844]
    >>> print(data.grad[0, 8:, 2, 1].asnumpy().round(3))    # the anchor and the cell that match
    [-0.182  0.182 -0.332 -0.332 -0.5    0.5    0.5   -0.5  ]
    """
    truth = with_rows(truth)
    return call(OP, data, truth, anchors=anchors, other_anchors=other_anchors, classes=classes, dialect=dialect,
                ignore_thresh=ignore_thresh, truth_thresh=truth_thresh, iou_thresh=iou_thresh, box_loss=box_loss,
                iou_normalizer=iou_normalizer, obj_normalizer=obj_normalizer, max_delta=max_delta, scale_x_y=scale_x_y,
                new_coords=new_coords, label_smooth_eps=label_smooth_eps, objectness_smooth=objectness_smooth,
                focal_loss=focal_loss, parts=parts, name=name)
