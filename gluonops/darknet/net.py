"""The HybridBlock that a cfg is built into."""
from __future__ import annotations

from mxnet.gluon import HybridBlock

from ..core.errors import OpError
from .detector import Boxes, Detector

__all__ = ["DarknetNet"]

# What Darknet does to an image before the net sees it; exports note it.
PREPROCESSING = {"colours": "RGB", "range": [0, 1], "resize": "letterbox"}


class DarknetNet(HybridBlock):
    """The network of a cfg. See :func:`gluonops.darknet.load`, which makes it.

    ``net[5]`` is the layer that Darknet counts as 5, ``len(net)`` the number of layers, and ``print(net)`` lists them.

    Attributes
    ----------
    input_shape : tuple of int
        (channels, height, width) of the cfg. Other sizes will do as long as the layers fit together.

    Inputs:
        - **data**: (B, channels, H, W).

    Outputs:
        - **out**: the last layer's output; where the cfg has several ``[yolo]`` layers a tuple of theirs.
    """

    preprocessing = PREPROCESSING

    def __init__(self, input_shape, **kwargs):
        super().__init__(**kwargs)
        self.input_shape = input_shape
        self._sources, self._outputs, self._detections = [], (), []

    def __getitem__(self, index):
        return list(self._children.values())[index]

    def __len__(self):
        return len(self._children)

    def hybrid_forward(self, F, data):
        outputs = self.layer_outputs(data)
        returned = tuple(outputs[i] for i in self._outputs)
        return returned if len(returned) > 1 else returned[0]

    def layer_outputs(self, data):
        """The output of every layer, in order: to find the first one that differs from Darknet's."""
        outputs = []
        for layer, sources in zip(self._children.values(), self._sources):
            outputs.append(layer(*[outputs[i] if i >= 0 else data for i in sources]))
        return outputs

    def detector(self, threshold: float = 0.25, nms: float = 0.45, topk: int = 400) -> Detector:
        """A block that returns detections, to hybridize and export. See :class:`gluonops.darknet.Detector`.

        Parameters
        ----------
        threshold, nms, topk
            The arguments of ``Detector``.

        Returns
        -------
        Detector
            Shares the parameters of this net, which have to be initialized.

        Raises
        ------
        OpError
            The last layer is no ``[region]`` or ``[yolo]``, or an argument is out of range.
        """
        if not self._detections:
            raise OpError("darknet.detector", "the cfg ends in neither [region] nor [yolo]; expected a detecting "
                          "network", "Call the net itself for what its last layer returns")
        heads = [Boxes(anchors, classes, stride, prefix=f"boxes{i}_")
                 for i, (anchors, classes, stride) in enumerate(self._detections)]
        parameter = next(iter(self.collect_params().values()))
        for head in heads:
            head.initialize(ctx=parameter.list_ctx())
            head.cast(parameter.dtype)
        multiple = max(stride for *_, stride in self._detections)
        return Detector(self, heads, self._detections[0][1], multiple, threshold, nms, topk)
