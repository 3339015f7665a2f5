r"""gaussian_yolo_loss: the loss of one head of Gaussian YOLOv3, per image.

The head predicts how sure it is of a box. ``data`` is (B, A*(9+K), H, W). The channels of an anchor are the mean and
the deviation of x, of y, of w and of h, then the objectness o, and the classes p. The means of w and h are raw numbers,
the others sigmoids. Boxes are those of ``yolo_loss``, from the means, and so are the matches and the losses, except for
these:

- **Deviations.** For each match. The ground truth has the place :math:`(t_x, t_y)` in its cell, the size
  :math:`(g_w, g_h)`, and :math:`t_w = \log(g_w W / a_w)`. Each of these four numbers t has the mean m and the deviation
  d, and :math:`\mathcal{N}` is Darknet's density:

  .. math::

      \mathrm{uc\_normalizer} \, (2 - g_w g_h) \sum_{x, y, w, h} -\frac{\log(\mathcal{N} + 10^{-9})}{2} \qquad
      \mathcal{N} = \frac{\exp\left(-\frac{1}{2} \left(\frac{t - m}{d}\right)^2\right)}{\sqrt{2 \pi} \, (d + 0.3)}

- **Box.** With ``box_loss="nll"``, Darknet's ``mse``, the same sum with ``iou_normalizer`` instead of
  ``uc_normalizer``, which then weights the gradient of the deviations only. With another ``box_loss``: the sum above,
  and ``iou_normalizer`` times 1 minus IoU, GIoU, DIoU or CIoU.
- **Several ground truths for one prediction.** Their boxes add up. The sum is divided by the number of classes whose
  error is positive, whatever ``iou_thresh`` is.
- **Objectness.** With ``objectness_smooth`` a prediction whose IoU is above ``ignore_thresh`` has the square of this
  IoU as its target, and learns the class of the ground truth that it overlaps most. A match by its cell has the target
  1.
- **Point.** With ``point="left_top"`` or ``"right_bottom"`` x and y are those of a box's corner. The cell of a ground
  truth is then the one of this corner; a corner outside the image is in the nearest cell.

**The gradient is minus Darknet's delta**, times the head gradient, because nets must train as they do there. It is the
derivative of the loss by the means and the deviations, with weights and targets as constants: by the activations, where
Darknet has left out the slope of the sigmoid. An IoU loss has the gradient that ``yolo_loss`` gives. An infinite or
undefined derivative of a mean or a deviation is 0, and ``max_delta`` limits the others.

Sources
-------
Choi et al., "Gaussian YOLOv3" (2019); AlexeyAB/darknet, ``src/gaussian_yolo_layer.c``, commit 59596d78, recorded in
``tests/golden/gaussian_yolo.npz``.

Notes
-----
``iou_normalizer`` is 0.75 in a cfg without it. Darknet's ``cls_normalizer`` has no effect there without
``counters_per_class``, and is not an argument. What ``yolo_loss`` does not support is not supported here, nor are its
``new_coords`` and ``focal_loss``, which AlexeyAB's program does not read for these heads. This operator differs from
the program where ``yolo_loss`` does.

``parts=True`` also returns those of ``yolo_loss``, (B, 9); the first one has the loss of the deviations, too.

Work: forward reads five of the map's planes for each anchor, and the others only where an IoU is above
``ignore_thresh`` or a prediction has a match. It writes the gradient, which has the size of the map. Backward reads and
writes the gradient once.
"""
from __future__ import annotations

from collections.abc import Sequence

from ...backends.emitter import Array, call
from .._region.truths import with_rows
from .contract import OP


def gaussian_yolo_loss(data: Array, truth: Array, *, anchors: Sequence, other_anchors: Sequence | None = None,
                       classes: int, ignore_thresh: float = 0.5, truth_thresh: float = 1.0, iou_thresh: float = 1.0,
                       box_loss: str = "nll", iou_normalizer: float = 1.0, uc_normalizer: float = 1.0,
                       obj_normalizer: float = 1.0, max_delta: float = 0.0, scale_x_y: float = 1.0,
                       point: str = "center", label_smooth_eps: float = 0.0, objectness_smooth: bool = False,
                       parts: bool = False, name: str | None = None) -> Array | tuple:
    """Compute the loss of one head of Gaussian YOLOv3 for each image.

    Examples
    --------
    >>> data = mx.nd.zeros((1, 2 * (9 + 3), 4, 4))    # 2 anchors, 3 classes, 4 x 4 cells
    >>> truth = mx.nd.array([[[0.4, 0.6, 0.6, 0.3, 2]]])
    >>> data.attach_grad()
    >>> with mx.autograd.record():
    ...     loss = gops.ops.gaussian_yolo_loss(data, truth, anchors=(1, 1, 2, 1), classes=3)
    >>> loss.backward()
    >>> print(loss.asnumpy().round(3))
    [26.95]
    >>> print(data.grad[0, 12:, 2, 1].asnumpy().round(3))    # the anchor and the cell that match
    [-0.364  1.065  0.364  1.065 -0.664  0.896 -0.664  0.896 -0.5    0.5
      0.5   -0.5  ]
    """
    truth = with_rows(truth)
    return call(OP, data, truth, anchors=anchors, other_anchors=other_anchors, classes=classes,
                ignore_thresh=ignore_thresh, truth_thresh=truth_thresh, iou_thresh=iou_thresh, box_loss=box_loss,
                iou_normalizer=iou_normalizer, uc_normalizer=uc_normalizer, obj_normalizer=obj_normalizer,
                max_delta=max_delta, scale_x_y=scale_x_y, point=point, label_smooth_eps=label_smooth_eps,
                objectness_smooth=objectness_smooth, parts=parts, name=name)
