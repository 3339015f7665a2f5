"""Makes a net to train from any Darknet cfg that ends in ``[region]``. It returns the raw map, as ``yolov2`` does.

:func:`gluonops.darknet.load` makes a net for inference from such a cfg, which applies the ``[region]`` layer. The net
here leaves the layer out. It has classes, anchors, a backbone and a detector like :class:`gluonops.models.YOLOv2`, so
the same loss and the same scripts train it. For a cfg with ``[yolo]`` layers, such as YOLOv3's, use
:func:`gluonops.darknet.load` and :meth:`gluonops.darknet.DarknetNet.loss`.
"""
from __future__ import annotations

import os
from collections.abc import Sequence

import numpy.typing as npt
from gluonops import darknet
from gluonops.backends.layer import EitherModeBlock
from gluonops.contract.errors import OpError, plural
from gluonops.darknet.net import run_layers
from mxnet.gluon import HybridBlock

from .weights import network
from .yolov2 import YOLOv2Base

WHERE = "models.region_detector"


class _Layers(EitherModeBlock):
    """Some layers of a cfg's net, in order. If they are the first layers, the output is that of the last of them."""

    def __init__(self, net: HybridBlock, first: int, end: int, **kwargs):
        super().__init__(**kwargs)
        self._sources = net._sources[first:end]
        for name, layer in list(net._children.items())[first:end]:
            self.register_child(layer, name)

    def hybrid_forward(self, F, data):
        return run_layers(self._children.values(), self._sources, data)[-1]


class RegionDetector(YOLOv2Base):
    """The net of a Darknet cfg that ends in ``[region]``, to train.

    ``load_darknet`` loads weights of the cfg, as long as the net has the classes of the cfg.

    Parameters
    ----------
    cfg : str or os.PathLike
        For example ``yolov2-voc.cfg``. The layer before ``[region]`` has to be a convolution.
    classes : int or sequence of str, optional
        Names of the classes, or their number. The default is that of the cfg. The output layer follows from them.
    backbone_layers : int, optional
        Number of layers of the cfg that are the backbone, which ``--freeze`` and pretraining concern. It is the number
        of layers in a file of first layers, such as 23 for ``darknet19_448.conv.23``. By default all layers but the
        output are the backbone.
    anchors : array_like, optional
        (A, 2) in cells, as many as in the cfg. The default is those of the cfg.

    Attributes
    ----------
    input_shape : tuple of int
        (channels, height, width) of the cfg.

    Inputs:
        - **data**: (B, channels, H, W), H and W multiples of ``stride``, RGB from 0 to 1.

    Outputs:
        - **out**: the raw map, (B, A*(5+K), H/stride, W/stride).

    Raises
    ------
    OpError
        The cfg cannot be read, or does not end in a convolution and ``[region]``.
    """

    def __init__(self, cfg: str | os.PathLike, classes: int | Sequence[str] | None = None,
                 backbone_layers: int | None = None, anchors: npt.ArrayLike | None = None, **kwargs):
        net = darknet.load(cfg)
        _check(cfg, net)
        head, region = net._detections[0], net[-1]
        self.stride = head.stride
        super().__init__(head.classes, head.anchors / head.stride if anchors is None else anchors, **kwargs)
        if len(self.anchors) != len(head.anchors):
            raise OpError(WHERE,
                          f"anchors has {plural(len(self.anchors), 'pair')}; expected {len(head.anchors)}, as in {cfg}",
                          f"Pass {len(head.anchors)} pairs, or change num and filters in the cfg")
        self.input_shape, self.class_softmax = net.input_shape, region._options["softmax"]
        layers = len(net) - 2   # the output convolution and [region] are left out
        split = layers if backbone_layers is None else backbone_layers
        if not 0 < split <= layers:
            raise OpError(WHERE, f"backbone_layers is {split}; expected 1 to {layers}, the layers of {cfg} before its "
                          "output", f"Pass a number from 1 to {layers}")
        with self.name_scope():
            self.backbone = _Layers(net, 0, split, prefix="backbone_")
            self.head = _Layers(net, split, layers, prefix="head_")
            self.output = net[-2]
        if classes is not None:
            self.reset_class(classes)

    def hybrid_forward(self, F, data):
        layers = [*self.backbone._children.values(), *self.head._children.values()]
        sources = self.backbone._sources + self.head._sources
        return self.output(run_layers(layers, sources, data)[-1])


def _check(cfg, net):
    kinds = [name.split("_", 1)[1] for name in net._children]
    if "yolo" in kinds:
        raise OpError(WHERE, f"{cfg} has [yolo] layers; expected [region]",
                      "Name a cfg that ends in [region], or train the net of gluonops.darknet.load with net.loss()")
    if kinds[-2:] != ["convolutional", "region"] or kinds.count("region") != 1:
        raise OpError(WHERE, f"{cfg} ends in {' and '.join(f'[{kind}]' for kind in kinds[-2:])}; expected "
                      "[convolutional] and [region]", "Name the cfg of a detector")


region_detector = network("region_detector", RegionDetector, "Load the file of the cfg with net.load_darknet")
