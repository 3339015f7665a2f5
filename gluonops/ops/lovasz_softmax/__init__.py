"""lovasz_softmax: the Jaccard index of a segmentation, made into a loss by its Lovasz extension.

The Jaccard loss of a class is ``1 - |A and B| / |A or B|``, with the places A of its label and B of its prediction. As
a function of the set M of wrong places it is ``|M| / |A or M|``. Its Lovasz extension takes errors between 0 and 1 in
place of a set: with the softmax p of ``data`` along axis 1, the error e of a place is ``1 - p`` in A and p elsewhere.

In the order of falling errors the loss of a class is ``sum(e_r * g_r)``. The step g_r is by how much the r-th place
raises the Jaccard loss of the set M_r of all places up to it. It is ``1 / U_r`` in A, and ``I_r / (U_r (U_r - 1))``
elsewhere, with ``U_r = |A or M_r|`` and ``I_r = |A| - |A and M_r|``. Of equal errors the first place comes first. The
steps follow from whole numbers, so they are exact also where the difference of two Jaccard indices, which the authors'
code takes, cancels out.

The loss is the mean over the classes that count, weighted by ``class_weight``. With ``present_only`` these are the
classes that a label of the selection names, and otherwise all. The weight 0 leaves a class out. Where no class counts
the loss is 0. The sums are over all places of the batch, and then every sample has the same loss; the mean over the
batch is that of the paper. With ``per_sample`` they are over the places of a sample.

The gradient of a probability is ``-g`` in A and ``g`` elsewhere, as the order is constant almost everywhere. That of
the data is ``p * (a - sum(a * p))``, with the gradients a of the probabilities, and the sum over the classes of a
place. Forward computes it, because it needs the order too, and keeps it as a hidden output. Backward multiplies it by
the head gradient: by that of the sample, or where all have the batch's loss by the sum.

Places with ``ignore_label`` are in no set, and their gradient is 0. A label is valid if it is a whole number from 0 to
C-1. An invalid label makes the loss of its selection NaN, and the gradient of all its places. With
``GLUONOPS_CHECK_LABELS=1`` an OpError names its position instead. The results for logits that are infinite or NaN are
not defined.

float16 is computed in float32, except in a builtin graph of variables with unknown types, up to 2,048 places.

Work: on a CPU each class that counts is sorted, in three passes over its errors in float32 and six in float64, with two
arrays of 8 or 16 bytes for each place and thread. Besides, forward reads the data 3 times and writes it 3 times, and
backward reads 1 and writes 1. On a GPU MXNet's operators compute it, which sort each class three times. They do not run
on GPUs that MXNet has no code for.

Measured on 2 cores, forward and backward of (2, 21, 128, 128) float32 logits in a hybridized net: 11.4 ms, MXNet's
operators 331 ms, the authors' formula in torch 75 ms; of (4, 21, 256, 256) 67 ms, and 754 ms in torch.

Sources: Berman, Triki and Blaschko, "The Lovasz-Softmax loss" (2018), equations 6, 8, 9 and 12; the authors'
``lovasz_softmax(probas, labels, classes, per_image, ignore)``, which takes probabilities: ``classes='present'`` is
``present_only``, a list of classes is ``class_weight`` with 1 for these and 0 for others, ``per_image`` is
``per_sample``, and ``ignore`` is ``ignore_label``.
"""
from __future__ import annotations

from collections.abc import Sequence

from ...core.backend import Array, call
from .contract import OP

__all__ = ["lovasz_softmax"]


def lovasz_softmax(data: Array, label: Array, per_sample: bool = False, present_only: bool = True,
                   ignore_label: int | None = None, class_weight: Sequence[float] | None = None,
                   name: str | None = None) -> Array:
    """Lovasz extension of 1 minus the Jaccard index, averaged over the classes.

    Parameters
    ----------
    data : NDArray or Symbol
        Logits, (batch, classes, ...); float16, float32 or float64.
    label : NDArray or Symbol
        Class indices in any float or integer dtype, (batch, ...).
    per_sample : bool, default False
        Whether each sample has a loss of its own. If not, all samples have the loss of the whole batch.
    present_only : bool, default True
        Whether classes without a label do not count in the mean.
    ignore_label : int, optional
        Places with this label do not count.
    class_weight : sequence of float or NDArray, optional
        A weight for each class, at least 0, or a single one for all. The default is 1.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        (batch,), the dtype of ``data``.

    Raises
    ------
    OpError
        ``label`` has a wrong shape, or an attribute is out of range.
    """
    return call(OP, locals())
