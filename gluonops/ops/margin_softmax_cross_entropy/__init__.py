r"""margin_softmax_cross_entropy: the loss of embeddings, such as those of faces: ArcFace, CosFace, SphereFace.

The data are cosines: of the angles between an embedding and a centre of each class. The loss of a row with the class k
is the cross-entropy of the scaled cosines, in which a margin makes the cosine of the label smaller:

.. math::

    \ell = -\log \frac{e^{s \, \varphi(c_k)}}{e^{s \, \varphi(c_k)} + \sum_{j \ne k} e^{s \, c_j}} \qquad
    \varphi(c_k) = \cos(m_1 \arccos c_k + m_2) - m_3

with s, ``scale``. This is the combined margin of ArcFace's paper. ``m2`` alone is ArcFace, ``m3`` alone is CosFace, and
``m1`` alone is SphereFace with embeddings of one length.

Where the angle :math:`u = m_1 \arccos c_k + m_2` is above pi, its cosine would rise again. With ``m1=1``, phi is then
:math:`c_k - m_2 \sin m_2 - m_3`, as in the code of ArcFace's authors. Otherwise it is :math:`(-1)^n \cos u - 2 n - m_3`
from :math:`u = n \pi` to :math:`(n + 1) \pi`, as in the papers of L-Softmax and SphereFace, which define it for whole
numbers m1. ``easy_margin=True`` keeps :math:`c_k - m_3` where :math:`c_k` is not above 0, as in ArcFace's code.

With the head gradient g and the softmax p of the row with its margin, the gradient is the exact derivative:

.. math::

    \frac{\partial L}{\partial c_j} = g \, s \, p_j \quad (j \ne k) \qquad
    \frac{\partial L}{\partial c_k} = g \, s \, (p_k - 1) \, \varphi'(c_k)

With class weights w the loss and the gradient of a row are multiplied by ``w_k``. They are numbers of the graph, not an
input: they have no gradient and are saved with the graph.

Sources
-------
Liu et al., "Large-Margin Softmax Loss" (2016), equation 6, and "SphereFace" (2017), equation 7; Wang et al., "CosFace"
(2018), equation 4; Deng et al., "ArcFace" (2019), equation 4, and their code, deepinsight/insightface.

Notes
-----
The code of InsightFace's combined margin goes on with ``cos(u)`` beyond pi, and its PyTorch code leaves ``phi'`` out of
the gradient. SphereFace and L-Softmax have the length of the embedding, and L-Softmax that of the weight, for a scale;
here the scale is one number, as in InsightFace. Their training also mixes the margin with the plain loss at first:
multiply two losses for that.

phi' grows without limit where c_k approaches 1 or -1. So if there is a margin for the angle, c_k is limited to
-1 + 2^-20 and 1 - 2^-20 (angles of 179.92 and 0.08 degrees): values beyond count as the limit, and have its derivative,
about ``m1 * 724`` at most. So cosines that rounding errors put beyond -1 or 1 do no harm.

Work and memory: forward reads the cosines once, and writes three numbers per row. Backward reads them once and writes
their gradient. Probabilities and one-hot labels are never stored: of 512 rows and 100,000 classes, the cosines and
their gradient are the only large tensors, 205 MB each. On a GPU, several blocks share a row if there are few rows and
they are longer than 8,192.

On a CPU, gradients are 0 where the probability, or its product with ``g * scale``, is a subnormal number, below 1.2e-38
in float32. Processors multiply such numbers slowly, and cosines times a scale of 64 make many.
"""
from __future__ import annotations

from collections.abc import Sequence

from ...backends.emitter import Array, call
from .contract import OP


def margin_softmax_cross_entropy(data: Array, label: Array, scale: float = 64.0, m1: float = 1.0, m2: float = 0.5,
                                 m3: float = 0.0, easy_margin: bool = False, ignore_label: int | None = None,
                                 class_weight: Sequence[float] | None = None, name: str | None = None) -> Array:
    """Compute the cross-entropy of scaled cosines, with a margin for the cosine of the label.

    Examples
    --------
    >>> cosines = mx.nd.array([[0.8, 0.1, -0.2], [0.3, 0.4, 0.2]])
    >>> label = mx.nd.array([0, 1])
    >>> arcface = gops.ops.margin_softmax_cross_entropy(cosines, label, scale=8)
    >>> cosface = gops.ops.margin_softmax_cross_entropy(cosines, label, scale=8, m2=0, m3=0.35)
    >>> plain = gops.ops.margin_softmax_cross_entropy(cosines, label, scale=8, m2=0)
    >>> for loss in (arcface, cosface, plain):
    ...     print(loss.asnumpy().round(3))
    [0.085 3.508]
    [0.064 2.46 ]
    [0.004 0.502]
    """
    return call(OP, data, label, scale=scale, m1=m1, m2=m2, m3=m3, easy_margin=easy_margin, ignore_label=ignore_label,
                class_weight=class_weight, name=name)
