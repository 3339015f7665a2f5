"""The loss of a net that was made from a cfg: the sum of the losses of its heads."""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mxnet.gluon import Block, HybridBlock

from ..backends.emitter import Array
from ..backends.layer import EitherModeBlock
from ..contract.errors import OpError
from ..loss import GaussianYOLOLoss, RegionLoss, YOLOLoss
from ..ops._region.counting import CountingLoss
from .blocks import add_constants, layer
from .cfg import Section
from .class_losses import ClassLoss, SquareLoss

WHERE = "darknet.loss"
LOSSES = {"region": RegionLoss, "softmax": ClassLoss, "cost": SquareLoss}
OF_ALL_HEADS = {"yolo": YOLOLoss, "gaussian_yolo": GaussianYOLOLoss}


def check_has_loss(section: Section) -> None:
    """Raise an OpError for a head that can only be used for inference: YOLOv1's, or one with a tree of classes."""
    remedy = "Train it with Darknet, and load its weights here: detections, classes and exports need no loss"
    if section.kind == "detection":
        raise section.error("gluonops does not compute the loss of YOLOv1; expected [region], [yolo], [Gaussian_yolo] "
                            "or [softmax]", remedy)
    if section.kind in ("region", "softmax", "soft") and "tree" in section:
        raise section.error(f"gluonops does not compute the loss of a tree of classes; expected a [{section.kind}] "
                            "without tree",
                            remedy, "tree")


class HeadLoss(NamedTuple):
    """The loss of one head."""
    kind: str                                  # a key of LOSSES or OF_ALL_HEADS
    options: dict                              # arguments; OF_ALL_HEADS take lists of the heads', but one `classes`
    weight: float = 1                          # factor of the loss
    class_map: tuple[int, ...] | None = None   # the net's class for each class of the ground truth


@layer
def _HeadInputs(F, data: Array, *, net: HybridBlock, numbers: Sequence[int]) -> list:
    """Runs a net, and returns the outputs of the layers that the losses of the heads read."""
    outputs = net.layer_outputs(data)
    return [outputs[number] if number >= 0 else data for number in numbers]


class _MappedTruth(EitherModeBlock):
    """Replaces the classes of a ground truth, (B, T, 5), as a map says. A class that is not in the map becomes -1."""

    def __init__(self, class_map: Sequence[int], **kwargs):
        super().__init__(**kwargs)
        self._count = len(class_map)
        add_constants(self, classes=class_map)

    def hybrid_forward(self, F, truth: Array, classes: Array) -> Array:
        class_id = F.slice_axis(truth, axis=2, begin=4, end=5)
        is_class = (class_id >= 0) * (class_id < self._count) * (F.floor(class_id) == class_id)
        mapped = F.where(is_class, F.take(classes, class_id), is_class - 1)
        is_padding = F.max(F.abs(truth), axis=2, keepdims=True) == 0
        return F.concat(F.slice_axis(truth, axis=2, begin=0, end=4), F.where(is_padding, class_id, mapped), dim=2)


class NetLoss(Block):
    """A net followed by the loss of its heads, one number per image. ``DarknetNet.loss`` makes it.

    It shares the parameters of the net. ``heads`` has, for each head, the number of the layer that the head takes and
    the loss of the head. ``loss`` takes the outputs of these layers.

    Inputs:
        - **data**: (B, channels, H, W).
        - **truth**: for a detecting net the ground truth, (B, T, 5): centre x, centre y, w and h from 0 to 1, and the
          class. Missing rows are zeros. For a classifier the class of each image, (B,). For a ``[cost]`` without a
          ``[softmax]`` as many numbers as the net returns.

    Outputs:
        - **loss**: (B,).
    """

    def __init__(self, net: HybridBlock, heads: Sequence[tuple[int, HeadLoss]], **kwargs):
        super().__init__(**kwargs)
        numbers, parts = zip(*heads)
        self.inputs = _HeadInputs(lambda: net, numbers)
        self.loss = _loss_of(parts)
        class_map = parts[0].class_map
        self.mapped = None if class_map is None else _MappedTruth(class_map)
        self._weight = parts[0].weight

    def forward(self, data: Array, truth: Array) -> Array:
        taken = self.inputs(data)
        if not isinstance(self.loss, YOLOLoss):
            taken, = taken
        if self.mapped is not None:
            truth = self.mapped(truth)
        loss = self.loss(taken, truth)
        return loss if self._weight == 1 else loss * self._weight

    def set_seen(self, images: int) -> None:
        """Set the number of images that the net has been trained on. The warmup of ``[region]`` ends after so many."""
        if isinstance(self.loss, CountingLoss):
            self.loss.set_seen(images)

    def report(self) -> dict:
        """The averages of the parts of a detecting net's loss: see :meth:`gluonops.loss.YOLOLoss.report`."""
        if not getattr(self.loss, "parts", None):
            raise OpError(WHERE,
                          "the loss has no parts to report; expected the loss of a detector after its first call",
                          "Call the loss first")
        return self.loss.report()


def _loss_of(parts: Sequence[HeadLoss]) -> Block:
    """The loss of a net's heads."""
    first = parts[0]
    if any(part.weight <= 0 for part in parts):
        raise OpError(WHERE, f"the weight of the loss is {first.weight}; expected a number above 0",
                      "Remove noloss, or correct scale or delta_normalizer")
    common = [(part.kind, part.weight, part.options.get("classes"), part.class_map) for part in parts]
    if len(set(common)) > 1:
        kinds, weights, classes, _ = zip(*common)
        raise OpError(WHERE, f"the detecting layers have the kinds {kinds}, the weights {weights} and the classes "
                      f"{classes}; expected the same for all of them, and the same map",
                      "Give the detecting layers of the cfg the same options")
    if first.kind in OF_ALL_HEADS:
        of_heads = {name: [part.options[name] for part in parts] for name in first.options}
        return OF_ALL_HEADS[first.kind](**{**of_heads, "classes": first.options["classes"]})
    if len(parts) > 1:
        raise OpError(WHERE, f"the net has {len(parts)} layers [{first.kind}] with a loss; expected one",
                      f"Leave one [{first.kind}] in the cfg")
    return LOSSES[first.kind](**first.options)
