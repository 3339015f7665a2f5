r"""lovasz_softmax: the Jaccard index of a segmentation, made into a loss by its Lovasz extension.

The Jaccard loss of a class is :math:`1 - |A \cap B| / |A \cup B|`, with the pixels A of its label and B of its
prediction. As a function of the set M of wrong pixels it is :math:`|M| / |A \cup M|`. Its Lovasz extension takes errors
between 0 and 1: with the softmax p of ``data`` along axis 1, the error e of a pixel is 1 - p in A and p elsewhere. In
the order of falling errors, the loss of a class is

.. math::

    \ell = \sum_r e_r \, g_r \qquad
    g_r = \begin{cases} \frac{1}{U_r} & r \in A \\ \frac{I_r}{U_r (U_r - 1)} & r \notin A \end{cases} \qquad
    U_r = |A \cup M_r| \qquad I_r = |A| - |A \cap M_r|

The step :math:`g_r` is by how much the r-th pixel raises the Jaccard loss of the set :math:`M_r` of all pixels up to
it. Of equal errors the first pixel comes first.

The loss is the mean over the classes that count, weighted by ``class_weight``. With ``present_only`` these are the
classes that a label of the selection names, and otherwise all. The weight 0 leaves a class out. Where no class counts
the loss is 0. The sums are over all pixels of the batch, and then every sample has the same loss; the mean over the
batch is that of the paper. With ``per_sample`` they are over the pixels of a sample.

The gradient of a probability is :math:`a = -g_r` in A and :math:`g_r` elsewhere, as the order is constant almost
everywhere. That of the data is :math:`p \, (a - \sum a \, p)`, with the sum over the classes of a pixel, times the head
gradient: that of the sample, or the sum of all where all have the batch's loss.

Sources
-------
Berman, Triki and Blaschko, "The Lovasz-Softmax loss" (2018), equations 6, 8, 9 and 12; the authors'
``lovasz_softmax(probas, labels, classes, per_image, ignore)``, which takes probabilities: ``classes='present'`` is
``present_only``, a list of classes is ``class_weight`` with 1 for these and 0 for others, ``per_image`` is
``per_sample``, and ``ignore`` is ``ignore_label``.

Notes
-----
The steps follow from whole numbers, so they are exact also where the difference of two Jaccard indices, which the
authors' code takes, cancels out. Forward computes the gradient, because it needs the order too, and keeps it as a
hidden output. The results for logits that are infinite or NaN are not defined.

The order is that of the errors as they are rounded. Errors of float32 that differ by less than 1e-7 may change places,
and so may pixels whose logits are the same numbers in another order. The loss stays the same, and the gradients of
these pixels are those of the other order: both are subgradients.

Where float16 is not computed in float32, there are 2,048 pixels at most.

Work: on a CPU each class that counts is sorted, in three passes over its errors in float32 and in six in float64, with
two arrays of 8 or 16 bytes for each pixel and thread. Besides, forward reads and writes as many bytes as the data has
three times each, and backward reads and writes them once. On a GPU the loss is computed by MXNet's operators, which
sort each class three times. They do not run on GPUs for which MXNet has no code.
"""
from __future__ import annotations

from collections.abc import Sequence

from ...backends.emitter import Array, call
from .contract import OP


def lovasz_softmax(data: Array, label: Array, per_sample: bool = False, present_only: bool = True,
                   ignore_label: int | None = None, class_weight: Sequence[float] | None = None,
                   name: str | None = None) -> Array:
    """Compute the Lovasz extension of 1 minus the Jaccard index, averaged over the classes.

    Examples
    --------
    >>> logits = mx.nd.array([[[4, 4, -4, -4], [-4, -4, 4, 4]]])    # 2 classes at 4 pixels
    >>> print(gops.ops.lovasz_softmax(logits, mx.nd.array([[0, 0, 1, 1]])).asnumpy().round(3))
    [0.]
    >>> label = mx.nd.array([[0, 0, 1, 0]])
    >>> print(gops.ops.lovasz_softmax(logits, label).asnumpy().round(3))
    [0.417]
    >>> print(gops.ops.lovasz_softmax(logits, label, class_weight=(1, 0)).asnumpy().round(3))
    [0.333]
    """
    return call(OP, data, label, per_sample=per_sample, present_only=present_only, ignore_label=ignore_label,
                class_weight=class_weight, name=name)
