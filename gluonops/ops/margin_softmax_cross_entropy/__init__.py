"""margin_softmax_cross_entropy: the loss of embeddings, such as those of faces: ArcFace, CosFace, SphereFace.

The data are cosines: of the angles between an embedding and a centre of each class. The loss of a row with the class k
is the cross-entropy of ``scale * c_j``, in which a margin makes the cosine of the label smaller: ``phi(c_k)`` takes the
place of ``c_k``. With the angle ``theta = arccos(c_k)`` and ``u = m1 * theta + m2``,

- ``phi(c_k) = cos(u) - m3`` while u is at most pi. This is the combined margin of ArcFace's paper. ``m2`` alone is
  ArcFace, ``m3`` alone is CosFace, and ``m1`` alone is SphereFace with embeddings of one length.
- Beyond pi, ``cos(u)`` would rise again. With ``m1=1``, ``phi(c_k) = c_k - m2 * sin(m2) - m3``, as in the code of
  ArcFace's authors. Otherwise ``phi(c_k) = (-1)^n * cos(u) - 2 * n - m3`` from ``u = n * pi`` to ``(n + 1) * pi``, as
  in the papers of L-Softmax and SphereFace, which define it for whole numbers m1.

``easy_margin=True`` keeps ``c_k - m3`` where ``c_k`` is not above 0, as in ArcFace's code. The code of InsightFace's
combined margin goes on with ``cos(u)`` beyond pi. SphereFace and L-Softmax have the length of the embedding, and
L-Softmax that of the weight, for a scale; here the scale is one number, as in InsightFace. Their training also mixes
the margin with the plain loss at first: multiply two losses for that.

The operator honours the head gradient g. With the softmax p of the row with its margin, the gradient is
``g * scale * p_j`` for the other cosines, and ``g * scale * (p_k - 1) * phi'(c_k)`` for the label's. This is the exact
derivative; InsightFace's PyTorch code leaves ``phi'`` out. phi' grows without limit where c_k approaches 1. So if there
is a margin for the angle, c_k is limited to -1 + 2^-20 and 1 - 2^-20 (angles of 179.92 and 0.08 degrees): values beyond
count as the limit, and have its derivative, about ``m1 * 724`` at most. So cosines that rounding errors put beyond -1
or 1 do no harm.

With class weights w the loss and the gradient of a row are multiplied by ``w_k``. They are numbers of the graph, not an
input: they have no gradient and are saved with the graph.

Rows with ``ignore_label`` have loss 0 and gradient 0. A label is valid if it is a whole number from 0 to C-1. An
invalid label makes the loss and the gradient of its row NaN. With ``GLUONOPS_CHECK_LABELS=1`` an OpError names its
position instead: if you call the function or the loss with arrays, and in graphs of the custom and native backends.
float16 is computed in float32, except in a builtin graph of variables with unknown types, and no parameter among them.

Work and memory: forward reads the cosines once, and writes three numbers per row. Backward reads them once and writes
their gradient. Probabilities and one-hot labels are never stored: of 512 rows and 100,000 classes, the cosines and
their gradient are the only large tensors, 205 MB each. On a GPU, several blocks share a row if there are few rows and
they are longer than 8,192.

On a CPU, gradients are 0 where the probability, or its product with ``g * scale``, is a subnormal number, below 1.2e-38
in float32. Processors multiply such numbers slowly, and cosines times a scale of 64 make many.

Sources: Liu et al., "Large-Margin Softmax Loss" (2016), equation 6, and "SphereFace" (2017), equation 7; Wang et al.,
"CosFace" (2018), equation 4; Deng et al., "ArcFace" (2019), equation 4, and their code, deepinsight/insightface.
"""
from __future__ import annotations

from collections.abc import Sequence

from ...core.backend import Array, call
from .contract import OP

__all__ = ["margin_softmax_cross_entropy"]


def margin_softmax_cross_entropy(data: Array, label: Array, scale: float = 64.0, m1: float = 1.0, m2: float = 0.5,
                                 m3: float = 0.0, easy_margin: bool = False, ignore_label: int | None = None,
                                 class_weight: Sequence[float] | None = None, name: str | None = None) -> Array:
    """Cross-entropy of scaled cosines, with a margin for the cosine of the label.

    Parameters
    ----------
    data : NDArray or Symbol
        Cosines, (batch, ..., classes); float16, float32 or float64. They are expected in -1 to 1, and not scaled.
    label : NDArray or Symbol
        Class indices, (batch, ...), in any float or integer dtype.
    scale : float, default 64.0
        Factor of the cosines, above 0.
    m1 : float, default 1.0
        Factor of the label's angle, above 0 and below 16. SphereFace's is 4; with embeddings of one length, 1.35 is
        usual.
    m2 : float, default 0.5
        Added to the label's angle, in radians; at least 0 and below pi. ArcFace's is 0.5.
    m3 : float, default 0.0
        Subtracted from the label's cosine. CosFace's is 0.35.
    easy_margin : bool, default False
        Whether labels with an angle above 90 degrees have no margin of the angle.
    ignore_label : int, optional
        Rows with this label have loss and gradient 0.
    class_weight : sequence of float or NDArray, optional
        A weight for each class, at least 0, or a single one for all. The default is 1.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        The loss of every row, the shape of ``label``; the dtype of ``data``.

    Raises
    ------
    OpError
        ``label`` has a wrong shape, or an attribute is out of range.
    """
    return call(OP, locals())
