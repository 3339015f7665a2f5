"""The HybridBlock of a cfg."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from mxnet.gluon import HybridBlock

from ..backends.emitter import Array
from ..contract.errors import OpError
from .detector import DetectingNet, contexts_and_dtype
from .net_loss import NetLoss


def preprocessing_for(channels: int = 3, resize: str = "letterbox") -> dict[str, object]:
    """What Darknet does to an image before the net sees it. Exports store this as metadata.

    With ``resize='letterbox'`` an image keeps its proportions and gets a grey border. With ``'stretch'`` it is resized
    to the size of the net, as AlexeyAB's program does for detectors unless the cfg has ``letter_box=1``.
    """
    return {"colours": "grey" if channels == 1 else "RGB", "range": [0, 1], "resize": resize}


def run_layers(layers: Iterable[HybridBlock], sources: Iterable[Sequence[int]], data: Array) -> list[Array]:
    """The output of every layer. ``sources`` has the numbers of the layers that each layer reads; -1 is the data."""
    outputs = []
    for layer, numbers in zip(layers, sources):
        outputs.append(layer(*[outputs[number] if number >= 0 else data for number in numbers]))
    return outputs


class Head(NamedTuple):
    """What turns the map of a detecting layer into detections."""
    boxes: Callable[..., HybridBlock]   # makes the block that returns candidates, from the prefix of its name
    classes: int
    stride: int                         # height and width of the images must be multiples of it
    anchors: np.ndarray | None = None   # (A, 2), widths and heights in pixels
    power: float | None = None          # the suppression's power; see Detector


class DarknetNet(DetectingNet):
    """The network of a cfg. See :func:`gluonops.darknet.load`, which makes it.

    ``net[5]`` is the layer that Darknet counts as 5, ``len(net)`` the number of layers, and ``print(net)`` lists them.

    Inputs:
        - **data**: (B, channels, H, W).

    Outputs:
        - **out**: the last layer's output, or a tuple with the maps of the detecting layers if there are several.

    Attributes
    ----------
    input_shape : tuple of int
        (channels, height, width) of the cfg. The net also takes other sizes if the layers fit together.
    preprocessing : dict
        What happens to an image before the net sees it: see :class:`gluonops.export.Preprocessing`.
    """

    def __init__(self, input_shape: tuple[int, int, int], **kwargs):
        super().__init__(**kwargs)
        self.input_shape = input_shape
        self.preprocessing = preprocessing_for(input_shape[0])
        self._sources = []      # the numbers of the layers that each layer reads; -1 is the data
        self._outputs = ()      # numbers of the layers that the net returns
        self._detections = []   # a Head for each detecting layer that the net returns
        # For each output: the kind of its layer, the number of the layer that the loss reads, and the function that
        # makes the HeadLoss, or None.
        self._losses = []

    def __getitem__(self, index: int) -> HybridBlock:
        return list(self._children.values())[index]

    def __len__(self) -> int:
        return len(self._children)

    def hybrid_forward(self, F, data: Array) -> Array | tuple:
        outputs = self.layer_outputs(data)
        returned = tuple(outputs[i] for i in self._outputs)
        return returned if len(returned) > 1 else returned[0]

    def layer_outputs(self, data: Array) -> list:
        """The output of every layer, in order. With it you find the first layer whose output differs from Darknet's."""
        return run_layers(self._children.values(), self._sources, data)

    def _decoders(self, threshold: float) -> tuple[list[HybridBlock], int, int, float | None]:
        if not self._detections:
            raise OpError("darknet.detector", "the cfg does not end in [region], [yolo], [Gaussian_yolo] or "
                          "[detection]; expected the cfg of a detector",
                          "Call the net itself for what its last layer returns")
        blocks = [head.boxes(prefix=f"boxes{i}_") for i, head in enumerate(self._detections)]
        for block in blocks:
            block.threshold = threshold
        last = self._detections[-1]
        return blocks, last.classes, max(head.stride for head in self._detections), last.power

    def loss(self) -> NetLoss:
        """A block that takes images and their ground truth, and returns the loss of the cfg's heads.

        The heads are ``[region]``, ``[yolo]``, ``[Gaussian_yolo]``, ``[softmax]`` with or without a ``[cost]``, or
        ``[cost]`` by itself. Their options count, such as ``ignore_thresh`` or ``iou_loss``. Options that are not given
        have the defaults of the dialect. The loss of YOLOv1's ``[detection]`` and those of heads with a tree of classes
        are not computed.

        Returns
        -------
        NetLoss
            It shares the parameters of this net, which must be initialized.

        Raises
        ------
        OpError
            The cfg ends in another layer, an option changes the loss and is not computed, or the net is not
            initialized.
        """
        for kind, _, make in self._losses:
            if make is None:
                raise OpError("darknet.loss", f"the net returns the output of a [{kind}], which has no loss here; "
                              "expected [region], [yolo], [Gaussian_yolo], [softmax] or [cost]",
                              "Compute the loss of the net's output yourself")
        loss = NetLoss(self, [(source, make()) for _, source, make in self._losses])
        contexts, _ = contexts_and_dtype("darknet.loss", self)
        for block in (loss.loss, loss.mapped):
            if block is not None:
                block.initialize(ctx=contexts)
        return loss
