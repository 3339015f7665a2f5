"""The layer ``gluonops.nn.ArcFaceHead``."""
from __future__ import annotations

import mxnet as mx
import numpy as np
from mxnet.ndarray import NDArray

from ..backends import label_checks as _labels
from ..backends import numpy_mode
from ..backends.emitter import Array
from ..backends.layer import EitherModeBlock
from ..backends.printed import Printed
from ..contract.attributes import Bool, Float, Int, parsed
from ..contract.errors import OpError
from ..ops import margin_softmax_cross_entropy as _margin_softmax_cross_entropy
from ..ops._labels.reference import exact, ignored_mask
from ..ops.margin_softmax_cross_entropy.contract import OP

WHERE = "nn.ArcFaceHead"
OPTIONS = {"classes": Int(1), "features": Int(1), "sample_rate": Float(above=0), "sparse_grad": Bool()}


class ArcFaceHead(Printed, EitherModeBlock):
    """The loss of embeddings: their cosines with a learned centre of each class, and a margin softmax.

    Embeddings and centres are divided by their lengths. The product is MXNet's FullyConnected. The defaults are those
    of ArcFace; `m2=0, m3=0.35` is CosFace. Put this layer behind a net for training, and leave it out afterwards, when
    embeddings are compared by their cosines. See :func:`gluonops.ops.margin_softmax_cross_entropy`.

    With `sample_rate` below 1, a batch is compared with its own classes and with others that are drawn at random,
    together ``int(sample_rate * classes)``, at least 2. Memory falls accordingly, and only the sampled centres have a
    gradient other than 0. ``mx.random.seed`` repeats the draws. A batch may have as many labels as classes are sampled.
    This also works in hybridized nets and in graphs. These do not see the size of the batch: where more classes appear
    than are sampled, the loss of some rows is NaN.

    Parameters
    ----------
    classes, features : int
        Shape of the weight: the number of classes, and the length of an embedding.
    scale, m1, m2, m3, easy_margin, ignore_label
        As in :class:`gluonops.loss.MarginSoftmaxCELoss`.
    sample_rate : float, default 1.0
        Share of the classes that a batch is compared with, above 0 and at most 1.
    sparse_grad : bool, default False
        Whether the gradient of the weight is ``row_sparse``, with the sampled rows only. Then SGD and Adam update these
        rows alone, without the weight decay and the momentum of the others. It needs `sample_rate` below 1.
    weight_initializer : str or Initializer, optional
        Initializer of the centres. The default is a normal distribution with the standard deviation 0.01.

    Inputs:
        - **data**: embeddings, (batch, features), of any length.
        - **label**: class indices, (batch,), in any float or integer dtype.

    Outputs:
        - **loss**: (batch,), the dtype of `data`.

    Attributes
    ----------
    weight : Parameter
        The centres, (classes, features).

    Raises
    ------
    OpError
        An argument is out of range, or `data` or `label` has a wrong shape.

    Sources: Deng et al., "ArcFace" (2019); An et al., "Partial FC" (2021), whose sampling this is, on one device.
    """

    def __init__(self, classes: int, features: int, scale: float = 64.0, m1: float = 1.0, m2: float = 0.5,
                 m3: float = 0.0, easy_margin: bool = False, ignore_label: int | None = None, sample_rate: float = 1.0,
                 sparse_grad: bool = False, weight_initializer: str | mx.init.Initializer | None = None, **kwargs):
        super().__init__(**kwargs)
        self._options = parsed(WHERE, OPTIONS, classes=classes, features=features, sample_rate=sample_rate,
                               sparse_grad=sparse_grad)
        self._classes, self._features, self._sample_rate, self._sparse_grad = self._options.values()
        self._margins = {"scale": scale, "m1": m1, "m2": m2, "m3": m3, "easy_margin": easy_margin}
        self._attrs = OP.parse({**self._margins, "ignore_label": ignore_label})
        self._ignore_label = ignore_label
        if self._sample_rate > 1:
            raise OpError(WHERE, f"sample_rate is {self._sample_rate}; expected a number above 0 and at most 1",
                          "Pass the share of the classes, such as 0.1")
        self._sampled = int(self._sample_rate * classes) if classes > 1 else 1   # number of classes
        if self._sampled < min(2, classes):
            raise OpError(WHERE, f"sample_rate is {sample_rate}, which samples {self._sampled} of {classes} classes; "
                          "expected at least 2", "Choose a higher sample_rate: with one class, every loss is 0")
        if sparse_grad and not self._samples:
            raise OpError(WHERE, f"sparse_grad is True and sample_rate is {sample_rate}; expected a sample_rate below "
                          "1, because without sampling the gradient has every row",
                          "Leave sparse_grad out, or choose a lower sample_rate")
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(classes, features),
                                          init=weight_initializer or mx.init.Normal(0.01),
                                          grad_stype="row_sparse" if sparse_grad else "default")

    @property
    def _samples(self):
        return self._sampled < self._classes

    def cosines(self, data: NDArray) -> NDArray:
        """Return the cosines of embeddings with the centres of all classes, of which the largest is the prediction.

        Parameters
        ----------
        data : NDArray
            Embeddings, (batch, features), in float16, float32 or float64.

        Returns
        -------
        NDArray
            (batch, classes), in the dtype of ``data``.
        """
        legacy, weight = numpy_mode.to_legacy([data, self.weight.data(data.context)])
        cosines = _cosines(mx.nd, legacy, weight, self._classes)
        return numpy_mode.to_numpy(cosines) if numpy_mode.is_numpy(data) else cosines

    def forward(self, data: Array, label: Array) -> Array:
        # The check is here because a hybridized hybrid_forward does not see shapes.
        if isinstance(data, NDArray) and isinstance(label, NDArray):
            self._check(data, label)
        return super().forward(data, label)

    def _check(self, data, label):
        if data.ndim != 2 or data.shape[1] != self._features or label.shape != data.shape[:1]:
            raise OpError(WHERE, f"data has shape {data.shape} and label {label.shape}; expected (batch, "
                          f"{self._features}) and (batch,)", "Pass a batch of embeddings and their classes")
        if self._samples and label.size > self._sampled:
            raise OpError(WHERE, f"the batch has {label.size} labels, and sample_rate {self._sample_rate} samples "
                          f"{self._sampled} of {self._classes} classes; expected at most as many labels as sampled "
                          "classes",
                          "Choose a higher sample_rate, or smaller batches")
        if self._sparse_grad and self.weight.grad_req == "add":
            raise OpError(WHERE, "sparse_grad is True and the weight's grad_req is 'add', which MXNet cannot add up; "
                          "expected 'write' or 'null'", "Leave sparse_grad out, or set weight.grad_req = 'write'")
        all_cosines = np.broadcast_to(np.float32(0), (label.size, self._classes))   # their shape is read, no value
        _labels.check_call(self, OP, self._attrs, {"data": all_cosines, "label": label})

    def hybrid_forward(self, F, data, label, weight):
        ignore_label = self._ignore_label
        if self._samples:
            weight, label, ignore_label = self._sample(F, weight, label)
        cosines = _cosines(F, data, weight, self._sampled)
        return _margin_softmax_cross_entropy(cosines, label, ignore_label=ignore_label, **self._margins)

    def _sample(self, F, weight, label):
        """Return the sampled rows of the weight, the labels as numbers of these rows, and the label to ignore."""
        labels = exact(F, label)
        ignored = ignored_mask(labels, self._ignore_label)
        is_class = (labels >= 0) * (labels < self._classes) * (F.floor(labels) == labels)
        if ignored is not None:
            is_class = is_class * (1 - ignored)
        of_rows = F.where(is_class, labels, F.zeros_like(labels))   # a row without a class takes the first one

        chosen = self._choose(F, of_rows)
        numbers = F.contrib.arange_like(F.cast(chosen, dtype="float64"), start=1)
        number_of_class = F.scatter_nd(numbers, F.expand_dims(chosen, axis=0), shape=(self._classes,))
        invalid = F.zeros_like(labels) - 1
        label = F.where(is_class, F.take(number_of_class, of_rows) - 1, invalid)
        if ignored is not None:
            label = F.where(ignored, F.zeros_like(labels) + self._classes, label)
        rows = F.Embedding(F.BlockGrad(chosen), weight, input_dim=self._classes, output_dim=self._features,
                           sparse_grad=self._sparse_grad)
        return rows, F.BlockGrad(label), None if ignored is None else self._classes

    def _choose(self, F, of_rows):
        """Return the sampled classes, sorted. They are those of the batch, and others that are drawn at random."""
        is_own = F.scatter_nd(F.ones_like(of_rows), F.expand_dims(of_rows, axis=0), shape=(self._classes,))
        is_own = F.cast(is_own, dtype="float32")
        ranks = F.random.uniform_like(is_own) + 2 * is_own
        return F.sort(F.topk(ranks, k=self._sampled, ret_typ="indices", dtype="int32"))


def _cosines(F, data, weight, count):
    """Return the cosines of embeddings with `count` centres."""
    return F.FullyConnected(F.L2Normalization(data), F.L2Normalization(weight), no_bias=True, num_hidden=count)
