"""The HybridBlock of a cfg."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import mxnet as mx
import numpy as np
from mxnet.gluon import HybridBlock

from ..core.emitter import Array
from ..core.errors import OpError
from .detector import Detector
from .losses import NetLoss, loss_of

__all__ = ["DarknetNet", "Head"]

def preprocessing_for(channels: int = 3, resize: str = "letterbox") -> dict[str, object]:
    """What Darknet does to an image before the net sees it. Exports store it as metadata.

    ``resize``: 'letterbox' fits the image to the net's size; 'stretch' is AlexeyAB's way for detectors, unless the cfg
    has letter_box=1.
    """
    return {"colours": "grey" if channels == 1 else "RGB", "range": [0, 1], "resize": resize}


def run_layers(layers: Iterable[HybridBlock], sources: Iterable[Sequence[int]], data: Array) -> list[Array]:
    """The output of every layer. ``sources``: the numbers of the layers that each of them reads; -1 is the data."""
    outputs = []
    for layer, numbers in zip(layers, sources):
        outputs.append(layer(*[outputs[number] if number >= 0 else data for number in numbers]))
    return outputs


class Head(NamedTuple):
    """What turns the map of a detecting layer into detections.

    - ``boxes``: makes the block that returns candidates. It takes the prefix of its name.
    - ``classes``: number of classes.
    - ``stride``: height and width of the images must be multiples of it.
    - ``anchors``: (A, 2), widths and heights in pixels.
    - ``power``: power of the suppression; see ``Detector``.
    """
    boxes: Callable[..., HybridBlock]
    classes: int
    stride: int
    anchors: np.ndarray | None = None
    power: float | None = None


class DarknetNet(HybridBlock):
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
        # Each output has the kind of its layer, the layer that the loss reads, and what makes the HeadLoss or None.
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
        """The output of every layer, in order: to find the first one that differs from Darknet's."""
        return run_layers(self._children.values(), self._sources, data)

    def detector(self, threshold: float = 0.25, nms: float = 0.45, topk: int = 400) -> Detector:
        """A block that returns detections. See :class:`gluonops.darknet.Detector`.

        Parameters
        ----------
        threshold, nms, topk
            The arguments of ``Detector``.

        Returns
        -------
        Detector
            It shares the parameters of this net, which must be initialized.

        Raises
        ------
        OpError
            The cfg ends in no detecting layer, the net is not initialized, or an argument is out of range.
        """
        if not self._detections:
            raise OpError("darknet.detector", "the cfg ends in no [region], [yolo], [Gaussian_yolo] or [detection]; "
                          "expected a detecting network", "Call the net itself for what its last layer returns")
        contexts, dtype = self._contexts_and_dtype("darknet.detector")
        blocks = []
        for i, head in enumerate(self._detections):
            block = head.boxes(prefix=f"boxes{i}_")
            block.threshold = threshold
            block.initialize(ctx=contexts)
            block.cast(dtype)
            blocks.append(block)
        last = self._detections[-1]
        size_multiple = max(head.stride for head in self._detections)
        return Detector(self, blocks, last.classes, size_multiple, threshold, nms, topk, last.power)

    def loss(self) -> NetLoss:
        """A block that takes images and their ground truth, and returns the loss of the cfg's heads.

        The heads are ``[region]``, ``[yolo]``, ``[Gaussian_yolo]``, ``[detection]``, ``[softmax]`` with or without a
        ``[cost]``, or ``[cost]`` by itself. Their options count, such as ``ignore_thresh`` or ``iou_loss``. Options
        that are not given have the defaults of the dialect.

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
                              "expected [region], [yolo], [Gaussian_yolo], [detection], [softmax] or [cost]",
                              "Compute the loss of the net's output yourself")
        loss = loss_of(self, [(source, make()) for _, source, make in self._losses])
        contexts, _ = self._contexts_and_dtype("darknet.loss")
        for block in (loss.loss, loss.mapped):
            if block is not None:
                block.initialize(ctx=contexts)
        return loss

    def _contexts_and_dtype(self, where: str) -> tuple[list[mx.Context], str]:
        """Those of the parameters; of a net without parameters the current context and float32."""
        parameter = next(iter(self.collect_params().values()), None)
        if parameter is None:
            return [mx.current_context()], "float32"
        try:
            return parameter.list_ctx(), parameter.dtype
        except RuntimeError:
            raise OpError(where, f"{parameter.name} is not initialized; expected a net with parameters that are",
                          "Call net.initialize(), or load weights") from None
