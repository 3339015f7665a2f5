r"""iou_loss: 1 minus the overlap of a box and its ground truth, by IoU, GIoU, DIoU or CIoU.

With the intersection I and the union U of the two boxes, the area H of their hull (the smallest box that contains
both), the square D of the hull's diagonal, and the distance d of the centres, the loss of a box is

.. math::

    \ell_\mathrm{iou} = 1 - \frac{I}{U} \qquad
    \ell_\mathrm{giou} = \ell_\mathrm{iou} + \frac{H - U}{H} \qquad
    \ell_\mathrm{diou} = \ell_\mathrm{iou} + \frac{d^2}{D}

    \ell_\mathrm{ciou} = \ell_\mathrm{diou} + \alpha \, v \qquad
    v = \frac{4}{\pi^2} \left(\arctan \frac{w_t}{h_t} - \arctan \frac{w}{h}\right)^2 \qquad
    \alpha = \frac{v}{\ell_\mathrm{iou} + v}

The loss is from 0 to 1 for ``iou``, otherwise from 0 to 2, and more for ``ciou``. Alpha is a constant in the gradient.
The ground truth is a constant: it has no gradient. The loss ``iou`` of boxes that are apart is 1, and its gradient is
0: only the other kinds move them. Yu et al. use ``-ln(I / U)``; it is ``-log(1 - loss)`` of the kind ``iou``.

Sources
-------
Yu et al., "UnitBox" (2016); Rezatofighi et al., "Generalized Intersection over Union" (2019); Zheng et al.,
"Distance-IoU Loss" (2020); torchvision's ``generalized_box_iou_loss``, ``distance_box_iou_loss`` and
``complete_box_iou_loss``.

Notes
-----
1e-7 is added to every divisor U, H, D and that of alpha, as in torchvision. So the losses are meant for boxes in pixels
or cells: with coordinates from 0 to 1, it is noticed for boxes of a hundredth of the image and below.

Loss and gradient are finite for boxes without an area and for boxes that do not overlap. A box whose corners are
exchanged has the intersection 0 and a signed area, as in torchvision. If ends of the two boxes coincide, the gradient
is that of the end of the data, where PyTorch divides it between both. Where torchvision's CIoU is NaN, because a height
is 0, the angle ``atan(w / h)`` is pi/2 (0 without a width) and a constant. A NaN in a box makes its loss NaN.

Work: forward reads both boxes and writes a number for each pair. Backward reads both boxes and writes the gradient of
one.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def iou_loss(data: Array, truth: Array, kind: str = "giou", format: str = "corner",   # pylint: disable=redefined-builtin
             name: str | None = None) -> Array:
    """Compute 1 minus the overlap of each box and its ground truth.

    Examples
    --------
    >>> boxes = mx.nd.array([[0, 0, 4, 4], [0, 0, 2, 2]])
    >>> truth = mx.nd.array([[2, 0, 6, 4], [4, 4, 6, 6]])
    >>> for kind in ("iou", "giou", "diou", "ciou"):
    ...     print(kind, gops.ops.iou_loss(boxes, truth, kind=kind).asnumpy().round(3))
    iou [0.667 1.   ]
    giou [0.667 1.778]
    diou [0.744 1.444]
    ciou [0.744 1.444]
    """
    return call(OP, data, truth, kind=kind, format=format, name=name)
