"""The loss of a net of a cfg."""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mxnet.gluon import Block, HybridBlock

from ..core.backend import Array
from ..core.errors import OpError
from ..loss import GaussianYOLOLoss, RegionLoss, SoftmaxCELoss, YOLOLoss
from ..ops.region_loss import averages

__all__ = ["HeadLoss", "NetLoss", "loss_of"]

LOSSES = {"region": RegionLoss, "softmax": SoftmaxCELoss}
OF_ALL_HEADS = {"yolo": YOLOLoss, "gaussian_yolo": GaussianYOLOLoss}
PER_NET = ("anchors", "classes")   # the options that all heads of a net share


class HeadLoss(NamedTuple):
    """The loss of one head.

    Attributes
    ----------
    kind : {'region', 'yolo', 'gaussian_yolo', 'softmax'}
    options : dict
        Arguments of ``RegionLoss``, ``SoftmaxCELoss`` or, with the mask and the stride of this head, ``YOLOLoss`` or
        ``GaussianYOLOLoss``.
    weight : float
        Factor of the loss.
    """
    kind: str
    options: dict
    weight: float = 1


class _HeadInputs(HybridBlock):
    """What the heads of a net take: the outputs of the layers with these numbers."""

    def __init__(self, net: HybridBlock, numbers: Sequence[int], **kwargs):
        super().__init__(**kwargs)
        self.net = net
        self._numbers = numbers

    def hybrid_forward(self, F, data: Array) -> list:
        outputs = self.net.layer_outputs(data)
        return [outputs[number] if number >= 0 else data for number in self._numbers]


class NetLoss(Block):
    """A net and the loss of its heads, per image. ``DarknetNet.loss`` makes it. It shares the parameters of the net.

    Inputs:
        - **data**: (B, channels, H, W).
        - **truth**: of a detecting net the ground truth, (B, T, 5): centre x, centre y, w, h from 0 to 1, class; padded
          with rows of zeros. Of a classifier the class, (B,).

    Outputs:
        - **loss**: (B,).

    Attributes
    ----------
    loss : RegionLoss, YOLOLoss, GaussianYOLOLoss or SoftmaxCELoss
        It takes what the heads take.
    """

    def __init__(self, net: HybridBlock, numbers: Sequence[int], loss: Block, weight: float, **kwargs):
        super().__init__(**kwargs)
        self.inputs = _HeadInputs(net, numbers)
        self.loss = loss
        self._weight = weight

    def forward(self, data: Array, truth: Array) -> Array:
        taken = self.inputs(data)
        if not isinstance(self.loss, YOLOLoss):
            taken, = taken
        if isinstance(self.loss, SoftmaxCELoss):
            taken = taken.flatten()
        loss = self.loss(taken, truth)
        return loss if self._weight == 1 else loss * self._weight

    def set_seen(self, images: int) -> None:
        """Say how many images the net has been trained on. The warmup of ``[region]`` ends after a number of them."""
        if isinstance(self.loss, RegionLoss):
            self.loss.set_seen(images)

    def report(self) -> dict:
        """The averages of the parts of a detecting net's loss; see :func:`gluonops.ops.region_loss.averages`."""
        if not getattr(self.loss, "parts", None):
            raise _error("there are no parts; expected the loss of a detecting net that has been called",
                         "Call the loss first")
        return averages(list(self.loss.parts.values()))


def loss_of(net: HybridBlock, heads: Sequence[tuple[int, HeadLoss]]) -> NetLoss:
    """The loss of a net. ``heads`` has the number of the layer that each head takes, and the head's loss."""
    numbers, parts = zip(*heads)
    first = parts[0]
    if any(part.weight <= 0 for part in parts):
        raise _error(f"the weight of the loss is {first.weight}; expected a number above 0",
                     "Remove noloss, or correct scale or delta_normalizer")
    if len({part.kind for part in parts}) > 1 or len({part.weight for part in parts}) > 1:
        raise _error(f"the heads have the kinds {[part.kind for part in parts]} and the weights "
                     f"{[part.weight for part in parts]}; expected the same for all heads", "Change the cfg")
    if first.kind in OF_ALL_HEADS:
        loss = _loss_of_all(OF_ALL_HEADS[first.kind], [part.options for part in parts])
        return NetLoss(net, numbers, loss, first.weight)
    if len(parts) > 1:
        raise _error(f"the net has {len(parts)} heads of the kind {first.kind}; expected one", "Change the cfg")
    return NetLoss(net, numbers, LOSSES[first.kind](**first.options), first.weight)


def _loss_of_all(make: type, heads: Sequence[dict]) -> YOLOLoss:
    for name in PER_NET:
        values = [head[name] for head in heads]
        if any(value != values[0] for value in values):
            raise _error(f"the heads have the {name} {values}; expected the same for all heads", "Change the cfg")
    per_head = {name: [head[name] for head in heads] for name in heads[0] if name not in PER_NET}
    return make(heads[0]["anchors"], classes=heads[0]["classes"], **per_head)


def _error(what: str, remedy: str) -> OpError:
    return OpError("darknet.loss", what, remedy)
